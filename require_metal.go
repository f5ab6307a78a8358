//go:build metal

package ggml

func init() { required["metal"] = "MTL" }

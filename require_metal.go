//go:build metal

package ggml

func init() { required = append(required, "MTL") }

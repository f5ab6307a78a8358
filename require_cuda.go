//go:build cuda

package ggml

func init() { required["cuda"] = "CUDA" }

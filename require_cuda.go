//go:build cuda

package ggml

func init() { required = append(required, "CUDA") }

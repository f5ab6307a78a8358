//go:build cpu

package ggml

func init() { onlyCPU = true }

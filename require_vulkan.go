//go:build vulkan

package ggml

func init() { required = append(required, "Vulkan") }

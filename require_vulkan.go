//go:build vulkan

package ggml

func init() { required["vulkan"] = "Vulkan" }

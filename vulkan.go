package ggml

// VulkanDevices lists the GPUs of the Vulkan backend. [Device.Description] returns a GPU's name,
// [Device.Properties] its memory sizes, [Device.BufferType] its memory, and [Device.HostBufferType]
// pinned system memory. Without the Vulkan backend it fails with [ErrNotLoaded] and says how to
// install it. A program built with the tag vulkan requires at least one at start. C:
// ggml_backend_vk_get_device_count, ggml_backend_vk_get_device_description,
// ggml_backend_vk_get_device_memory, ggml_backend_vk_buffer_type, ggml_backend_vk_host_buffer_type,
// ggml_backend_vk_reg.
func VulkanDevices() ([]*Device, error) { return backendDevices("Vulkan") }

// NewVulkanBackend opens the GPU with the given number, from 0. C: ggml_backend_vk_init.
func NewVulkanBackend(device int) (*Backend, error) { return newNumberedBackend("Vulkan", device) }

// IsVulkan reports whether the backend is on a Vulkan device. C: ggml_backend_is_vk.
func (b *Backend) IsVulkan() bool { return b.isOf("Vulkan") }

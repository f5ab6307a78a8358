package gpudriver

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	const cuda = "\x00libcuda.so.1\x00/usr/lib/x86_64-linux-gnu/libcuda.so.1\x00"
	const icds = "usr/share/vulkan/icd.d/"
	node := func(driver string) string { return "DRIVER=" + driver + "\nPCI_CLASS=30000\n" }
	for name, c := range map[string]struct {
		files map[string]string
		want  []Driver
	}{
		"no GPU": {map[string]string{"etc/ld.so.cache": "\x00libc.so.6\x00", icds + "lvp_icd.x86_64.json": "{}"}, nil},
		"NVIDIA": {map[string]string{"dev/nvidiactl": "", "etc/ld.so.cache": cuda}, []Driver{{"NVIDIA", "CUDA"}}},
		"NVIDIA, with Vulkan": {map[string]string{
			"dev/nvidiactl": "", "etc/ld.so.cache": cuda, "etc/vulkan/icd.d/nvidia_icd.json": "{}", "sys/class/drm/renderD128/device/uevent": node("nvidia"),
		}, []Driver{{"NVIDIA", "CUDA"}, {"NVIDIA", "Vulkan"}}},
		"a container without NVIDIA's libraries": {map[string]string{"dev/nvidiactl": "", "etc/ld.so.cache": "\x00libcuda.so.10\x00"}, nil},
		"a container with them":                  {map[string]string{"dev/nvidiactl": "", "usr/local/nvidia/lib64/libcuda.so.1": ""}, []Driver{{"NVIDIA", "CUDA"}}},
		"NVIDIA's libraries without a GPU":       {map[string]string{"etc/ld.so.cache": cuda}, nil},
		"WSL":                                    {map[string]string{"dev/dxg": "", "usr/lib/wsl/lib/libcuda.so.1": ""}, []Driver{{"NVIDIA", "CUDA"}}},
		"AMD and Intel": {map[string]string{
			"sys/class/drm/renderD128/device/uevent": node("amdgpu"), "sys/class/drm/renderD129/device/uevent": node("xe"), "sys/class/drm/renderD130/device/uevent": node("amdgpu"),
			icds + "radeon_icd.json": "{}", icds + "intel_icd.json": "{}", icds + "lvp_icd.json": "{}",
		}, []Driver{{"AMD", "Vulkan"}, {"Intel", "Vulkan"}}},
		"AMD's, installed without Vulkan": {map[string]string{"sys/class/drm/renderD128/device/uevent": node("amdgpu"), icds + "intel_icd.json": "{}"}, nil},
		"a virtual machine":               {map[string]string{"sys/class/drm/renderD128/device/uevent": node("virtio-pci"), icds + "virtio_icd.json": "{}", icds + "lvp_icd.json": "{}"}, nil},
		"a screen alone":                  {map[string]string{"sys/class/drm/card0/device/uevent": node("amdgpu"), icds + "radeon_icd.json": "{}"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, Find(root))
		})
	}
}

// Package gpudriver finds the GPU drivers of the system, without ggml and its plugins, so that
// programs can explain why a machine with a GPU computes on the processor.
package gpudriver

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Driver is a driver that a plugin of ggml could use.
type Driver struct {
	GPU     string // maker of the GPU: "NVIDIA"
	Backend string // ggml's backend, by the name of its registry: "CUDA", "Vulkan"
}

// kernelDrivers maps Linux's kernel drivers for GPUs to the maker, with a part of the names of
// their Vulkan ICD files. Virtual GPUs and server consoles are omitted: they compute nothing.
var kernelDrivers = map[string]struct {
	maker string
	icds  []string
}{
	"nvidia":  {"NVIDIA", []string{"nvidia"}},
	"nouveau": {"NVIDIA", []string{"nouveau"}},
	"amdgpu":  {"AMD", []string{"radeon", "amd"}},
	"i915":    {"Intel", []string{"intel"}},
	"xe":      {"Intel", []string{"intel"}},
	"asahi":   {"Apple", []string{"asahi"}},
}

// Find lists the drivers of a Linux system, the fastest first. root is "/".
func Find(root fs.FS) []Driver {
	var found []Driver
	if exists(root, "dev/nvidiactl", "dev/dxg", "dev/nvhost-gpu") && hasLibrary(root, "libcuda.so.1") {
		found = append(found, Driver{"NVIDIA", "CUDA"})
	}
	icds := glob(root, "usr/share/vulkan/icd.d/*.json", "etc/vulkan/icd.d/*.json", "usr/local/share/vulkan/icd.d/*.json")
	for _, event := range glob(root, "sys/class/drm/renderD*/device/uevent") {
		k := kernelDrivers[field(root, event, "DRIVER=")]
		known := func(icd string) bool {
			return slices.ContainsFunc(k.icds, func(name string) bool { return strings.HasPrefix(path.Base(icd), name) })
		}
		if d := (Driver{k.maker, "Vulkan"}); slices.ContainsFunc(icds, known) && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	return found
}

// hasLibrary reports whether the loader finds a library: in its cache, or in the folders of drivers
// that containers and WSL mount.
func hasLibrary(root fs.FS, name string) bool {
	cache, _ := fs.ReadFile(root, "etc/ld.so.cache")
	return bytes.Contains(cache, append([]byte(name), 0)) ||
		exists(root, "usr/local/nvidia/lib64/"+name, "usr/lib/wsl/lib/"+name)
}

func exists(root fs.FS, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		_, err := fs.Stat(root, p)
		return err == nil
	})
}

func glob(root fs.FS, patterns ...string) []string {
	var all []string
	for _, p := range patterns {
		found, _ := fs.Glob(root, p)
		all = append(all, found...)
	}
	return all
}

// field returns the rest of the line that begins with a name.
func field(root fs.FS, file, name string) string {
	text, _ := fs.ReadFile(root, file)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

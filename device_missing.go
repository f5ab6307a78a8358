package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/goggml/ggml/internal/gpudriver"
	"github.com/goggml/ggml/internal/testhook"
)

// installHints explains how to get devices that no GPU plugin provides.
var installHints = map[string]string{
	"CPU":  "run scripts/vendor, or install your system's ggml package",
	"BLAS": "apt-get install " + pluginPackage("blas") + " libopenblas0",
	"RPC":  "apt-get install " + pluginPackage("rpc"),
}

// pluginPackage returns the name of Debian's package of a plugin, which has the major version of ggml.
func pluginPackage(name string) string {
	return fmt.Sprintf("libggml%d-backend-%s", append(versionNumbers(Version()), 0)[0], name)
}

// gpuPlugins lists the plugins for GPUs by the name of their registry.
var gpuPlugins = map[string]struct {
	name   string // part of its file name and its package name
	driver string // driver that it needs
}{
	"CUDA":   {"cuda", "it needs an NVIDIA GPU with its driver: nvidia-smi lists them"},
	"Vulkan": {"vulkan", "it needs a GPU whose driver has Vulkan: vulkaninfo --summary lists them; GGML_VK_VISIBLE_DEVICES=0 also accepts devices that are no GPU"},
	"MTL":    {"metal", "it needs one of Apple's GPUs"},
}

// notLoaded returns an error that names what the machine lacks for devices of a backend, and how to
// get it.
func notLoaded(name string) error {
	return fmt.Errorf("ggml: %s %w: %s", name, ErrNotLoaded, missing(name))
}

func missing(name string) string {
	plugin, ofGPU := gpuPlugins[name]
	switch {
	case !ofGPU:
		return installHints[name]
	case name == "MTL" && runtime.GOOS != "darwin":
		return "it is only for Apple's GPUs, on macOS (brew install ggml); use CUDA or Vulkan on other systems"
	case name != "MTL" && runtime.GOOS == "darwin":
		return "macOS does not support it; use Metal for Apple's GPUs (brew install ggml)"
	case isTakenOff(name):
		return "Unload has removed it" + unloadedHint()
	}
	for _, folder := range testhook.PluginFolders(pluginFolders()) {
		file := filepath.Join(folder, "libggml-"+plugin.name+".so")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		why := withCString(file, func(s *C.char) *C.char { return C.goggml_open_failure(s) })
		if why == nil {
			return "its plugin finds no device; " + plugin.driver
		}
		defer C.free(unsafe.Pointer(why))
		reason := strings.TrimPrefix(C.GoString(why), file+": ")
		if strings.HasPrefix(reason, "libcuda.so") {
			return "its plugin cannot be opened: " + reason + "; " + plugin.driver
		}
		return "its plugin cannot be opened: " + reason + "; " + getPlugin(plugin.name)
	}
	return "ggml has no plugin for it; " + getPlugin(plugin.name)
}

// getPlugin explains how to get a GPU plugin, depending on where ggml comes from.
func getPlugin(name string) string {
	note, _ := upstream.ReadFile("ggml/UPSTREAM.installed")
	if runtime.GOOS == "darwin" {
		return "brew install ggml"
	}
	vendored, system := "run scripts/vendor --gpu "+name, "install it (Debian, Ubuntu: apt-get install "+pluginPackage(name)+")"
	switch fields := strings.Fields(string(note)); {
	case len(fields) < 2: // the module is not a clone
		return vendored + " in the clone that has ggml, or " + system
	case fields[1] == "system":
		return system
	}
	return vendored
}

// UnusedGPU returns a line about a GPU that the system has a driver for and ggml does not find, and
// how to get the plugin. It returns "" if ggml finds any GPU, or the system has no driver. It is
// for programs that compute on the CPU by default.
func UnusedGPU() string {
	devices, err := Devices()
	if err != nil || onlyCPU {
		return ""
	}
	for _, d := range devices {
		if d.Type() == GPU || d.Type() == IntegratedGPU {
			return ""
		}
	}
	for _, d := range gpudriver.Find(testhook.System) {
		return fmt.Sprintf("this machine has a driver for an %s GPU, and ggml does not use it: %s: %s", d.GPU, d.Backend, missing(d.Backend))
	}
	return ""
}

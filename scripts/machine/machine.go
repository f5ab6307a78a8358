// Package machine describes the machine of a measurement, without names of hosts and folders.
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Processor returns the name of the processor.
func Processor() string {
	if name := Field("/proc/cpuinfo", "model name", ":"); name != "" {
		return name
	}
	if name, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
		return strings.TrimSpace(string(name))
	}
	return runtime.GOARCH
}

// Memory returns the size of the memory.
func Memory() string {
	var kB, bytes float64
	fmt.Sscan(Field("/proc/meminfo", "MemTotal", ":"), &kB)
	if size, err := exec.Command("sysctl", "-n", "hw.memsize").Output(); kB == 0 && err == nil {
		fmt.Sscan(string(size), &bytes)
	}
	if bytes += kB * 1024; bytes == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.0f GB", bytes/1e9)
}

// System returns the operating system.
func System() string {
	if name := strings.Trim(Field("/etc/os-release", "PRETTY_NAME", "="), `"`); name != "" {
		return name + ", " + runtime.GOARCH
	}
	return runtime.GOOS + ", " + runtime.GOARCH
}

// Field returns the value of the first line of a file with this name, or "".
func Field(file, name, separator string) string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

type fact struct{ key, value string }

// machineFacts describe the machine and what is installed, without names of
// hosts and folders. What a library says of itself comes from the benchmarks.
func machineFacts() []fact {
	facts := []fact{
		{"processor", processor()},
		{keyCores, strconv.Itoa(runtime.GOMAXPROCS(0))},
		{"memory", memory()},
		{"system", system()},
		{"go", strings.TrimPrefix(runtime.Version(), "go")},
	}
	for _, program := range []fact{{keyLlama, "build/llamacpp/.installed"}, {keyPyTorch, "build/peft/.installed"}} {
		if version, err := os.ReadFile(program.value); err == nil {
			facts = append(facts, fact{program.key, strings.TrimSpace(string(version))})
		}
	}
	return facts
}

func processor() string {
	if name := field("/proc/cpuinfo", "model name", ":"); name != "" {
		return name
	}
	if name, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
		return strings.TrimSpace(string(name))
	}
	return runtime.GOARCH
}

func memory() string {
	var kB, bytes float64
	fmt.Sscan(field("/proc/meminfo", "MemTotal", ":"), &kB)
	if size, err := exec.Command("sysctl", "-n", "hw.memsize").Output(); kB == 0 && err == nil {
		fmt.Sscan(string(size), &bytes)
	}
	if bytes += kB * 1024; bytes == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.0f GB", bytes/1e9)
}

func system() string {
	if name := strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`); name != "" {
		return name + ", " + runtime.GOARCH
	}
	return runtime.GOOS + ", " + runtime.GOARCH
}

// field is the value of the first line of a file that has the name, "" when
// there is none.
func field(file, name, separator string) string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/scripts/machine"
)

// machineFacts describe the machine, its driver and its devices, without names of hosts and folders.
func machineFacts() [][2]string {
	facts := [][2]string{{"ggml", ggml.Version()}, {"processor", fmt.Sprintf("%s, %d cores", machine.Processor(), runtime.NumCPU())}}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		facts = append(facts, [2]string{"system", strings.Trim(machine.Field("/etc/os-release", "PRETTY_NAME", "="), `"`) + ", Linux " + strings.TrimSpace(string(kernel))})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm", "--format=csv,noheader").Output()
	for line := range strings.Lines(string(out)) {
		facts = append(facts, [2]string{"nvidia-smi", strings.TrimSpace(line)})
	}
	if err != nil {
		facts = append(facts, [2]string{"nvidia-smi", "none"})
	}
	devices, err := ggml.Devices()
	if err != nil {
		return append(facts, [2]string{"devices", err.Error()})
	}
	for _, d := range devices {
		p := d.Properties()
		facts = append(facts, [2]string{d.Name(), fmt.Sprintf("%s, %.1f GB", d.Description(), float64(p.MemoryTotal)/1e9)})
	}
	return facts
}

package ggml

import (
	"os"
	"path/filepath"
)

// physicalCores counts the processor's cores by the siblings that share one;
// 0 when the system does not tell.
func physicalCores() int {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	cores := map[string]bool{}
	for _, f := range files {
		if siblings, err := os.ReadFile(f); err == nil {
			cores[string(siblings)] = true
		}
	}
	return len(cores)
}

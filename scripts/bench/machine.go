package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/goggml/ggml/scripts/machine"
)

type fact struct{ key, value string }

// machineFacts describe the machine and the installed software, without names of hosts and folders. Versions of
// libraries come from the benchmarks.
func machineFacts() []fact {
	facts := []fact{
		{keyProcessor, machine.Processor()},
		{keyCores, strconv.Itoa(runtime.GOMAXPROCS(0))},
		{"memory", machine.Memory()},
		{"system", machine.System()},
		{"go", strings.TrimPrefix(runtime.Version(), "go")},
	}
	for _, program := range []fact{{keyLlama, "build/llamacpp/.installed"}, {keyPyTorch, "build/peft/.installed"}} {
		if version, err := os.ReadFile(program.value); err == nil {
			facts = append(facts, fact{program.key, strings.TrimSpace(string(version))})
		}
	}
	return facts
}

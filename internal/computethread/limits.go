package computethread

// #include "limits.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// CheckTeam checks that OpenMP can start a team of n threads: libgomp ends the process if it cannot
// start a thread, and threads with too small a stack end it later.
func CheckTeam(n int) error {
	if n < 2 {
		return nil
	}
	if err := checkStack(); err != nil {
		return err
	}
	if !C.goggml_can_start_threads(C.int(n)) {
		return fmt.Errorf("the system cannot start that many: use fewer, or raise the limit of processes (ulimit -u) or of memory (ulimit -v)")
	}
	return nil
}

// leastStack is the minimum stack for the kernels of ggml and of GEMM libraries.
const leastStack = 256 << 10

// checkStack reads the size of OpenMP's stacks as libgomp does.
func checkStack() error {
	for _, name := range []string{"OMP_STACKSIZE", "GOMP_STACKSIZE"} {
		text, set := os.LookupEnv(name)
		size, ok := parseStackSize(text)
		if !set || !ok {
			continue
		}
		if size < leastStack {
			return fmt.Errorf("%s is %s, which is too small a stack to compute on: make it at least %dk, or unset it", name, text, leastStack>>10)
		}
		return nil
	}
	return nil
}

// parseStackSize parses a number with a unit B, K, M or G; the default is K.
func parseStackSize(text string) (size uint64, ok bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	shift := 10
	if text != "" {
		if i := strings.IndexByte("BKMG", text[len(text)-1]); i >= 0 {
			text, shift = strings.TrimSpace(text[:len(text)-1]), 10*i
		}
	}
	size, err := strconv.ParseUint(text, 10, 64-30)
	return size << shift, err == nil
}

// The address space that OpenBLAS takes when loaded: its code and a buffer of 128 MB; and for each thread that it then starts:
// another buffer, the stack, and 128 MB in which malloc aligns an arena.
const (
	openBLASSize      = 200 << 20
	openBLASPerThread = 280 << 20
)

// CheckAddressSpace checks that OpenBLAS can be loaded: without memory for its buffer it retries
// forever.
func CheckAddressSpace() error {
	if !C.goggml_can_map(openBLASSize) {
		return fmt.Errorf("fewer than %d MB of address space are left: raise the limit (ulimit -v)", openBLASSize>>20)
	}
	return nil
}

// LimitBLASThreads is called before loading a library that may be OpenBLAS, and restore after it.
// When loaded, OpenBLAS starts a thread for each processor, and raises SIGINT if it cannot. In that
// case LimitBLASThreads makes it start none, unless the environment sets a number.
func LimitBLASThreads() (restore func()) {
	const variable = "OPENBLAS_NUM_THREADS"
	n := runtime.NumCPU()
	if _, set := os.LookupEnv(variable); set {
		return func() {}
	}
	if C.goggml_can_map(C.size_t(openBLASSize+(n-1)*openBLASPerThread)) && C.goggml_can_start_threads(C.int(n)) {
		return func() {}
	}
	os.Setenv(variable, "1")
	return func() { os.Unsetenv(variable) }
}

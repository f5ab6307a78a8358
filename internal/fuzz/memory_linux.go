package fuzz

/*
#include <stddef.h>

// Not all C libraries have it.
extern int malloc_trim(size_t pad) __attribute__((weak));

static void trim(void) {
	if (malloc_trim != NULL) {
		malloc_trim(0);
	}
}
*/
import "C"

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// residentBytes returns the resident memory of the process, or 0 if unknown.
func residentBytes() int64 {
	debug.FreeOSMemory()
	C.trim() // free memory that malloc retains is not a leak
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

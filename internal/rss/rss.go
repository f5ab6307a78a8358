// Package rss reports the resident set size of this process: the physical
// memory that it occupies, in bytes; and for tests, what is reachable of the
// heap. All functions are safe for use by several goroutines.
package rss

import (
	"cmp"
	"os"
	"strconv"
	"strings"
)

// Now is the resident set size, 0 where it is not known, as on macOS.
func Now() uint64 { return statusField("VmRSS:") }

// Peak returns the largest resident set size so far; 0 if unknown. Of Linux's two sources getrusage
// is the worse: it also counts the process before it became this program.
func Peak() uint64 { return cmp.Or(statusField("VmHWM:"), maxrss()) }

// statusField is a field of Linux's /proc/self/status in bytes, 0 where there
// is none.
func statusField(name string) uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			kib, _ := strconv.ParseUint(fields[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}

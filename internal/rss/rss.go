// Package rss reports the resident set size of this process, the physical memory that it occupies, in bytes;
// and for tests, the reachable memory of the heap. All functions are safe for concurrent use.
package rss

import (
	"cmp"
	"os"
	"strconv"
	"strings"
)

// Now returns the resident set size, or 0 if unknown, as on macOS.
func Now() uint64 { return statusField("VmRSS:") }

// Peak returns the largest resident set size so far, or 0 if unknown. Of Linux's two sources getrusage is
// worse: it includes the time before the process executed this program.
func Peak() uint64 { return cmp.Or(statusField("VmHWM:"), maxrss()) }

// statusField returns a field of Linux's /proc/self/status in bytes, or 0 if absent.
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

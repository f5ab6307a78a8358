package progress

import "golang.org/x/sys/unix"

// The current size is only told by Mach calls, which need cgo.
func rss() uint64 { return 0 }

func peakRSS() uint64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return uint64(usage.Maxrss) // in bytes here, unlike elsewhere
}

// available counts the pages that are free, and those whose contents can be
// thrown away at once.
func available() uint64 {
	var pages uint64
	for _, name := range []string{"vm.page_free_count", "vm.page_speculative_count", "vm.page_purgeable_count"} {
		n, err := unix.SysctlUint32(name)
		if err == nil {
			pages += uint64(n)
		}
	}
	return pages * uint64(unix.Getpagesize())
}

// Package limits reads how many processors and how much memory the system allows the process. A
// container limits both by control groups, of version 1 or 2.
package limits

import (
	"io/fs"
	"os"
	"runtime"
)

var system = os.DirFS("/")

// atStart are the processors that the process may run on, before libraries bind threads to some.
var atStart = affinity(system)

// Processors is how many threads can compute at the same time: one for each processor that the
// process may run on, but no more than the quota of its control groups feeds.
//
// Go's own GOMAXPROCS follows a quota only where go.mod says Go 1.25 or newer, and not below 2.
func Processors() int { return min(runtime.GOMAXPROCS(0), quota(system)) }

// Cores is Processors, but no more than the physical cores that the process may run on.
func Cores() int {
	n := Processors()
	if cores := cores(system, atStart); cores > 0 {
		n = min(n, cores)
	}
	return n
}

// Machine is how many processors the machine has, but no more than the quota feeds: the processes
// that a launcher starts on it share them.
func Machine() int { return min(max(len(online(system)), runtime.NumCPU()), quota(system)) }

// Memory returns how many bytes the system can still give the process; false if it is not Linux. It
// is MemAvailable, which includes the page cache of files, bounded by the control groups and the
// limits (ulimit) of the process.
func Memory() (int64, bool) { return memory(system) }

func memory(root fs.FS) (int64, bool) {
	kB, ok := field(root, "proc/meminfo", "MemAvailable:")
	if !ok {
		return 0, false
	}
	return min(kB<<10, groupMemory(root), processMemory(root)), true
}

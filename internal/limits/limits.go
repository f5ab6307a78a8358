// Package limits reads how many processors and how much memory the system allows the process. A
// container limits both by control groups, of version 1 or 2.
package limits

import (
	"io/fs"
	"os"
	"runtime"
)

var system = os.DirFS("/")

// atStart lists the processors that the process may run on, read before libraries bind threads to
// some.
var atStart = affinity(system)

// Processors returns the number of threads that can compute at the same time: one per processor
// that the process may run on, limited by the quota of its control groups.
//
// Go's own GOMAXPROCS follows a quota only if go.mod says Go 1.25 or newer, and not below 2.
func Processors() int { return min(runtime.GOMAXPROCS(0), quota(system)) }

// Cores is Processors limited to the physical cores that the process may run on.
func Cores() int {
	n := Processors()
	if cores := cores(system, atStart); cores > 0 {
		n = min(n, cores)
	}
	return n
}

// Machine returns the number of processors of the machine, limited by the quota: processes that a
// launcher starts on the machine share them.
func Machine() int { return min(max(len(online(system)), runtime.NumCPU()), quota(system)) }

// Memory returns the bytes that the system can still give the process; false if it is not Linux. It
// is MemAvailable, which includes the page cache of files, limited by the control groups and the
// limits (ulimit) of the process.
func Memory() (int64, bool) { return memory(system) }

func memory(root fs.FS) (int64, bool) {
	kB, ok := field(root, "proc/meminfo", "MemAvailable:")
	if !ok {
		return 0, false
	}
	return min(kB<<10, groupMemory(root), processMemory(root)), true
}

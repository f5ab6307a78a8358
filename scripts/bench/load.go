package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// most is the number of cores that other programs may use while benchmarks run.
const most = 0.1

// A load measures the processor time that other programs use.
type load struct {
	begun     time.Time
	all, ours time.Duration
	known     bool
}

func startLoad() load {
	all, ok := processorTime()
	return load{time.Now(), all, ownTime(), ok}
}

// others returns the mean number of cores that other programs used.
func (l load) others() (cores float64, ok bool) {
	all, ok := processorTime()
	spent := all - l.all - (ownTime() - l.ours)
	return max(0, spent.Seconds()/time.Since(l.begun).Seconds()), ok && l.known
}

// processorTime returns the processor time of all programs, and of other virtual machines on the same
// processor, since the start; it needs Linux.
func processorTime() (time.Duration, bool) {
	const tick = 10 * time.Millisecond
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, false
	}
	var busy time.Duration
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false
		}
		const idle, waiting = 3, 4
		if i != idle && i != waiting {
			busy += time.Duration(n) * tick
		}
	}
	return busy, true
}

// ownTime returns the processor time of this program and its children.
func ownTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

package limits

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// quota returns the number of threads that the quotas of the process's control groups allow. It is
// rounded to the nearest number: two threads train faster than one on 1.5 processors, and slower
// on 1.
func quota(root fs.FS) int {
	least := float64(math.MaxInt32)
	for _, g := range groups(root, "cpu") {
		words := append(g.words(root, "cpu.cfs_quota_us"), g.words(root, "cpu.cfs_period_us")...)
		if g.version2 {
			words = g.words(root, "cpu.max")
		}
		if len(words) < 2 {
			continue
		}
		time, err1 := strconv.ParseFloat(words[0], 64) // "max" or −1 if there is no quota
		period, err2 := strconv.ParseFloat(words[1], 64)
		if err1 == nil && err2 == nil && time > 0 && period > 0 {
			least = min(least, time/period)
		}
	}
	return max(1, int(math.Round(least)))
}

// affinity returns the processors that the process may run on, nil if unknown.
func affinity(root fs.FS) []int {
	if words := fields(root, "proc/self/status", "Cpus_allowed_list:"); words != nil {
		return parseList(words[0])
	}
	return nil
}

// online returns the machine's processors, nil if unknown.
func online(root fs.FS) []int {
	data, _ := fs.ReadFile(root, "sys/devices/system/cpu/online")
	return parseList(string(data))
}

// cores returns the number of physical cores of processors, by the siblings that share one; 0 if
// unknown.
func cores(root fs.FS, processors []int) int {
	cores := map[string]bool{}
	for _, n := range processors {
		siblings, err := fs.ReadFile(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", n))
		if err == nil {
			cores[string(siblings)] = true
		}
	}
	return len(cores)
}

// parseList parses a list such as 0-3,8-11; nil if invalid.
func parseList(text string) (list []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || last-first >= 1<<16 {
			return nil
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}

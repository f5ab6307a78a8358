package parallel

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machineProcessors counts those of the machine, of which a process may have some.
func machineProcessors() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online") // such as 0-3,8-11
	if err != nil {
		return runtime.NumCPU()
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil {
			return runtime.NumCPU()
		}
		n += last - first + 1
	}
	return max(n, runtime.NumCPU())
}

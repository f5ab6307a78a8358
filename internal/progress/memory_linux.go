package progress

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func rss() uint64 { return kibField("/proc/self/status", "VmRSS:") }

func peakRSS() uint64 {
	if peak := kibField("/proc/self/status", "VmHWM:"); peak > 0 {
		return peak
	}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return uint64(usage.Maxrss) * 1024
}

func available() uint64 {
	free := kibField("/proc/meminfo", "MemAvailable:")
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return free
	}
	if room, limited := cgroupRoom("/sys/fs/cgroup", string(groups)); limited && free > 0 {
		free = min(free, room)
	}
	return free
}

// kibField reads a field that is given in kB, in bytes; 0 if there is none.
func kibField(file, name string) uint64 {
	n, _ := numberAfter(file, name)
	return n * 1024
}

// numberAfter finds a line that starts with name and returns the number that
// follows there.
func numberAfter(file, name string) (uint64, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for _, line := range bytes.Split(data, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) > 1 && string(fields[0]) == name {
			n, err := strconv.ParseUint(string(fields[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// controller names the files of one version of control groups.
type controller struct{ root, limit, usage, cache string }

// cgroupRoom is the memory left in the groups that groups lists, the contents
// of /proc/self/cgroup, and in those around them.
func cgroupRoom(root, groups string) (room uint64, limited bool) {
	for _, line := range strings.Split(groups, "\n") {
		parts := strings.SplitN(line, ":", 3) // hierarchy:controllers:group
		if len(parts) != 3 {
			continue
		}
		var c controller
		switch {
		case parts[0] == "0" && parts[1] == "":
			c = controller{root, "memory.max", "memory.current", "inactive_file"}
		case hasController(parts[1], "memory"):
			c = controller{path.Join(root, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
		default:
			continue
		}
		for group := path.Join("/", parts[2]); ; group = path.Dir(group) {
			if left, ok := c.roomIn(group); ok && (!limited || left < room) {
				room, limited = left, true
			}
			if group == "/" {
				break
			}
		}
	}
	return room, limited
}

// roomIn is the limit of a group less its use. The cache of files counts as
// used, but is given back when needed.
func (c controller) roomIn(group string) (uint64, bool) {
	dir := path.Join(c.root, group)
	limit, ok := number(path.Join(dir, c.limit))
	if !ok { // "max", or no such file
		return 0, false
	}
	usage, ok := number(path.Join(dir, c.usage))
	if !ok {
		return 0, false
	}
	cache, _ := numberAfter(path.Join(dir, "memory.stat"), c.cache)
	used := usage - min(usage, cache)
	return limit - min(limit, used), true
}

func number(file string) (uint64, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

func hasController(list, name string) bool {
	for _, c := range strings.Split(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

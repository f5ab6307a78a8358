package limits

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// groupMemory returns the smallest free memory in the control groups of the process: the limit of
// each minus its use. Cached file pages do not count as used, because the kernel drops them first.
func groupMemory(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	for _, g := range groups(root, "memory") {
		limits, usage, prefix := []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_"
		if g.version2 {
			limits, usage, prefix = []string{"memory.max", "memory.high"}, "memory.current", ""
		}
		used, known := field(root, path.Join(g.folder, usage), "")
		for _, name := range []string{"active_file", "inactive_file"} {
			cached, _ := field(root, path.Join(g.folder, "memory.stat"), prefix+name)
			used -= cached
		}
		for _, name := range limits {
			if limit, limited := field(root, path.Join(g.folder, name), ""); known && limited { // "max" does not parse
				least = min(least, max(0, limit-max(0, used)))
			}
		}
	}
	return least
}

// processMemory returns the memory left by the process's own limits on its data and its address
// space.
func processMemory(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	for limit, used := range map[string]string{"Max data size": "VmData:", "Max address space": "VmSize:"} {
		most, limited := field(root, "proc/self/limits", limit)
		kB, known := field(root, "proc/self/status", used)
		if limited && known { // "unlimited" does not parse
			least = min(least, max(0, most-kB<<10))
		}
	}
	return least
}

// field returns the number after a name that begins a line; without a name, the first number.
func field(root fs.FS, file, name string) (int64, bool) {
	words := fields(root, file, name)
	if words == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	return n, err == nil
}

// fields returns the words after a name that begins a line; without a name, the words of the first
// line with any.
func fields(root fs.FS, file, name string) []string {
	data, _ := fs.ReadFile(root, file)
	for line := range strings.Lines(string(data)) {
		rest, found := strings.CutPrefix(line, name)
		if words := strings.Fields(rest); found && len(words) > 0 && (name == "" || rest != strings.TrimLeft(rest, " \t")) {
			return words
		}
	}
	return nil
}

package device

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/goggml/ggml"
)

// AvailableMemory is how much memory the engine's devices can still give: what they report, and
// [AvailableHostMemory] of the CPU. A device that reports none is said to have any amount.
//
// That of the CPU is taken as it is written to: what is allocated and not written, and what is
// mapped from a file, is still available.
func (e *Engine) AvailableMemory() Sizes {
	if len(e.places.devices) == 0 { // of a zero value
		return nil
	}
	return append(freeMemory(e.places.devices[:len(e.places.devices)-1]), AvailableHostMemory())
}

// freeMemory is what devices other than the CPU report.
func freeMemory(devices []*ggml.Device) Sizes {
	var sizes Sizes
	for _, d := range devices {
		sizes = append(sizes, FreeMemory(d))
	}
	return sizes
}

// FreeMemory is what a device other than the CPU reports, and any amount where it reports none.
func FreeMemory(d *ggml.Device) int64 {
	p := d.Properties()
	if p.MemoryTotal == 0 {
		return math.MaxInt64
	}
	return p.MemoryFree
}

// AvailableHostMemory is how many bytes the system can still give programs. On Linux it is
// MemAvailable, which counts what is only cached from files, mapped models too; and no more
// than the control groups of the process leave, as those of a container, nor its limits, such as
// those of ulimit. Elsewhere it is what ggml reports: all memory that there is.
func AvailableHostMemory() int64 {
	if n, ok := linuxAvailable(os.DirFS("/")); ok {
		return n
	}
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return 0
	}
	return cpu.Properties().MemoryFree
}

func linuxAvailable(root fs.FS) (int64, bool) {
	kB, ok := field(root, "proc/meminfo", "MemAvailable:")
	if !ok {
		return 0, false
	}
	return min(kB<<10, groupAvailable(root), limitAvailable(root)), true
}

// limitAvailable is what the limits of the process leave, of its data and of its address space.
func limitAvailable(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	for limit, used := range map[string]string{"Max data size": "VmData:", "Max address space": "VmSize:"} {
		most, limited := field(root, "proc/self/limits", limit)
		kB, known := field(root, "proc/self/status", used)
		if limited && known { // "unlimited" is no number
			least = min(least, max(0, most-kB<<10))
		}
	}
	return least
}

// groupAvailable is what the control groups (version 2) of the process leave: each one's
// limit less what it uses, without what is cached from files.
func groupAvailable(root fs.FS) int64 {
	const mount = "sys/fs/cgroup"
	least := int64(math.MaxInt64)
	for group := groupOf(root); ; group = path.Dir(group) {
		folder := path.Join(mount, group)
		limit, ok1 := field(root, path.Join(folder, "memory.max"), "")
		used, ok2 := field(root, path.Join(folder, "memory.current"), "")
		if ok1 && ok2 { // "max" is no number
			file, _ := field(root, path.Join(folder, "memory.stat"), "file")
			shared, _ := field(root, path.Join(folder, "memory.stat"), "shmem")
			least = min(least, max(0, limit-used+file-shared))
		}
		if group == "/" {
			return least
		}
	}
}

// groupOf is the path of the process's group.
func groupOf(root fs.FS) string {
	data, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path.Clean("/" + group)
		}
	}
	return "/"
}

// field reads the number after a name that begins a line; without a name, the first one.
func field(root fs.FS, file, name string) (int64, bool) {
	data, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if words := strings.Fields(rest); found && len(words) > 0 && (name == "" || rest != strings.TrimLeft(rest, " \t")) {
			n, err := strconv.ParseInt(words[0], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

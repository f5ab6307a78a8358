package mpi

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// missing examines the processes of this machine from the same launch. It returns the fault of a process that
// will not join. Otherwise it reports whether all processes of the launch are here and run this program: then
// they will join as soon as they get processor time.
func (l Launch) missing() (fault string, willJoin bool) {
	daemon := l.daemon(os.Getpid())
	if daemon == 0 { // in a separate container
		return "", false
	}
	programs := map[int]map[string]int{} // by rank, then process ID: a shell may have started another program
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		path, err := os.Readlink(folder + "/exe")
		if rank := l.rankOf(pid); err == nil && rank >= 0 && l.daemon(pid) == daemon {
			if programs[rank] == nil {
				programs[rank] = map[string]int{}
			}
			programs[rank][filepath.Base(path)] = pid
		}
	}
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return "", false
	}
	for _, rank := range slices.Sorted(maps.Keys(programs)) {
		if _, same := programs[rank][filepath.Base(path)]; !same {
			name := slices.Min(slices.Collect(maps.Keys(programs[rank])))
			return fmt.Sprintf("rank %d runs another program (%s, process %d)", rank, name, programs[rank][name]), false
		}
	}
	if len(programs) >= l.local {
		return "", l.local == l.Size && l.local > 0
	}
	for rank := range l.Size {
		if programs[rank] == nil && l.local == l.Size {
			return fmt.Sprintf("rank %d has ended", rank), false
		}
	}
	return fmt.Sprintf("of the %d processes that it has started on this machine only %d are left", l.local, len(programs)), false
}

// daemon returns the launcher's process that started pid: the nearest ancestor without a rank, or 0.
func (l Launch) daemon(pid int) int {
	for pid > 0 && l.rankOf(pid) >= 0 {
		pid = parent(pid)
	}
	return pid
}

// rankOf returns the rank of a process, or −1 if it has none.
func (l Launch) rankOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for variable := range strings.SplitSeq(string(text), "\x00") {
		if value, found := strings.CutPrefix(variable, l.rank+"="); found {
			if rank, err := strconv.Atoi(value); err == nil {
				return rank
			}
		}
	}
	return -1
}

// parent returns the parent of a process, or 0 if unknown.
func parent(pid int) (parent int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(string(text), ')'); i >= 0 { // the name before it may contain any bytes
		_, _ = fmt.Sscanf(string(text[i+1:]), " %s %d", new(string), &parent)
	}
	return parent
}

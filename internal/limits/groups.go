package limits

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A group is the folder of a control group.
type group struct {
	folder   string
	version2 bool
}

func (g group) words(root fs.FS, file string) []string {
	data, _ := fs.ReadFile(root, path.Join(g.folder, file))
	return strings.Fields(string(data))
}

// groups returns the mounted control groups of the process that may limit a controller, with their
// ancestors.
func groups(root fs.FS, controller string) (list []group) {
	own := ownGroups(root)
	mounts, _ := fs.ReadFile(root, "proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		// 36 35 98:0 /root /mount/point rw,noatime master:1 - cgroup2 source options
		mount, filesystem, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(mount), strings.Fields(filesystem)
		if len(where) < 5 || len(what) < 3 {
			continue
		}
		name, version2 := controller, what[0] == "cgroup2"
		if version2 {
			name = ""
		} else if what[0] != "cgroup" || !slices.Contains(strings.Split(what[2], ","), controller) {
			continue
		}
		for inner := below(unescape.Replace(where[3]), own[name]); ; inner = path.Dir(inner) {
			list = append(list, group{path.Join(unescape.Replace(where[4]), inner)[1:], version2})
			if inner == "/" {
				break
			}
		}
	}
	return list
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ownGroups returns the paths of the process's groups by controller; the key of version 2 is "".
func ownGroups(root fs.FS) map[string]string {
	own := map[string]string{}
	data, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		if parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				own[controller] = path.Clean("/" + parts[2])
			}
		}
	}
	return own
}

// below returns a group's path relative to the root of a mount. A path outside of the root belongs
// to another namespace: then the mounted group is the innermost visible one.
func below(root, group string) string {
	rest, inside := strings.CutPrefix(group+"/", strings.TrimSuffix(root, "/")+"/")
	if !inside {
		return "/"
	}
	return path.Clean("/" + rest)
}

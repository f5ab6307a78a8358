package limits

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Lines of /proc/self/mountinfo, each with the root and the mount point of a mount.
const (
	version2  = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	cpu1      = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
	cpuset1   = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	memory1   = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	unified1  = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	dockerCPU = "33 31 0:30 /docker/x /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
	elsewhere = `31 23 0:28 /pods/a\040b /my\040groups rw - cgroup2 cgroup2 rw` + "\n"
	other     = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /proc rw\nbroken - \n"
)

const none = math.MaxInt32

type files map[string]string

func (f files) fs() fstest.MapFS {
	root := fstest.MapFS{}
	for path, text := range f {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestQuota(t *testing.T) {
	// in describes a process in groups, with mounts and the quotas of some groups.
	in := func(mounts, groups string, more files) files {
		f := files{"proc/self/mountinfo": other + mounts, "proc/self/cgroup": groups}
		for folder, text := range more {
			f[folder] = text
		}
		return f
	}
	v1 := func(folder, quota string) files {
		return files{folder + "/cpu.cfs_quota_us": quota + "\n", folder + "/cpu.cfs_period_us": "100000\n"}
	}
	const root1, root2 = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup"
	for name, c := range map[string]struct {
		files files
		want  int
	}{
		"no files":                 {files{}, none},
		"no groups":                {in("", "", nil), none},
		"v2 without a quota":       {in(version2, "0::/\n", files{root2 + "/cpu.max": "max 100000\n"}), none},
		"v2 half a processor":      {in(version2, "0::/\n", files{root2 + "/cpu.max": "50000 100000\n"}), 1},
		"v2 a fifth":               {in(version2, "0::/\n", files{root2 + "/cpu.max": "20000 100000\n"}), 1},
		"v2 1.25 processors":       {in(version2, "0::/\n", files{root2 + "/cpu.max": "125000 100000\n"}), 1},
		"v2 1.5 processors":        {in(version2, "0::/\n", files{root2 + "/cpu.max": "150000 100000\n"}), 2},
		"v2 2 processors":          {in(version2, "0::/\n", files{root2 + "/cpu.max": "200000 100000\n"}), 2},
		"v2 3.5 processors":        {in(version2, "0::/\n", files{root2 + "/cpu.max": "350000 100000\n"}), 4},
		"v2 another period":        {in(version2, "0::/\n", files{root2 + "/cpu.max": "30000 10000\n"}), 3},
		"v2 an outer group":        {in(version2, "0::/a/b/c\n", files{root2 + "/a/cpu.max": "200000 100000", root2 + "/a/b/cpu.max": "max 100000", root2 + "/a/b/c/cpu.max": "400000 100000"}), 2},
		"v2 a sibling":             {in(version2, "0::/a\n", files{root2 + "/b/cpu.max": "200000 100000"}), none},
		"v2 a host's group":        {in(version2, "0::/../x\n", files{root2 + "/cpu.max": "200000 100000"}), 2},
		"v2 mounted elsewhere":     {in(elsewhere, "0::/pods/a b/c\n", files{"my groups/c/cpu.max": "200000 100000"}), 2},
		"v2 a neighbour's mount":   {in(elsewhere, "0::/pods/a bc\n", files{"my groups/cpu.max": "200000 100000", "my groups/c/cpu.max": "100000 100000"}), 2},
		"v2 a damaged file":        {in(version2, "0::/\n", files{root2 + "/cpu.max": "1 0"}), none},
		"v1 without a quota":       {in(cpuset1+cpu1, "3:cpuset:/\n2:cpu,cpuacct:/\n", v1(root1, "-1")), none},
		"v1 half a processor":      {in(cpuset1+cpu1, "2:cpu,cpuacct:/\n", v1(root1, "50000")), 1},
		"v1 2 processors":          {in(cpuset1+cpu1, "2:cpu,cpuacct:/\n", v1(root1, "200000")), 2},
		"v1 3.5 processors":        {in(cpuset1+cpu1, "2:cpu,cpuacct:/a/b\n", v1(root1+"/a/b", "350000")), 4},
		"v1 an outer group":        {in(cpu1, "2:cpuacct,cpu:/a/b\n", v1(root1+"/a", "300000")), 3},
		"v1 the root of a mount":   {in(dockerCPU, "2:cpu,cpuacct:/docker/x\n", v1(root1, "200000")), 2},
		"v1 below that root":       {in(dockerCPU, "2:cpu,cpuacct:/docker/x/job\n", v1(root1+"/job", "100000")), 1},
		"v1 of another controller": {in(cpuset1, "2:cpuset:/\n", v1("sys/fs/cgroup/cpuset", "100000")), none},
		"both, v1 has the quota":   {in(cpu1+unified1, "2:cpu,cpuacct:/a\n0::/b\n", v1(root1+"/a", "200000")), 2},
		"both, v2 has the quota":   {in(cpuset1+unified1, "3:cpuset:/a\n0::/b\n", files{root2 + "/unified/b/cpu.max": "200000 100000"}), 2},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, quota(c.files.fs())) })
	}
}

func TestCores(t *testing.T) {
	root := files{"sys/devices/system/cpu/online": "0-3,8-9\n", "proc/self/status": "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-1,9\n"}
	for cpu, list := range map[string]string{"0": "0-1", "1": "0-1", "2": "2-3", "3": "2-3", "8": "8-9", "9": "8-9"} {
		root["sys/devices/system/cpu/cpu"+cpu+"/topology/thread_siblings_list"] = list + "\n"
	}
	require.Equal(t, []int{0, 1, 2, 3, 8, 9}, online(root.fs()))
	require.Equal(t, []int{0, 1, 9}, affinity(root.fs()))
	require.Equal(t, 3, cores(root.fs(), online(root.fs())))
	require.Equal(t, 2, cores(root.fs(), affinity(root.fs())), "processors 0 and 1 are one core")
	for _, list := range []string{"", "a", "1-", "-1", "0-99999999", "1,,2"} {
		broken := files{"sys/devices/system/cpu/online": list, "proc/self/status": "Cpus_allowed_list:\t" + list}.fs()
		require.Nil(t, online(broken), list)
		require.Nil(t, affinity(broken), list)
	}
	require.Zero(t, cores(files{}.fs(), []int{0, 1}))
}

func TestMemory(t *testing.T) {
	const meminfo = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n"
	const stat = "anon 90\nfile 300\nshmem 50\nfile_mapped 7\ninactive_file 200\nactive_file 40\n"
	const stat1 = "cache 300\nactive_file 1\ninactive_file 2\ntotal_cache 300\ntotal_inactive_file 200\ntotal_active_file 40\n"
	v2 := func(group string, more files) files {
		more["proc/self/cgroup"], more["proc/self/mountinfo"] = "1:cpu:/old\n0::"+group+"\n", version2
		return more
	}
	v1 := func(group string, more files) files {
		more["proc/self/cgroup"], more["proc/self/mountinfo"] = "4:memory:"+group+"\n0::/\n", memory1+unified1
		return more
	}
	const root2, root1 = "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
	for name, c := range map[string]struct {
		files files
		want  int64
	}{
		"machine":                 {files{}, 8000 << 10},
		"v2 no limit":             {v2("/", files{root2 + "memory.max": "max\n", root2 + "memory.current": "5"}), 8000 << 10},
		"v2 container":            {v2("/", files{root2 + "memory.max": "1000\n", root2 + "memory.current": "400\n"}), 600},
		"v2 with a cache":         {v2("/", files{root2 + "memory.max": "1000\n", root2 + "memory.current": "400\n", root2 + "memory.stat": stat}), 840},
		"v2 throttled":            {v2("/", files{root2 + "memory.max": "1000\n", root2 + "memory.high": "900\n", root2 + "memory.current": "400\n"}), 500},
		"v2 more than its limit":  {v2("/", files{root2 + "memory.max": "1000\n", root2 + "memory.current": "1100\n"}), 0},
		"v2 cache of another":     {v2("/", files{root2 + "memory.max": "1000\n", root2 + "memory.current": "100\n", root2 + "memory.stat": stat}), 1000},
		"v2 groups within groups": {v2("/a/b", files{root2 + "a/memory.max": "1000", root2 + "a/memory.current": "900", root2 + "a/b/memory.max": "500", root2 + "a/b/memory.current": "100"}), 100},
		"v2 the innermost":        {v2("/a/b", files{root2 + "a/memory.max": "1000", root2 + "a/memory.current": "100", root2 + "a/b/memory.max": "500", root2 + "a/b/memory.current": "200"}), 300},
		"v2 group of a host":      {v2("/../x", files{}), 8000 << 10},
		"v1 no limit":             {v1("/a", files{root1 + "a/memory.limit_in_bytes": "9223372036854771712\n", root1 + "a/memory.usage_in_bytes": "400\n"}), 8000 << 10},
		"v1 container":            {v1("/a", files{root1 + "a/memory.limit_in_bytes": "1000\n", root1 + "a/memory.usage_in_bytes": "400\n"}), 600},
		"v1 with a cache":         {v1("/a", files{root1 + "a/memory.limit_in_bytes": "1000\n", root1 + "a/memory.usage_in_bytes": "400\n", root1 + "a/memory.stat": stat1}), 840},
		"v1 groups within groups": {v1("/a/b", files{root1 + "a/memory.limit_in_bytes": "1000", root1 + "a/memory.usage_in_bytes": "900", root1 + "a/b/memory.limit_in_bytes": "500", root1 + "a/b/memory.usage_in_bytes": "100"}), 100},
		"limit of data":           {files{"proc/self/limits": limitsFile("unlimited", "3000"), "proc/self/status": "VmSize:\t  9 kB\nVmData:\t  2 kB\n"}, 3000 - 2048},
		"of all addresses":        {files{"proc/self/limits": limitsFile("40000", "30000"), "proc/self/status": "VmSize:\t  30 kB\nVmData:\t  2 kB\n"}, 40000 - 30<<10},
		"more than its data":      {files{"proc/self/limits": limitsFile("unlimited", "3000"), "proc/self/status": "VmData:\t  3 kB\n"}, 0},
		"no limits":               {files{"proc/self/limits": limitsFile("unlimited", "unlimited"), "proc/self/status": "VmSize:\t  9 kB\nVmData:\t  2 kB\n"}, 8000 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["proc/meminfo"] = meminfo
			got, ok := memory(c.files.fs())
			require.True(t, ok)
			require.Equal(t, c.want, got)
		})
	}
	_, ok := memory(files{}.fs())
	require.False(t, ok)
}

// limitsFile returns Linux's file of a process with these limits on its address space and its data.
func limitsFile(space, data string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max data size             " + data + "            unlimited            bytes     \n" +
		"Max address space         " + space + "            unlimited            bytes     \n"
}

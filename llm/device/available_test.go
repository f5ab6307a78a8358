package device

import (
	"os"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestLinuxAvailable(t *testing.T) {
	const meminfo = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"machine":              {nil, 8000 << 10},
		"no limit":             {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5"}, 8000 << 10},
		"container":            {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "400\n"}, 600},
		"with a cache":         {map[string]string{"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "400\n", "sys/fs/cgroup/memory.stat": "anon 90\nfile 300\nshmem 50\nfile_mapped 7\n"}, 850},
		"more than its limit":  {map[string]string{"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "1100\n"}, 0},
		"groups within groups": {map[string]string{"proc/self/cgroup": "1:cpu:/old\n0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000", "sys/fs/cgroup/a/memory.current": "900", "sys/fs/cgroup/a/b/memory.max": "500", "sys/fs/cgroup/a/b/memory.current": "100"}, 100},
		"the innermost":        {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000", "sys/fs/cgroup/a/memory.current": "100", "sys/fs/cgroup/a/b/memory.max": "500", "sys/fs/cgroup/a/b/memory.current": "200"}, 300},
		"limit of data":        {map[string]string{"proc/self/limits": limits("unlimited", "3000"), "proc/self/status": "VmSize:\t  9 kB\nVmData:\t  2 kB\n"}, 3000 - 2048},
		"of all addresses":     {map[string]string{"proc/self/limits": limits("40000", "30000"), "proc/self/status": "VmSize:\t  30 kB\nVmData:\t  2 kB\n"}, 40000 - 30<<10},
		"more than its data":   {map[string]string{"proc/self/limits": limits("unlimited", "3000"), "proc/self/status": "VmData:\t  3 kB\n"}, 0},
		"no limits":            {map[string]string{"proc/self/limits": limits("unlimited", "unlimited"), "proc/self/status": "VmSize:\t  9 kB\nVmData:\t  2 kB\n"}, 8000 << 10},
		"group of a host":      {map[string]string{"proc/self/cgroup": "0::/../x\n"}, 8000 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			got, ok := linuxAvailable(root)
			require.True(t, ok)
			require.Equal(t, c.want, got)
		})
	}
	_, ok := linuxAvailable(fstest.MapFS{})
	require.False(t, ok)
}

// limits are those of a process as Linux shows them, of its address space and of its data.
func limits(space, data string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max data size             " + data + "            unlimited            bytes     \n" +
		"Max address space         " + space + "            unlimited            bytes     \n"
}

func TestAvailableMemory(t *testing.T) {
	e, err := NewCPU(1)
	require.NoError(t, err)
	defer e.Close()
	require.Len(t, e.AvailableMemory(), 1)
	require.Greater(t, e.AvailableMemory()[0], int64(1<<20))
	total := e.Devices()[0].Properties().MemoryTotal
	require.Less(t, e.AvailableMemory()[0], total+1)
	if _, err := os.Stat("/proc/meminfo"); err == nil && runtime.GOOS == "linux" {
		require.Less(t, e.AvailableMemory()[0], total, "some of it is in use")
	}
}

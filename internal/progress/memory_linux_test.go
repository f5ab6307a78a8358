package progress

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControlGroups(t *testing.T) {
	tests := []struct {
		name    string
		groups  string
		files   map[string]string
		room    uint64
		limited bool
	}{
		{"none", "", nil, 0, false},
		{"unlimited", "0::/\n", map[string]string{"memory.max": "max\n", "memory.current": "5\n"}, 0, false},
		{"cache is given back", "0::/app\n", map[string]string{
			"app/memory.max": "1000\n", "app/memory.current": "600\n", "app/memory.stat": "anon 300\ninactive_file 250\n",
		}, 650, true},
		{"the parent is tighter", "0::/a/b\n", map[string]string{
			"a/memory.max": "1000\n", "a/memory.current": "900\n",
			"a/b/memory.max": "800\n", "a/b/memory.current": "100\n",
		}, 100, true},
		{"over the limit", "0::/\n", map[string]string{"memory.max": "10\n", "memory.current": "12\n"}, 0, true},
		{"version 1", "9:cpu,memory:/x\n1:name=systemd:/y\n", map[string]string{
			"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "0\n",
			"memory/x/memory.limit_in_bytes": "500\n", "memory/x/memory.usage_in_bytes": "400\n",
			"memory/x/memory.stat": "cache 9\ntotal_inactive_file 50\n",
		}, 150, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			room, limited := cgroupRoom(writeTree(t, tt.files), tt.groups)
			require.Equal(t, tt.limited, limited)
			require.Equal(t, tt.room, room)
		})
	}
}

func TestFieldThatIsMissing(t *testing.T) {
	root := writeTree(t, map[string]string{"status": "VmRSS:\t  12 kB\nVmHWM:\nBad: x kB\n"})
	file := filepath.Join(root, "status")
	require.Equal(t, uint64(12*1024), kibField(file, "VmRSS:"))
	require.Zero(t, kibField(file, "VmHWM:"))
	require.Zero(t, kibField(file, "Bad:"))
	require.Zero(t, kibField(filepath.Join(root, "none"), "VmRSS:"))
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

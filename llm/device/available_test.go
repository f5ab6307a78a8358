package device

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestAvailableMemory(t *testing.T) {
	e := need.Value(NewCPU(1))(t)
	defer e.Close()
	require.Len(t, e.AvailableMemory(), 1)
	require.Greater(t, e.AvailableMemory()[0], int64(1<<20))
	total := e.Devices()[0].Properties().MemoryTotal
	require.Less(t, e.AvailableMemory()[0], total+1)
	if _, err := os.Stat("/proc/meminfo"); err == nil && runtime.GOOS == "linux" {
		require.Less(t, e.AvailableMemory()[0], total, "some of it is in use")
	}
}

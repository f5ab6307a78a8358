package rss

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResidentSetSize(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		require.Zero(t, Now())
		t.Skip("not known on " + runtime.GOOS)
	}
	const size = 64 << 20
	before := Peak()
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i) // an untouched page does not count
	}
	require.Greater(t, Peak(), uint64(size))
	require.GreaterOrEqual(t, Peak(), before)
	require.Greater(t, maxrss(), uint64(size))
	if runtime.GOOS == "linux" {
		now := Now()
		require.Greater(t, now, uint64(size))
		const slack = 1 << 20 // the kernel adds the pages of each thread with delay
		require.GreaterOrEqual(t, Peak()+slack, now)
	}
	runtime.KeepAlive(block)
}

func TestFieldThatIsMissing(t *testing.T) {
	require.Zero(t, statusField("VmNone:"))
	require.Zero(t, statusField("Name:"), "not a number")
}

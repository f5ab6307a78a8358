package progress

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryOfThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		require.Zero(t, RSS()+PeakRSS()+Available())
		t.Skip("not known on " + runtime.GOOS)
	}
	const size = 64 << 20
	before := PeakRSS()
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i) // a page counts once it is touched
	}
	require.Greater(t, PeakRSS(), uint64(size))
	require.GreaterOrEqual(t, PeakRSS(), before)
	require.Greater(t, Available(), uint64(0))
	if runtime.GOOS == "linux" {
		now := RSS()
		require.Greater(t, now, uint64(size))
		const slack = 1 << 20 // the kernel counts pages for each thread apart
		require.GreaterOrEqual(t, PeakRSS()+slack, now)
	}
	runtime.KeepAlive(block)
}

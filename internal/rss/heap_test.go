package rss

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reachable memory counts, garbage does not.
func TestHeapWatch(t *testing.T) {
	const block, blocks = 1 << 20, 64
	var kept [][]byte
	for keep, want := range map[bool]int64{false: 0, true: block * blocks} {
		w := WatchHeap(4)
		for range blocks {
			if b := make([]byte, block); keep {
				kept = append(kept, b)
			}
			w.Look()
		}
		require.InDelta(t, want, w.Growth(), 2*block)
	}
	runtime.KeepAlive(kept)
}

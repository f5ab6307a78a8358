package lifetime

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreedByTheLast(t *testing.T) {
	var l Lifetime
	freed := 0
	require.True(t, l.Retain())
	require.True(t, l.Retain())
	l.Close(func() { freed++ })
	require.True(t, l.IsClosed())
	require.False(t, l.Retain())
	l.Release()
	require.Equal(t, 0, freed)
	l.Release()
	require.Equal(t, 1, freed)
	l.Close(func() { freed++ })
	require.Equal(t, 1, freed)
}

// The object is not used after it is freed, and is freed once.
func TestConcurrent(t *testing.T) {
	for range 200 {
		var l Lifetime
		var freed atomic.Int32
		var group sync.WaitGroup
		for i := range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				if l.Retain() {
					if freed.Load() != 0 {
						t.Error("used after it was freed")
					}
					l.Release()
				}
				if i == 0 {
					l.Close(func() { freed.Add(1) })
				}
			}()
		}
		group.Wait()
		require.EqualValues(t, 1, freed.Load())
	}
}

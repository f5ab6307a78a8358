package filelock

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	file := need.Value(Create(path))(t)
	_, err := Create(path)
	require.Equal(t, ErrLocked, err)
	require.True(t, IsAt(path, file))
	require.NoError(t, Remove(file))
	require.NoFileExists(t, path)

	// A file that is not locked is abandoned.
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	file = need.Value(Create(path))(t)
	require.NoError(t, Remove(file))

	_, err = Create(filepath.Join(path, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Only one process owns the path at a time, however locks and files come and go.
func TestCreateExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	var holders, times atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for times.Load() < 2000 {
				file, err := Create(path)
				if err == ErrLocked {
					continue
				}
				if err != nil || holders.Add(1) != 1 {
					t.Errorf("%d have it, %v", holders.Load(), err)
					times.Store(2000)
					return
				}
				times.Add(1)
				holders.Add(-1)
				if err := Remove(file); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	require.NoFileExists(t, path)
}

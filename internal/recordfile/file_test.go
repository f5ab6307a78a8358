package recordfile

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, o Options) *File {
	t.Helper()
	f, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func requireRecord(t *testing.T, f *File, key byte, want string) {
	t.Helper()
	body, has, err := f.Read(Key{key})
	require.NoError(t, err)
	require.True(t, has)
	require.Equal(t, want, string(body))
}

// Records stay over interruptions, wherever the file was cut; the complete file is the same as without any.
func TestInterrupted(t *testing.T) {
	fill := func(path string, cut int) (before int) {
		o := Options{Path: path, Key: Key{7}}
		f := open(t, o)
		require.NoError(t, f.Append(Key{1}, []byte("one")))
		require.NoError(t, f.Append(Key{2}, nil))
		require.NoError(t, f.Append(Key{3}, []byte("three")))
		require.NoError(t, f.Close())
		pending := path + pendingSuffix
		if cut >= 0 {
			require.NoError(t, os.Truncate(pending, int64(cut)))
		}
		f = open(t, o)
		require.False(t, f.Complete())
		before = f.Len()
		for key, body := range []string{1: "one", 2: "", 3: "three"} {
			if _, has, _ := f.Read(Key{byte(key)}); !has && key > 0 {
				require.NoError(t, f.Append(Key{byte(key)}, []byte(body)))
			}
		}
		requireRecord(t, f, 3, "three")
		require.NoError(t, f.Finish())
		require.NoError(t, f.Close())
		require.NoFileExists(t, pending)
		return before
	}
	whole := filepath.Join(t.TempDir(), "x", "whole")
	require.Equal(t, 3, fill(whole, -1))
	want, err := os.ReadFile(whole)
	require.NoError(t, err)
	ends := []int{headerSize + frameSize + 3, headerSize + 2*frameSize + 3, len(want)}
	for cut := range len(want) {
		path := filepath.Join(t.TempDir(), "cut")
		records := 0
		for records < 3 && cut >= ends[records] {
			records++
		}
		require.Equal(t, records, fill(path, cut), cut)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	f := open(t, Options{Path: whole, Key: Key{7}})
	require.True(t, f.Complete())
	requireRecord(t, f, 1, "one")
	_, has, err := f.Read(Key{9})
	require.NoError(t, err)
	require.False(t, has)
	require.EqualError(t, f.Append(Key{4}, nil), "the file is complete")
}

// Each changed byte of a complete file is noticed, and it is filled again.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := open(t, Options{Path: path})
	require.NoError(t, f.Append(Key{1}, []byte("one")))
	require.NoError(t, f.Finish())
	require.NoError(t, f.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 4
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		var warnings []string
		f, err := Open(t.Context(), Options{Path: path, Warn: func(text string) { warnings = append(warnings, text) }})
		require.NoError(t, err)
		require.False(t, f.Complete(), i)
		require.Zero(t, f.Len())
		require.Len(t, warnings, 1)
		require.Regexp(t, `^.*f cannot be used: it(s header| ).* damaged.*; making it again$`, warnings[0])
		require.NoError(t, f.Close())
	}
}

// A second process waits for the first, and then has its file; a temporary file goes with its end.
func TestWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	first := open(t, Options{Path: path})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ended, Options{Path: path})
	require.ErrorIs(t, err, context.Canceled)
	waits, got := make(chan string, 1), make(chan *File, 1)
	go func() {
		f, err := Open(t.Context(), Options{Path: path, Warn: func(text string) { waits <- text }})
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	require.Contains(t, <-waits, "waiting for another process, which writes "+path)
	require.NoError(t, first.Append(Key{1}, []byte("one")))
	require.NoError(t, first.Finish())
	require.NoError(t, first.Close())
	select {
	case f := <-got:
		require.True(t, f.Complete())
		require.NoError(t, f.Close())
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}

	f, err := Open(t.Context(), Options{})
	require.NoError(t, err)
	require.NoError(t, f.Append(Key{1}, []byte("one")))
	require.NoError(t, f.Finish())
	requireRecord(t, f, 1, "one")
	require.NoError(t, f.Close())
	require.NoFileExists(t, f.file.Name())
	require.NoError(t, (*File)(nil).Close())
	_, err = Open(t.Context(), Options{Path: filepath.Join(path, "below", "a file")})
	require.Error(t, err)
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// An output is locked under any of its names until Close. Outputs that are written in place, such as devices,
// are not locked.
func TestLockOutputs(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("there"), nil, 0o600))
	require.NoError(t, os.Symlink("there", in("link")))
	require.NoError(t, os.Symlink(".", in("folder")))
	long := strings.Repeat("x", 255)
	first := need.Value(LockOutputs([]File{{"--out", in("there")}, {"--new", in("new")}, {"--long", in(long)}, {"--none", ""}, {"--null", os.DevNull}}))(t)
	for _, path := range []string{in("there"), in("link"), in("folder/there"), in("new"), in("folder/new"), in(long)} {
		_, err := LockOutputs([]File{{"--other", in("other")}, {"--again", path}})
		require.EqualError(t, err, "--again "+path+": another process is writing this file; wait for it to end, or give another name")
	}
	second, err := LockOutputs([]File{{"--other", in("other")}, {"--long", in(long[1:])}, {"--null", os.DevNull}})
	require.NoError(t, err, "what a refusal had is free again")
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	_, err = LockOutputs([]File{{"--out", in("none/out")}})
	require.EqualError(t, err, "--out "+in("none/out")+": no such file or directory")

	entries := need.Value(os.ReadDir(folder))(t)
	require.Len(t, entries, 3, "the locks are gone")
}

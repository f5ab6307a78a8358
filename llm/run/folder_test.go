package run

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A new folder belongs to this process alone, and is removed if no run begins in it.
func TestCreateNew(t *testing.T) {
	t.Chdir(t.TempDir())
	begin := func(want string) *Folder {
		f := need.Value(CreateNew("runs", "a"))(t)
		require.Equal(t, filepath.FromSlash(want), f.Path)
		return f
	}
	first := begin("runs/a")
	require.NoError(t, first.Describe(Manifest{Adapter: first.File(Adapter), Metrics: first.File(Metrics)}))
	require.NoError(t, first.Close())
	second := begin("runs/a-2")
	require.NoError(t, second.Close())
	require.NoError(t, second.Close())
	require.NoDirExists(t, "runs/a-2")
	r := need.Value(Open("runs/a"))(t)
	require.Equal(t, Adapter, r.Manifest.Adapter, "a path of the folder")
	require.NoError(t, os.RemoveAll("runs/a"))
	require.NoError(t, begin("runs/a").Close())
	require.NoDirExists(t, "runs", "which has no other")
	for _, name := range []string{"", ".", "..", "a/b"} {
		_, err := CreateNew("runs", name)
		require.EqualError(t, err, fmt.Sprintf("%q is not the name of a folder", name))
	}
}

// An empty path is not the working directory.
func TestNoPath(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Create("")
	require.EqualError(t, err, "the run has no folder: its path is empty")
	_, err = Open("")
	require.EqualError(t, err, "the run has no folder: its path is empty")
	_, err = CreateNew("", "a")
	require.EqualError(t, err, `the folder of runs has no name: its path is empty; "." is the working directory`)
	entries := need.Value(os.ReadDir("."))(t)
	require.Empty(t, entries)
}

// Use of a folder by several goroutines is an error.
func TestFolderInUse(t *testing.T) {
	f := need.Value(Create(t.TempDir()))(t)
	require.NoError(t, f.acquire("Folder.AddSample"))
	const inUse = ": another call is using the Folder, and only one goroutine may at a time; give each goroutine its own, or let them take turns with a mutex"
	require.EqualError(t, f.AddCommand("a"), "Folder.AddCommand"+inUse)
	require.EqualError(t, f.Close(), "Folder.Close"+inUse)
	f.access.Release()
	require.NoError(t, f.Close())
	require.EqualError(t, f.AddCommand("a"), "the folder is closed, or a zero value; Create opens one")
}

// Runs are found by their manifests, in a folder and two below it.
func TestList(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"b", "a/c", "a/d/e", "a/d/f/g", ".hidden"} {
		f := need.Value(Create(path))(t)
		require.NoError(t, f.Describe(Manifest{}))
		require.NoError(t, f.Close())
	}
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	require.NoError(t, os.MkdirAll("empty", 0o700))
	paths := func(folder string) (list []string) {
		runs := need.Value(List(folder))(t)
		for _, r := range runs {
			list = append(list, filepath.ToSlash(r.Path))
		}
		return list
	}
	require.Equal(t, []string{"a/c", "b"}, paths("."))
	require.Equal(t, []string{"a/c", "a/d/e"}, paths("a"))
	require.Equal(t, []string{"b"}, paths("b"))

	require.NoError(t, os.WriteFile("b/manifest.json", []byte("{"), 0o600))
	runs, err := List(".")
	require.ErrorContains(t, err, filepath.Join("b", "manifest.json")+" cannot be read: unexpected end of JSON input; restore it, or begin a run in another folder")
	require.Len(t, runs, 1)
	for path, want := range map[string]string{
		"none":  "there is no run none: no such folder",
		"file":  "file is a file; name the folder of a run",
		"empty": "empty is not the folder of a run: it has no manifest.json",
	} {
		_, err := Open(path)
		require.EqualError(t, err, want)
	}
}

// A run with an evaluation uses its best adapter, others the last one.
func TestAdapterPath(t *testing.T) {
	folder := need.Value(Create(t.TempDir()))(t)
	defer folder.Close()
	require.NoError(t, folder.Describe(Manifest{Adapter: folder.File(Adapter), Best: folder.File(Best), Metrics: folder.File(Metrics)}))
	r := need.Value(Open(folder.Path))(t)
	_, err := r.AdapterPath()
	require.EqualError(t, err, "the run in "+folder.Path+" has no adapter yet; it writes one at its first save, or at its end")
	write := func(name, text string) { require.NoError(t, os.WriteFile(folder.File(name), []byte(text), 0o600)) }
	write(Adapter, "")
	write(Best, "of another run")
	for metrics, want := range map[string]string{
		`{"step":1,"loss":2}` + "\n": Adapter,
		`{"step":1,"loss":2}` + "\n" + `{"step":1,"eval_loss":2}` + "\n" + `{"step":`: Best,
	} {
		write(Metrics, metrics)
		path := need.Value(r.AdapterPath())(t)
		require.Equal(t, folder.File(want), path)
	}
}

package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestSavedFiles(t *testing.T) {
	for _, c := range []struct {
		name         string
		keep         int
		latest, best string
		kept         []string // after saves of steps 5, 10, 15
	}{
		{"a.gguf", -1, "a.gguf", "a-best.gguf", nil},
		{"a.gguf", 0, "a.gguf", "a-best.gguf", nil},
		{"a.gguf", 2, "a.gguf", "a-best.gguf", []string{"a-10.gguf", "a-15.gguf"}},
		{"a-ITERATION.gguf", -1, "a-LATEST.gguf", "a-best.gguf", []string{"a-5.gguf", "a-10.gguf", "a-15.gguf"}},
		{"a-ITERATION.gguf", 0, "a-LATEST.gguf", "a-best.gguf", nil},
		{"a-ITERATION.gguf", 1, "a-LATEST.gguf", "a-best.gguf", []string{"a-15.gguf"}},
		{"plain", 1, "plain", "plain-best", []string{"plain-15"}},
	} {
		t.Run(fmt.Sprint(c.name, c.keep), func(t *testing.T) {
			folder := t.TempDir()
			for _, other := range []string{"a-x.gguf", "a-05.gguf", "a-20.gguf", "b-5.gguf"} { // none of this run's
				require.NoError(t, os.WriteFile(filepath.Join(folder, other), nil, 0o600))
			}
			f := SavedFile{File{Name: "--lora-out", Path: filepath.Join(folder, c.name)}, "ITERATION", "LATEST", c.keep}
			require.Equal(t, filepath.Join(folder, c.latest), f.LatestPath())
			require.Equal(t, filepath.Join(folder, c.best), f.BestPath())
			for _, step := range []int{5, 10, 15, 15} {
				require.NoError(t, f.Save(step, func(path string) error { return os.WriteFile(path, fmt.Append(nil, step), 0o600) }))
				text := need.Value(os.ReadFile(f.LatestPath()))(t)
				require.Equal(t, fmt.Sprint(step), string(text))
			}
			var names []string
			entries := need.Value(os.ReadDir(folder))(t)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			require.ElementsMatch(t, append([]string{"a-x.gguf", "a-05.gguf", "a-20.gguf", "b-5.gguf", c.latest}, c.kept...), names)
			require.EqualError(t, f.Save(20, func(string) error { return errors.New("full") }), "--lora-out: full")
		})
	}
}

// A link keeps the file that it was made of: replacing the file by a rename does not change it.
func TestSavedFilesAreOfTheirStep(t *testing.T) {
	f := SavedFile{File{Path: filepath.Join(t.TempDir(), "a")}, "ITERATION", "LATEST", 9}
	for step := range 3 {
		require.NoError(t, f.Save(step, func(path string) error {
			beside := path + ".new"
			require.NoError(t, os.WriteFile(beside, fmt.Append(nil, step), 0o600))
			return os.Rename(beside, path)
		}))
	}
	for step := range 3 {
		text := need.Value(os.ReadFile(f.with(fmt.Sprint(step))))(t)
		require.Equal(t, fmt.Sprint(step), string(text))
	}
}

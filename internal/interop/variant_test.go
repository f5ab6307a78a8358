//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cpuVariant starts stock llama.cpp with another plugin of the CPU than the one that it
// chooses: vectors of another length add up in another order, which is the distance at
// which stock is from itself.
type cpuVariant struct {
	name  string
	start []string // the command that programs are arguments of
}

// otherVariants are plugins that this processor runs, besides the one that stock chooses: one for
// each kind of vectors, since the others add up as one of these does.
func otherVariants(t *testing.T, modelPath string, tokens []int32) (list []*cpuVariant) {
	t.Helper()
	for _, name := range []string{"x64", "sandybridge", "piledriver", "haswell", "armv8.0_1", "armv8.2_2"} {
		v := newVariant(t, name)
		if v == nil {
			continue
		}
		if _, err := logitsBy(v.start, t.TempDir(), modelPath, tokens); err == nil {
			list = append(list, v)
		}
	}
	return list
}

// newVariant makes a folder with the loader and nothing but one plugin beside it, as
// scripts/llamacpp does with all; nil where stock has no plugin of the name.
func newVariant(t *testing.T, name string) *cpuVariant {
	t.Helper()
	root, err := filepath.Abs(stock)
	require.NoError(t, err)
	plugin := filepath.Join(root, "loader", "libggml-cpu-"+name+".so")
	if _, err := os.Stat(plugin); err != nil {
		return nil
	}
	loaders, err := filepath.Glob(filepath.Join(root, "loader", "ld-linux*.so.*"))
	require.NoError(t, err)
	require.Len(t, loaders, 1)
	program, err := os.ReadFile(loaders[0])
	require.NoError(t, err)
	dir := t.TempDir()
	loader := filepath.Join(dir, filepath.Base(loaders[0]))
	require.NoError(t, os.WriteFile(loader, program, 0o700))
	require.NoError(t, os.Symlink(plugin, filepath.Join(dir, filepath.Base(plugin))))
	lib := filepath.Join(root, "lib")
	return &cpuVariant{name, []string{loader, "--library-path", lib + ":" + filepath.Join(lib, "llama")}}
}

func (v *cpuVariant) logits(t *testing.T, modelPath string, tokens []int32, adapters ...string) [][]float32 {
	t.Helper()
	logits, err := logitsBy(v.start, t.TempDir(), modelPath, tokens, adapters...)
	require.NoError(t, err)
	return logits
}

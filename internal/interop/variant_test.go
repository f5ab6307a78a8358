//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A cpuVariant starts stock llama.cpp with another CPU plugin than it selects: vectors of another length sum in
// another order, which shows stock's own variation.
type cpuVariant struct {
	name  string
	start []string // command whose arguments are a program and its arguments
}

// otherVariants returns plugins that this processor runs, besides the one that stock selects: one for each
// vector length, since others sum like one of these.
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

// requireEqualToStock holds the NMSE of F32 logits to the bound, or to the distance of stock's plugins from each other:
// they too may read another entry of GELU's table.
func requireEqualToStock(t *testing.T, way string, n float64, distance func(v *cpuVariant) float64, modelPath string) {
	t.Helper()
	most := bound
	if n > bound {
		for _, v := range otherVariants(t, modelPath, []int32{1}) {
			most = max(most, variantFactor*distance(v))
		}
	}
	require.LessOrEqual(t, n, most, way)
}

// newVariant creates a folder with the loader and a single plugin beside it, as scripts/llamacpp does with all;
// nil if stock has no such plugin.
func newVariant(t *testing.T, name string) *cpuVariant {
	t.Helper()
	root := need.Value(filepath.Abs(stock))(t)
	plugin := filepath.Join(root, "loader", "libggml-cpu-"+name+".so")
	if _, err := os.Stat(plugin); err != nil {
		return nil
	}
	loaders := need.Value(filepath.Glob(filepath.Join(root, "loader", "ld-linux*.so.*")))(t)
	require.Len(t, loaders, 1)
	program := need.Value(os.ReadFile(loaders[0]))(t)
	dir := t.TempDir()
	loader := filepath.Join(dir, filepath.Base(loaders[0]))
	require.NoError(t, os.WriteFile(loader, program, 0o700))
	require.NoError(t, os.Symlink(plugin, filepath.Join(dir, filepath.Base(plugin))))
	lib := filepath.Join(root, "lib")
	return &cpuVariant{name, []string{loader, "--library-path", lib + ":" + filepath.Join(lib, "llama")}}
}

func (v *cpuVariant) logits(t *testing.T, modelPath string, tokens []int32, adapters ...string) [][]float32 {
	t.Helper()
	return need.Value(logitsBy(v.start, t.TempDir(), modelPath, tokens, adapters...))(t)
}

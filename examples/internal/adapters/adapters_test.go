package adapters

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestParse(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "lr=2e-4") // exists; the others do not
	require.NoError(t, os.Mkdir(folder, 0o755))
	for _, c := range []struct {
		arg, path string
		scale     float32
	}{
		{"a.gguf", "a.gguf", 1},
		{"a.gguf=0.5", "a.gguf", 0.5},
		{"a.gguf=-2", "a.gguf", -2},
		{"lr=3/a.gguf", "lr=3/a.gguf", 1},
		{"lr=3/a.gguf=0", "lr=3/a.gguf", 0},
		{"=2", "=2", 1},
		{"a.gguf=", "a.gguf=", 1},
		{folder, folder, 1},
		{folder + "=0.5", folder, 0.5},
		{filepath.Dir(folder) + "/lr=2", filepath.Dir(folder) + "/lr", 2},
	} {
		got := need.Value(Parse("--lora", c.arg))(t)
		require.Equal(t, Arg{"--lora", c.path, c.scale}, got)
	}
	for _, scale := range []string{"NaN", "Inf", "-Inf", "1e39", "-1e999"} {
		_, err := ParseAll("--lora", []string{"a", "a.gguf=" + scale})
		require.EqualError(t, err, "--lora a.gguf="+scale+": the scale must be finite")
	}
}

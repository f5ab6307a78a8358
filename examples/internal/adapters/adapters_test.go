package adapters

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
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
	} {
		got, err := Parse("--lora", c.arg)
		require.NoError(t, err)
		require.Equal(t, Arg{"--lora", c.path, c.scale}, got)
	}
	for _, scale := range []string{"NaN", "Inf", "-Inf", "1e39", "-1e999"} {
		_, err := ParseAll("--lora", []string{"a", "a.gguf=" + scale})
		require.EqualError(t, err, "--lora a.gguf="+scale+": the scale must be finite")
	}
}

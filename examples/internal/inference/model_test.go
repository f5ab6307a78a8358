package inference

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// Flags of the cache are options of sessions.
func TestCacheFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gguf")
	writeModel(t, path)
	for _, full := range []bool{false, true} {
		f := SessionFlags{ModelFlags: ModelFlags{Model: path, Ctx: 12, Threads: 1}, CacheType: "q8_0", SWAFull: full}
		m, err := f.Load(1)
		require.NoError(t, err)
		require.Equal(t, 12, m.Options.Context)
		require.Equal(t, ggml.Q8_0, m.Options.CacheType)
		require.Equal(t, full, m.Options.FullCache)
		m.Close()
	}
}

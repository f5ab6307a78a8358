package inference

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// Flags of the cache are options of sessions.
func TestCacheFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gguf")
	writeModel(t, path)
	for _, full := range []bool{false, true} {
		f := SessionFlags{ModelFlags: ModelFlags{Model: path, Ctx: 12, Threads: 1}, CacheType: "q8_0", SWAFull: full}
		m := need.Value(f.Load(1))(t)
		require.Equal(t, 12, m.Options.Context)
		require.Equal(t, ggml.Q8_0, m.Options.CacheType)
		require.Equal(t, full, m.Options.FullCache)
		m.Close()
	}
}

package data

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A file is hashed once: all readers of its hash, the key of the token cache too, get the cached one. The test plants a
// hash in the cache, and finds it in both.
func TestFilesAreHashedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	var h Hashes
	from := textSource{t: byteTokenizer(t, false)}
	options := LoadOptions{Cache: "cache", Hashes: &h}
	inBoth := func() string {
		sums := need.Value(h.Of(path, path))(t)
		require.Equal(t, sums[0], sums[1])
		_, key, err := options.cacheOf([]string{path}, from)
		require.NoError(t, err)
		require.Equal(t, sums[0]+" "+from.key(), key)
		return sums[0]
	}
	hashOf := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

	write("one")
	require.Equal(t, hashOf("one"), inBoth())
	h.known[path] = hashedFile{h.known[path].info, "planted"}
	require.Equal(t, "planted", inBoth())
	write("longer")
	require.Equal(t, hashOf("longer"), inBoth(), "a file that was written to is hashed again")
	_, key, err := (&LoadOptions{Cache: "cache"}).cacheOf([]string{path}, from)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(key, hashOf("longer")))

	require.NoError(t, os.Remove(path))
	_, _, err = options.cacheOf([]string{path}, from)
	require.ErrorIs(t, err, os.ErrNotExist)
}

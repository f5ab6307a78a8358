package training

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The manifest of a run folder and the key of the token cache have the hash of a file from
// one reading of it: a hash that is planted where that of the reading is kept is in both.
func TestFilesAreHashedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	var f Flags
	f.TrainData, f.CacheDir = []string{path}, "cache"
	inBoth := func() string {
		m, err := newManifest(f.files(), &f.hashes)
		require.NoError(t, err)
		require.Len(t, m.Files, 1)
		o, err := f.prepareOptions(f.TrainData, "key")
		require.NoError(t, err)
		sum, found := strings.CutSuffix(o.Key, " key")
		require.True(t, found, o.Key)
		require.Equal(t, m.Files[0].SHA256, sum)
		return sum
	}
	hashOf := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

	write("one")
	require.Equal(t, hashOf("one"), inBoth())
	f.hashes[path] = hashedFile{f.hashes[path].info, "planted"}
	require.Equal(t, "planted", inBoth())
	write("longer")
	require.Equal(t, hashOf("longer"), inBoth(), "a file that was written to is hashed again")

	require.NoError(t, os.Remove(path))
	_, err := f.prepareOptions(f.TrainData, "key")
	require.ErrorIs(t, err, os.ErrNotExist)
}

package data

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

// endlessFolder makes the test program prepare endless examples in a folder.
const endlessFolder = "GOGGML_TEST_ENDLESS"

// A process killed while it fills the cache does no harm: the next preparation of any data removes its
// file, and the cache is filled again.
func TestKilledPreparation(t *testing.T) {
	if folder := os.Getenv(endlessFolder); folder != "" {
		prepareEndlessly(t, folder)
	}
	self := need.Value(os.Executable())(t)
	for _, key := range []string{"a", "other"} {
		folder := t.TempDir()
		c := testutil.Command(self, "-test.run", "^TestKilledPreparation$")
		c.Env = append(os.Environ(), endlessFolder+"="+folder)
		require.NoError(t, c.Start())
		pending := func() []string {
			return need.Value(filepath.Glob(filepath.Join(folder, "*"+pendingSuffix)))(t)
		}
		require.Eventually(t, func() bool {
			files := pending()
			if len(files) == 0 {
				return false
			}
			info, err := os.Stat(files[0])
			return err == nil && info.Size() > 0
		}, time.Minute, 10*time.Millisecond)

		// The file is locked, so preparing other data keeps it.
		prepareThree(t, PrepareOptions{Length: 5, Cache: folder, Key: "third"})
		require.Len(t, pending(), 1)
		require.NoError(t, c.Process.Kill())
		require.Error(t, c.Wait())
		require.Len(t, pending(), 1)

		d, stats := prepareThree(t, PrepareOptions{Length: 5, Cache: folder, Key: key})
		require.False(t, stats.FromCache)
		requireSamples(t, threeSamples(), d)
		require.Empty(t, pending())
		files := cacheFiles(t, folder)
		require.Len(t, files, 2)
		for _, file := range files {
			require.True(t, strings.HasSuffix(file, tokenSuffix), file)
		}
	}
}

// prepareEndlessly never returns.
func prepareEndlessly(t *testing.T, folder string) {
	_, _, err := Prepare(context.Background(), func(yield func(int, error) bool) {
		for n := 0; yield(n, nil); n++ {
		}
	}, func(n int) (Sample, error) {
		if n > 100_000 { // enough was written
			time.Sleep(time.Millisecond)
		}
		return Sample{Tokens: []int32{1, 2, 3, 4, 5}}, nil
	}, PrepareOptions{Length: 5, Cache: folder, Key: "a"})
	t.Fatal(err)
}

package tokenizer

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/rss"
)

// repeated reads text over and over, n bytes in all.
func repeated(text string, n int64) io.Reader {
	return io.LimitReader(&repeater{text: text}, n)
}

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// TestMemoryIsBounded encodes texts that are larger than the memory that they
// may take.
func TestMemoryIsBounded(t *testing.T) {
	if rss.Now() == 0 {
		t.Skip("the memory of a process is not known on " + runtime.GOOS)
	}
	prose := strings.Repeat("Call me Ishmael. Some years ago (never mind how long) I had 25 dollars.\n", 7)
	for _, c := range []struct {
		name, text string
		size       int64
	}{
		{"prose", prose, 8 << 20},
		{"without a space", strings.ReplaceAll(strings.ReplaceAll(prose, " ", ""), "\n", "x"), 2 << 20},
		{"one word", "abracadabra", 2 << 20},
	} {
		for name, tok := range map[string]*Tokenizer{"bpe": vocabulary(t, "bpe", "llama-bpe"), "spm": vocabulary(t, "spm", "")} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				runtime.GC()
				before, most, n := rss.Now(), uint64(0), 0
				for ids, err := range tok.EncodeReader(repeated(c.text, c.size), EncodeOptions{}) {
					require.NoError(t, err)
					n += len(ids)
					most = max(most, rss.Now())
				}
				require.Greater(t, n, int(c.size/16))
				const limit = 24 << 20 // with the garbage that the collector leaves for a while
				require.Less(t, int64(most)-int64(before), int64(limit))
			})
		}
	}
}

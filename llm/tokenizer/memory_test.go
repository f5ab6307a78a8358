package tokenizer

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/need"
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
	need.Time(t, "encodes megabytes")
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
				heap, n := rss.WatchHeap(8), 0
				for ids, err := range tok.EncodeReader(repeated(c.text, c.size), EncodeOptions{}) {
					require.NoError(t, err)
					n += len(ids)
					heap.Look()
				}
				require.Greater(t, n, int(c.size/16))
				t.Logf("%d bytes", heap.Growth())
				require.Positive(t, heap.Growth())
				require.Less(t, heap.Growth(), int64(4<<20)) // the text and its tokens, held, would be as much
			})
		}
	}
}

package data

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A preparation describes a file of conversations and how to prepare it.
type preparation struct {
	Folder    string
	Bytes     int64
	Tokenizer bool // use a real tokenizer and a chat template instead of bytes as tokens

	look func() // called for each example and row, unless nil
}

// A prepared is the result.
type prepared struct {
	Stats                                 Stats
	Seconds, Again, RowsPerSecond, Filled float64
	Fingerprint                           string
}

var chatWords = func() (words []string) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		word := make([]byte, 2+rng.IntN(8))
		for i := range word {
			word[i] = "eeeaaooitnsrhldcum"[rng.IntN(18)]
		}
		words = append(words, string(word))
	}
	return words
}()

// sayings returns random words, of very different lengths.
func sayings(rng *rand.Rand, longest int) string {
	var b strings.Builder
	for range 1 + int(float64(longest)*rng.Float64()*rng.Float64()) {
		b.WriteString(chatWords[int(float64(len(chatWords))*rng.Float64()*rng.Float64())])
		b.WriteByte(' ')
	}
	return b.String()
}

// writeChats writes JSONL of the given size in bytes.
func writeChats(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w, rng := bufio.NewWriterSize(file, 1<<20), rand.New(rand.NewPCG(1, 2))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	for written := int64(0); written < size; {
		var messages []message
		for range 1 + rng.IntN(3) {
			messages = append(messages, message{"user", sayings(rng, 120)}, message{"assistant", sayings(rng, 300)})
		}
		line, err := json.Marshal(map[string]any{"messages": messages})
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
		written += int64(len(line)) + 1
	}
	return w.Flush()
}

// encoder returns a function that encodes conversations.
func (p preparation) encoder() (func(Example) (Sample, error), error) {
	if !p.Tokenizer {
		return func(x Example) (Sample, error) {
			var s Sample
			for _, m := range x.Messages {
				for _, c := range []byte(m.Content()) {
					s.Tokens = append(s.Tokens, int32(c))
				}
			}
			return s, nil
		}, nil
	}
	rng := rand.New(rand.NewPCG(5, 5))
	var texts []string
	for range 300 {
		texts = append(texts, sayings(rng, 300))
	}
	config, err := tokenizer.TrainBPE(slices.Values(texts), tokenizer.TrainOptions{VocabSize: 4096})
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.New(config)
	if err != nil {
		return nil, err
	}
	template, err := chat.Parse("ChatML", chatML)
	if err != nil {
		return nil, err
	}
	e, err := NewEncoder(tok, EncoderOptions{Template: template, TrainOn: chat.Assistant})
	if err != nil {
		return nil, err
	}
	return e.Encode, nil
}

// run prepares the file, opens the cache as a second run does, and reads packed rows in random order.
func (p preparation) run() (prepared, error) {
	path := filepath.Join(p.Folder, "chats.jsonl")
	ctx, result := context.Background(), prepared{}
	encode, err := p.encoder()
	if err != nil {
		return result, err
	}
	look := p.look
	if look == nil {
		look = func() {}
	}
	prepare := func() (*Dataset, Stats, float64, error) {
		start := time.Now()
		hashes, err := HashFiles(path)
		if err != nil {
			return nil, Stats{}, 0, err
		}
		d, stats, err := Prepare(ctx, Read(ctx, []string{path}, ReadOptions{}), func(x Example) (Sample, error) {
			look()
			return encode(x)
		}, PrepareOptions{
			Length: 1024, TooLong: SplitLong, Cache: filepath.Join(p.Folder, "cache"), Key: hashes[0],
		})
		return d, stats, time.Since(start).Seconds(), err
	}
	d, stats, seconds, err := prepare()
	if err != nil {
		return result, err
	}
	result.Stats, result.Seconds, result.Fingerprint = stats, seconds, d.Fingerprint()
	d.Close()
	if d, stats, result.Again, err = prepare(); err != nil {
		return result, err
	}
	defer d.Close()
	if !stats.FromCache || d.Fingerprint() != result.Fingerprint {
		return result, fmt.Errorf("the second start is another: %+v", stats)
	}
	packed, err := d.Packed(1)
	if err != nil {
		return result, err
	}
	result.Filled = packed.Fill()
	start, order := time.Now(), Shuffler{N: packed.Len()}
	for i := range packed.Len() {
		if _, err := packed.Row(order.At(i)); err != nil {
			return result, err
		}
		look()
	}
	result.RowsPerSecond = float64(packed.Len()) / time.Since(start).Seconds()
	return result, nil
}

var prepareJob = testutil.NewJob("prepare", preparation.run)

// prepareBytes also returns the peak resident memory of the process.
func prepareBytes(t *testing.T, size int64, tokenizer bool) (prepared, uint64) {
	t.Helper()
	p := preparation{Folder: t.TempDir(), Bytes: size, Tokenizer: tokenizer}
	require.NoError(t, writeChats(filepath.Join(p.Folder, "chats.jsonl"), size))
	result, peak, err := prepareJob.Run(p)
	require.NoError(t, err)
	return result, peak
}

// The memory for preparing, and for reading all rows in random order, does not grow with the data: ten
// million tokens would be 40 MB.
func TestPrepareMemory(t *testing.T) {
	need.Time(t, "writes 11 MB")
	const size = 10 << 20
	heap := rss.WatchHeap(200)
	p := preparation{Folder: t.TempDir(), Bytes: size, look: heap.Look}
	require.NoError(t, writeChats(filepath.Join(p.Folder, "chats.jsonl"), size))
	result := need.Value(p.run())(t)
	t.Logf("%d samples: %.1f MB", result.Stats.Samples, float64(heap.Growth())/1e6)
	require.Greater(t, result.Stats.Tokens, 9<<20)
	require.Less(t, heap.Growth(), int64(8<<20))
}

// GOGGML_TEST_DATA_MB=1000 prepares that many MB of conversations with a tokenizer and a chat
// template, and logs time and memory.
func TestPrepareGigabyte(t *testing.T) {
	megabytes, err := strconv.Atoi(os.Getenv("GOGGML_TEST_DATA_MB"))
	if err != nil {
		t.Skip("GOGGML_TEST_DATA_MB is not set")
	}
	_, base := prepareBytes(t, 1e6, true)
	result, peak := prepareBytes(t, int64(megabytes)*1e6, true)
	t.Logf("%d MB: %d samples of %d tokens, %.1f MB/s", megabytes, result.Stats.Samples, result.Stats.Tokens, float64(megabytes)/result.Seconds)
	t.Logf("peak %.0f MB, of 1 MB %.0f MB; second start %.2f s; packed rows full to %.2f %%, %.0f read a second",
		float64(peak)/1e6, float64(base)/1e6, result.Again, 100*result.Filled, result.RowsPerSecond)
	require.Less(t, peak, uint64(300e6))
}

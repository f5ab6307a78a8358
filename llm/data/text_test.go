package data

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// wholeText makes the samples of a text with all of its documents and tokens in memory.
func wholeText(t *tokenizer.Tokenizer, text string, o TextOptions) []Sample {
	texts, lines := []string{text}, []int{1}
	if o.SampleStart != "" {
		texts, lines = divide(text, o.SampleStart, o.IncludeSampleStart)
	}
	var documents []tokenised
	for i, text := range texts {
		d := tokenised{line: lines[i], ids: t.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})}
		if o.SampleStart != "" && o.SeparateBOS || i == 0 && t.AddsBOS() {
			d.bos = special(t.BOS())
			if len(d.bos) > 0 && len(d.ids) > 0 && d.ids[0] == t.BOS() {
				d.ids = d.ids[1:]
			}
		}
		if o.SampleStart != "" && o.SeparateEOS {
			d.eos = special(t.EOS())
		}
		documents = append(documents, d)
	}
	var samples []Sample
	for i := range documents {
		samples = appendDocument(samples, documents[i:], o)
	}
	return samples
}

// divide splits text at the beginning of each marker, and returns the line of each; text before the first is
// dropped.
func divide(text, marker string, keep bool) (texts []string, lines []int) {
	line := 1
	for i, text := range strings.Split(text, marker) {
		begin := line
		if line += strings.Count(text, "\n"); i == 0 {
			continue
		}
		if keep {
			text = marker + text
		}
		if text != "" {
			texts, lines = append(texts, text), append(lines, begin)
		}
	}
	return texts, lines
}

// tokenised holds the tokens of a document, and the special tokens around them, if any.
type tokenised struct {
	line          int // of its beginning
	bos, ids, eos []int32
}

// tokens concatenates them.
func (p tokenised) tokens() []int32 {
	return slices.Concat(p.bos, p.ids, p.eos)
}

func special(id int32) []int32 {
	if id < 0 {
		return nil
	}
	return []int32{id}
}

// appendDocument appends the samples that begin in the first document.
func appendDocument(samples []Sample, documents []tokenised, o TextOptions) []Sample {
	own := documents[0].tokens()
	all := own
	// The last sample may need up to Length more tokens.
	need := len(own) + o.Length
	for i := 1; (o.Overlapping || o.FillWithNext) && i < len(documents) && len(all) < need; i++ {
		switch next := documents[i]; {
		case o.Overlapping:
			all = slices.Concat(all[:len(all)-len(documents[i-1].eos)], next.ids, next.eos)
		case o.FillWithNext:
			all = slices.Concat(all, next.bos, next.ids, next.eos)
		}
	}
	for from := 0; from < max(1, len(own)-1); from += o.Length {
		if tokens := all[from:min(len(all), from+o.Length+1)]; len(tokens) > 1 {
			samples = append(samples, Sample{Tokens: tokens, Origin: Origin{Line: documents[0].line, Token: from}})
		}
	}
	return samples
}

func textOptions() *rapid.Generator[TextOptions] {
	return rapid.Custom(func(t *rapid.T) TextOptions {
		fill := rapid.IntRange(0, 2).Draw(t, "fill")
		return TextOptions{
			Length:      rapid.IntRange(1, 12).Draw(t, "Length"),
			SampleStart: rapid.SampledFrom([]string{"", "#", "##", "#a#"}).Draw(t, "SampleStart"),
			Overlapping: fill == 1, FillWithNext: fill == 2,
			IncludeSampleStart: rapid.Bool().Draw(t, "IncludeSampleStart"),
			SeparateBOS:        rapid.Bool().Draw(t, "SeparateBOS"),
			SeparateEOS:        rapid.Bool().Draw(t, "SeparateEOS"),
		}
	})
}

// streamed reads a text in small pieces.
func streamed(t *rapid.T, tok *tokenizer.Tokenizer, text string, o TextOptions) ([]Sample, error) {
	var samples []Sample
	s := textSampler{t: tok, o: o, random: rand.New(rand.NewPCG(o.Seed, 0)), yield: func(s Sample, _ error) bool {
		samples = append(samples, s)
		return true
	}}
	reader := rapid.SampledFrom([]func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader}).Draw(t, "reader")
	size := rapid.IntRange(1, 40).Draw(t, "size")
	err := s.read(&documentReader{text: reader(strings.NewReader(text)), marker: []byte(o.SampleStart), keep: o.IncludeSampleStart, size: size})
	return samples, err
}

func TestStreamedTextHasTheSamplesOfTheWhole(t *testing.T) {
	for _, addBOS := range []bool{false, true} {
		tok := byteTokenizer(t, addBOS)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(`(#{0,3}[a-c\n]{0,30}){0,6}`).Draw(t, "text")
			o := textOptions().Draw(t, "options")
			want := wholeText(tok, text, o)
			got, err := streamed(t, tok, text, o)
			if len(want) == 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// Each sample begins within the stretch of its document that it would have without offset, and
// continues with the text.
func TestRandomOffsets(t *testing.T) {
	tok := byteTokenizer(t, false)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-z]{1,40}#){1,5}`).Draw(t, "text")
		o := textOptions().Draw(t, "options")
		o.Seed = rapid.Uint64().Draw(t, "seed")
		even, err := streamed(t, tok, text, o)
		o.RandomOffsets = true
		got, err2 := streamed(t, tok, text, o)
		if err != nil {
			require.EqualError(t, err2, err.Error())
			return
		}
		require.NoError(t, err2)
		again := need.Value(streamed(t, tok, text, o))(t)
		require.Equal(t, got, again, "offsets depend on the seed alone")
		require.Len(t, got, len(even), "a sample for each")
		for i, s := range got {
			require.LessOrEqual(t, len(s.Tokens), o.Length+1)
			require.Greater(t, len(s.Tokens), 1)
			both := even[i].Tokens
			at := slices.IndexFunc(both, func(id int32) bool { return id == s.Tokens[0] })
			require.GreaterOrEqual(t, at, 0, "begins in %v: %v", both, s.Tokens)
		}
	})
}

func TestRandomOffsetsAreUniform(t *testing.T) {
	tok := byteTokenizer(t, false)
	const length, n = 8, 4000
	text := strings.Repeat("abcdefgh", n) + "a"
	d := need.Value(FromText(tok, text, TextOptions{Length: length, RandomOffsets: true, Seed: 3}))(t)
	counts := map[int32]int{}
	samples := samplesOf(t, d)
	for _, s := range samples[:n-1] {
		require.Len(t, s.Tokens, length+1)
		counts[s.Tokens[0]]++
	}
	require.Len(t, counts, length)
	for _, count := range counts {
		require.InDelta(t, n/length, count, 5*22) // five standard deviations of a binomial
	}
	other := need.Value(FromText(tok, text, TextOptions{Length: length, RandomOffsets: true, Seed: 4}))(t)
	require.NotEqual(t, samples, samplesOf(t, other))
}

func TestTextSamplesErrors(t *testing.T) {
	tok := byteTokenizer(t, false)
	broken := errors.New("broken disk")
	for _, start := range []string{"", "#"} {
		r := io.MultiReader(strings.NewReader("#abcdefgh#abc"), iotest.ErrReader(broken))
		var failed error
		for _, err := range TextSamples(tok, r, TextOptions{Length: 2, SampleStart: start}) {
			failed = err
		}
		require.ErrorIs(t, failed, broken, "%q", start)
	}
	for range TextSamples(tok, strings.NewReader("abcdefgh"), TextOptions{Length: 2}) {
		break
	}
}

func TestTextFiles(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.txt"), filepath.Join(dir, "two.txt")
	require.NoError(t, os.WriteFile(one, []byte("\ufeffab"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("cd"), 0o600))
	text := need.Value(io.ReadAll(TextFiles(one, two, one)))(t)
	require.Equal(t, "abcdab", string(text))
	_, err := io.ReadAll(TextFiles(one, filepath.Join(dir, "none.txt")))
	require.EqualError(t, err, filepath.Join(dir, "none.txt")+": no such file or directory")
}

// TestTextSamplesMemory reads texts larger than the allowed memory.
func TestTextSamplesMemory(t *testing.T) {
	need.Time(t, "reads megabytes")
	tok := byteTokenizer(t, false)
	line := "#The quick brown fox jumps over the lazy dog, and nobody knows why.\n"
	for name, c := range map[string]struct {
		text string
		o    TextOptions
		size int
	}{
		"through the text": {line, TextOptions{Length: 512}, 3 << 20},
		"cuts":             {line, TextOptions{Length: 512, SampleStart: "#", FillWithNext: true}, 1 << 18},
		"without a space":  {strings.ReplaceAll(line, " ", ""), TextOptions{Length: 512}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			heap, n := rss.WatchHeap(100), 0
			text := io.LimitReader(iterated(c.text), int64(c.size))
			for s, err := range TextSamples(tok, text, c.o) {
				require.NoError(t, err)
				n++
				heap.Look()
				require.NotEmpty(t, s.Tokens)
			}
			require.Greater(t, n, c.size/513)
			t.Logf("%d bytes", heap.Growth())
			require.Less(t, heap.Growth(), int64(1<<20))
		})
	}
}

// iterated returns an endless repetition of a text.
func iterated(text string) io.Reader { return &iteration{text: text} }

type iteration struct {
	text string
	at   int
}

func (r *iteration) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

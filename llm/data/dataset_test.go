package data

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

const end = 256 // ID of BOS and EOS in byteTokenizer

// byteTokenizer returns a tokenizer with a token per byte, and "<|endoftext|>".
func byteTokenizer(t require.TestingT, addBOS bool) *tokenizer.Tokenizer {
	c := need.Value(tokenizer.TrainBPE(slices.Values([]string{"text"}), tokenizer.TrainOptions{VocabSize: 257, AddBOS: addBOS}))(t)
	tok := need.Value(tokenizer.New(c))(t)
	require.EqualValues(t, end, tok.EOS())
	return tok
}

// samplesOf lists the samples of all rows.
func samplesOf(t require.TestingT, d *Dataset) []Sample {
	var list []Sample
	for i := range d.Len() {
		row := need.Value(d.Row(i))(t)
		list = append(list, row...)
	}
	return list
}

// texts formats samples as text, with BOS and EOS as a dot.
func texts(t require.TestingT, tok *tokenizer.Tokenizer, d *Dataset) []string {
	var list []string
	for _, s := range samplesOf(t, d) {
		require.Greater(t, len(s.Tokens), 1)
		require.LessOrEqual(t, len(s.Tokens), d.Length+1)
		var b strings.Builder
		for _, id := range s.Tokens {
			if id == end {
				b.WriteByte('.')
			} else {
				b.Write(tok.Piece(id))
			}
		}
		list = append(list, b.String())
	}
	return list
}

func TestFromText(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          TextOptions
		addBOS     bool
		want       []string
	}{
		{"whole text", "abcdefghij", TextOptions{Length: 3}, false, []string{"abcd", "defg", "ghij"}},
		{"short last sample", "abcdef", TextOptions{Length: 3}, false, []string{"abcd", "def"}},
		{"one target left", "abcde", TextOptions{Length: 3}, false, []string{"abcd", "de"}},
		{"shorter than a sample", "ab", TextOptions{Length: 3}, false, []string{"ab"}},
		{"samples of one token", "abc", TextOptions{Length: 1}, false, []string{"ab", "bc"}},
		{"BOS of the text", "abcd", TextOptions{Length: 3, SeparateBOS: true, SeparateEOS: true}, true, []string{".abc", "cd"}},
		{"special token in the text", "ab<|endoftext|>c", TextOptions{Length: 3}, false, []string{"ab.c"}},

		{"cuts", "x#ab#cdefg#h", TextOptions{Length: 3, SampleStart: "#"}, false, []string{"ab", "cdef", "fg"}},
		{"cuts, kept", "x#ab#cdefg#h", TextOptions{Length: 3, SampleStart: "#", IncludeSampleStart: true}, false, []string{"#ab", "#cde", "efg", "#h"}},
		{"nothing between cuts", "##a##bc", TextOptions{Length: 3, SampleStart: "#"}, false, []string{"bc"}},
		{"long cut", "x--ab-c--d", TextOptions{Length: 5, SampleStart: "--", IncludeSampleStart: true}, false, []string{"--ab-c", "--d"}},
		{"BOS", "#ab#c", TextOptions{Length: 3, SampleStart: "#", SeparateBOS: true}, false, []string{".ab", ".c"}},
		{"EOS", "#ab#c", TextOptions{Length: 3, SampleStart: "#", SeparateEOS: true}, false, []string{"ab.", "c."}},
		{"BOS and EOS", "#ab#cde#f", TextOptions{Length: 3, SampleStart: "#", SeparateBOS: true, SeparateEOS: true}, false, []string{".ab.", ".cde", "e.", ".f."}},
		{"BOS once", "#ab#c", TextOptions{Length: 3, SampleStart: "#", SeparateBOS: true}, true, []string{".ab", ".c"}},

		{"overlapping", "#ab#cd#ef#g", TextOptions{Length: 4, SampleStart: "#", Overlapping: true}, false, []string{"abcde", "cdefg", "efg"}},
		{"overlapping, kept", "#a#b#c", TextOptions{Length: 3, SampleStart: "#", IncludeSampleStart: true, Overlapping: true}, false, []string{"#a#b", "#b#c", "#c"}},
		{"overlapping, long", "#abcde#fg", TextOptions{Length: 3, SampleStart: "#", Overlapping: true}, false, []string{"abcd", "defg", "fg"}},
		{"overlapping, separated", "#ab#cd", TextOptions{Length: 5, SampleStart: "#", Overlapping: true, SeparateBOS: true, SeparateEOS: true}, false, []string{".abcd.", ".cd."}},

		{"filled", "#ab#cdefghij#k", TextOptions{Length: 4, SampleStart: "#", FillWithNext: true}, false, []string{"abcde", "cdefg", "ghijk"}},
		{"filled over several", "#a#b#c#d", TextOptions{Length: 2, SampleStart: "#", FillWithNext: true}, false, []string{"abc", "bcd", "cd"}},
		{"filled, separated", "#ab#cd", TextOptions{Length: 5, SampleStart: "#", FillWithNext: true, SeparateBOS: true, SeparateEOS: true}, false, []string{".ab..c", ".cd."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := byteTokenizer(t, c.addBOS)
			d := need.Value(FromText(tok, c.text, c.o))(t)
			require.Equal(t, c.want, texts(t, tok, d))
			targets := 0
			for _, s := range c.want {
				targets += len(s) - 1
			}
			requireTargets(t, targets, d)
		})
	}
}

func requireTargets(t require.TestingT, want int, d *Dataset) {
	got := 0
	for i := range d.Len() {
		row := need.Value(d.Row(i))(t)
		for _, s := range row {
			got += s.Targets()
		}
	}
	require.Equal(t, want, got)
}

func TestFromTextErrors(t *testing.T) {
	tok := byteTokenizer(t, false)
	for _, c := range []struct {
		text, want string
		o          TextOptions
	}{
		{"", "the text has no sample of at least 2 tokens", TextOptions{Length: 3}},
		{"a", "the text has no sample of at least 2 tokens", TextOptions{Length: 3}},
		{"#a#b#", "the text has no sample of at least 2 tokens", TextOptions{Length: 3, SampleStart: "#"}},
		{"abc", `the text does not contain "\n\n", where a sample would start`, TextOptions{Length: 3, SampleStart: "\n\n"}},
		{"abc", "the field Length is 0; set it to the most predicted tokens of a sample, such as the context of the model", TextOptions{}},
	} {
		_, err := FromText(tok, c.text, c.o)
		require.EqualError(t, err, c.want)
	}
}

// Without cuts, each token except the first is a target once, after all earlier tokens of its sample.
func TestEachTokenIsATargetOnce(t *testing.T) {
	tok := byteTokenizer(t, false)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{2,60}`).Draw(t, "text")
		length := rapid.IntRange(1, 20).Draw(t, "length")
		d := need.Value(FromText(tok, text, TextOptions{Length: length}))(t)
		again := text[:1]
		for i, s := range texts(t, tok, d) {
			require.Equal(t, again[len(again)-1], s[0], "a sample begins with the last target of the one before")
			again += s[1:]
			if i < d.Len()-1 {
				require.Len(t, s, length+1, "only the last sample is short")
			}
		}
		require.Equal(t, text, again)
		requireTargets(t, len(text)-1, d)
	})
}

// With cuts the same holds for each part, whatever extends short samples.
func TestCutsLoseNothing(t *testing.T) {
	tok := byteTokenizer(t, false)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-z]{2,12}`), 1, 6).Draw(t, "parts")
		o := TextOptions{Length: rapid.IntRange(1, 8).Draw(t, "length"), SampleStart: "#"}
		fill := rapid.IntRange(0, 2).Draw(t, "fill")
		o.Overlapping, o.FillWithNext = fill == 1, fill == 2
		d := need.Value(FromText(tok, "#"+strings.Join(parts, "#"), o))(t)
		samples := texts(t, tok, d)
		for i, part := range parts {
			rest := strings.Join(parts[i+1:], "")
			for from := 0; from < len(part)-1; from += o.Length {
				want := part[from:]
				if fill != 0 {
					want += rest
				}
				require.Equal(t, want[:min(len(want), o.Length+1)], samples[0])
				samples = samples[1:]
			}
		}
		require.Empty(t, samples)
	})
}

func numbered(n int) *Dataset {
	var list []Sample
	for i := range n {
		list = append(list, Sample{Tokens: []int32{int32(i), 0}})
	}
	return New(1, list)
}

func TestLimit(t *testing.T) {
	d := numbered(10)
	for n, want := range map[int][]int32{
		1: {0}, 2: {0, 5}, 3: {0, 3, 6}, 4: {0, 2, 5, 7}, 9: {0, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		var got []int32
		few := d.Limit(n)
		for _, s := range samplesOf(t, few) {
			got = append(got, s.Tokens[0])
		}
		require.Equal(t, want, got, n)
		require.Equal(t, d.Length, few.Length)
	}
	for _, all := range []int{-1, 10, 11} {
		require.Same(t, d, d.Limit(all))
	}
	require.Zero(t, d.Limit(0).Len(), "a limit of nothing leaves nothing")
	require.EqualError(t, d.Limit(0).Check(2), "the data set has no samples")
}

func TestTargets(t *testing.T) {
	require.Equal(t, 0, Sample{}.Targets())
	require.Equal(t, 0, Sample{Tokens: []int32{1}}.Targets())
	require.Equal(t, 2, Sample{Tokens: []int32{1, 2, 3}}.Targets())
	require.Equal(t, 1, Sample{Tokens: []int32{1, 2, 3}, LossWeights: []float32{0, 0.5}}.Targets())
}

// Reading rows of a closed data set, even one that shares the samples, and rows out of range are
// errors.
func TestRowErrors(t *testing.T) {
	samples := []Sample{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{4, 5}}}
	prepared, _, err := Prepare(t.Context(), sequenceOf(samples), func(s Sample) (Sample, error) { return s, nil }, PrepareOptions{Length: 4})
	require.NoError(t, err)
	for _, d := range []*Dataset{New(4, samples), prepared} {
		packed := need.Value(d.Packed(1))(t)
		for _, row := range []int{-1, 2, 1 << 40} {
			_, err := d.Row(row)
			require.EqualError(t, err, fmt.Sprintf("there is no row %d: the data set has 2", row))
		}
		require.NoError(t, d.Close())
		for _, closed := range []*Dataset{d, packed} {
			_, err := closed.Row(0)
			require.ErrorIs(t, err, ggml.ErrClosed)
			require.ErrorIs(t, err, os.ErrClosed)
		}
	}
	for _, d := range []*Dataset{nil, {}, New(3, nil)} {
		_, err := d.Row(0)
		require.EqualError(t, err, "there is no row 0: the data set has 0")
		require.Zero(t, d.Fill())
		require.Zero(t, d.NumTokens())
		require.EqualError(t, d.Check(1), "the data set has no samples")
		require.NotEmpty(t, d.Fingerprint())
	}
}

// Rows longer than all tokens take no more memory than the tokens, and are packed the same.
func TestPackedIntoVeryLongRows(t *testing.T) {
	samples := []Sample{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{4, 5}}, {Tokens: []int32{6, 7, 8}}}
	want := need.Value(New(5, samples).Packed(1))(t)
	got := need.Value(New(1<<40, samples).Packed(1))(t)
	require.Equal(t, 1, got.Len())
	require.Equal(t, samplesOf(t, want), samplesOf(t, got))
}

func sequenceOf[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
	}
}

package tokenizer_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/llm/tokenizer"
)

// cutAnywhere divides text into segments, some of them empty.
func cutAnywhere(t *rapid.T, text string, parse *rapid.Generator[bool]) []tokenizer.Segment {
	cuts := rapid.SliceOfN(rapid.IntRange(0, len(text)), 0, 5).Draw(t, "cuts")
	slices.Sort(cuts)
	from := 0
	var segments []tokenizer.Segment
	for _, to := range append(cuts, len(text)) {
		segments = append(segments, tokenizer.Segment{Text: text[from:to], ParseSpecial: parse.Draw(t, "ParseSpecial")})
		from = to
	}
	return segments
}

func joined(segments []tokenizer.Segment) string {
	var b strings.Builder
	for _, p := range segments {
		b.WriteString(p.Text)
	}
	return b.String()
}

// stripping is the small vocabulary with a token that strips the white space behind it.
func stripping(t testing.TB) *tokenizer.Tokenizer {
	cfg := smallSPM()
	cfg.StripRight = []tokenizer.ID{2}
	return mustNew(t, cfg)
}

func TestSegmentsOfOneKindAreTheText(t *testing.T) {
	all := allTokenizers(t)
	all["spm2"] = loadTokenizer(t, "spm2", nil)
	all["bpe2"] = loadTokenizer(t, "bpe2", nil)
	all["stripping"] = stripping(t)
	rapid.Check(t, func(rt *rapid.T) {
		text := texts().Draw(rt, "text")
		o := tokenizer.EncodeOptions{AddSpecial: rapid.Bool().Draw(rt, "AddSpecial"), ParseSpecial: rapid.Bool().Draw(rt, "ParseSpecial")}
		segments := cutAnywhere(rt, text, rapid.Just(o.ParseSpecial))
		for name, tok := range all {
			ids, ends := tok.EncodeSegments(segments, o)
			require.Equal(rt, tok.Encode(text, o), ids, "%s: %q", name, text)
			require.Len(rt, ends, len(ids))
			require.True(rt, slices.IsSorted(ends), "%s: %v", name, ends)
		}
	})
}

// TestSegmentsGolden cuts the texts that stock llama.cpp encoded.
func TestSegmentsGolden(t *testing.T) {
	for _, name := range []string{"bpe-qwen35", "bpe2-llama-bpe", "spm", "spm2"} {
		t.Run(name, func(t *testing.T) {
			tok := goldenTokenizer(t, name)
			for i, g := range readGolden(t, filepath.Join("testdata", "tokens-"+name+".jsonl")) {
				text := unhex(t, g.Hex)
				at := i % (len(text) + 1)
				for parse, want := range map[bool][]tokenizer.ID{false: g.S1P0, true: g.S1P1} {
					segments := []tokenizer.Segment{{text[:at], parse}, {text[at:], parse}}
					ids, ends := tok.EncodeSegments(segments, tokenizer.EncodeOptions{AddSpecial: true})
					require.Equal(t, want, ids, "%q cut at %d", text, at)
					if len(ids) > 0 && text != "" {
						require.Equal(t, len(text), ends[len(ends)-1], "%q", text)
					}
				}
			}
		})
	}
}

// The text of a token is at its offsets in the whole text.
func TestEnds(t *testing.T) {
	for name, tok := range allTokenizers(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := texts().Draw(rt, "text")
				segments := cutAnywhere(rt, text, rapid.Bool())
				ids, ends := tok.EncodeSegments(segments, tokenizer.EncodeOptions{AddSpecial: true})
				from := 0
				for i, end := range ends {
					checkToken(rt, name, tok, ids[i], text[from:end], i)
					from = end
				}
				require.Equal(rt, len(text), from)
			})
		})
	}
}

// checkToken compares the text of a token with the bytes that it covers. Only the last token of a replaced byte
// covers it.
func checkToken(t require.TestingT, name string, tok *tokenizer.Tokenizer, id tokenizer.ID, bytes string, i int) {
	piece := string(tok.Piece(id))
	switch {
	case i == 0 && id == tok.BOS() && tok.AddsBOS():
		require.Empty(t, bytes)
	case strings.ContainsAny(piece, "\uFFFD\xEF\xBF\xBD\xE2\x96\x81"): // of U+FFFD or "▁"
	case name == "spm":
		words := strings.ReplaceAll(bytes, "▁", " ")
		require.Contains(t, []string{words, " " + words}, piece, "a space prefix is not in the text")
	default:
		require.Equal(t, piece, bytes)
	}
}

func TestEndsByHand(t *testing.T) {
	bpe := mustNew(t, smallBPE())
	spm := mustNew(t, smallSPM())
	bytes := loadTokenizer(t, "spm", nil)
	for _, c := range []struct {
		name, text string
		tok        *tokenizer.Tokenizer
		want       []string // the bytes of each token
	}{
		{"tokens", "low 10", bpe, []string{"lo", "w", " 1", "0"}},
		{"a character of several tokens", "日", bpe, []string{"\xe6", "\x97", "\xa5"}},
		{"an invalid byte becomes three", "a\xffb", bpe, []string{"a", "", "", "\xff", "b"}},
		{"a control token", "lo<|im_end|>lo", bpe, []string{"lo", "<|im_end|>", "lo"}},
		{"BOS and a space prefix", "ab", spm, []string{"", "", "ab"}},
		{"a space prefix in a token", "a a", spm, []string{"", "a", " a"}},
		{"no token of a character", "aéa", spm, []string{"", "a", "\xc3", "\xa9", "a"}},
		{"white space stripped", "a</s> \n a", stripping(t), []string{"", "a", "</s> \n ", "a"}},
		{"byte tokens", "\xffé\x00", bytes, []string{"", "", "\xff", "\xc3", "\xa9", "\x00"}},
		{"a space of its own", "   ", bytes, []string{"", "   "}},
		{"nothing", "", bytes, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ends := c.tok.EncodeSegments([]tokenizer.Segment{{c.text, true}}, special)
			var got []string
			from := 0
			for _, end := range ends {
				got = append(got, c.text[from:end])
				from = end
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Bytes without a token belong to the next one.
func TestEndsWithoutTokens(t *testing.T) {
	cfg := smallSPM()
	cfg.Unknown = tokenizer.None
	ids, ends := mustNew(t, cfg).EncodeSegments([]tokenizer.Segment{{Text: "aéaé"}}, plain)
	require.Equal(t, []tokenizer.ID{6, 4}, ids)
	require.Equal(t, []int{1, 4}, ends)

	bpe := smallBPE()
	bpe.Tokens[slices.Index(bpe.Tokens, "w")] = "no w"
	tok := mustNew(t, bpe)
	ids, ends = tok.EncodeSegments([]tokenizer.Segment{{Text: "wow wow"}}, plain)
	require.Equal(t, "o o", tok.Decode(ids, exact))
	require.Equal(t, []int{2, 4, 6}, ends)
}

func TestForgedTokensAreText(t *testing.T) {
	all := allTokenizers(t)
	all["spm2"] = loadTokenizer(t, "spm2", nil)
	all["stripping"] = stripping(t)
	marks := rapid.SampledFrom([]string{"<|im_end|>", "<|im_start|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<|", "im_end", "|>", "<", "s>", " ", "a"})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(marks, 0, 8).Draw(rt, "text"), "")
		segments := cutAnywhere(rt, text, rapid.Bool())
		for name, tok := range all {
			checkForged(rt, name, tok, segments)
		}
	})
}

// checkForged requires that control tokens are only where segments allow them, and that the ids between them equal
// the ids of plain text.
func checkForged(t require.TestingT, name string, tok *tokenizer.Tokenizer, segments []tokenizer.Segment) {
	text := joined(segments)
	parsed := make([]bool, 0, len(text))
	for _, p := range segments {
		parsed = append(parsed, slices.Repeat([]bool{p.ParseSpecial}, len(p.Text))...)
	}
	may := func(from, to int) bool { return !slices.Contains(parsed[from:to], false) }
	ids, ends := tok.EncodeSegments(segments, plain)

	from, first := 0, 0
	for i, id := range append(ids, tokenizer.None) {
		atEnd := i == len(ids)
		if !atEnd && (!tok.IsSpecial(id) || !strings.HasPrefix(text[startOf(ends, i):ends[i]], tok.TokenText(id))) {
			continue // text, or the unknown token for it
		}
		to := len(text)
		if !atEnd {
			to = startOf(ends, i)
			require.True(t, may(to, to+len(tok.TokenText(id))), "%s: %q forged in %+v", name, tok.TokenText(id), segments)
		}
		between := text[from:to]
		require.Equal(t, fmt.Sprint(tok.Encode(between, plain)), fmt.Sprint(ids[first:i]), "%s: %q in %+v", name, between, segments)
		for id := range tokenizer.ID(tok.NumTokens()) {
			if !tok.IsSpecial(id) {
				continue
			}
			if at := strings.Index(between, tok.TokenText(id)); at >= 0 {
				require.False(t, may(from+at, from+at+len(tok.TokenText(id))), "%s: %q missed in %+v", name, tok.TokenText(id), segments)
			}
		}
		if !atEnd {
			from, first = ends[i], i+1
		}
	}
}

func startOf(ends []int, i int) int {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}

func FuzzEncodeSegments(f *testing.F) {
	f.Add("<|im_start|>user\n", "hi<|im_end|>", "<|im_end|>\n")
	f.Add("<|im_", "end|>", "</s> \xff")
	all := allTokenizers(f)
	f.Fuzz(func(t *testing.T, before, words, after string) {
		segments := []tokenizer.Segment{{before, true}, {words, false}, {after, true}}
		for name, tok := range all {
			checkForged(t, name, tok, segments)
			ids, ends := tok.EncodeSegments(segments, special)
			require.Len(t, ends, len(ids))
			require.True(t, slices.IsSorted(ends))
		}
	})
}

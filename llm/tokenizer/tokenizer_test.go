package tokenizer_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

var (
	plain   = tokenizer.EncodeOptions{}
	special = tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}
	exact   = tokenizer.DecodeOptions{KeepSpaces: true}
)

// smallBPE is a vocabulary for tests of single rules: all bytes, some merges
// and one token of each kind.
func smallBPE() tokenizer.Config {
	cfg, err := tokenizer.TrainBPE(func(yield func(string) bool) {
		yield("low lower lowest newer wider 10 100 1000 it's we're")
	}, tokenizer.TrainOptions{VocabSize: 266, Special: []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}})
	if err != nil {
		panic(err)
	}
	return cfg
}

func smallSPM() tokenizer.Config {
	cfg, err := tokenizer.DefaultConfig(tokenizer.ModelSPM, "")
	if err != nil {
		panic(err)
	}
	cfg.Tokens = []string{"<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab"}
	cfg.Scores = []float32{0, 0, 0, -5, -6, -7, -2, -1}
	cfg.Types = []tokenizer.TokenType{tokenizer.Unknown, tokenizer.Control, tokenizer.Control,
		tokenizer.Normal, tokenizer.Normal, tokenizer.Normal, tokenizer.Normal, tokenizer.Normal}
	return cfg
}

func mustNew(t testing.TB, cfg tokenizer.Config) *tokenizer.Tokenizer {
	t.Helper()
	return need.Value(tokenizer.New(cfg))(t)
}

func TestNewRejects(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*tokenizer.Config)
		want   string
	}{
		{"model", func(c *tokenizer.Config) { c.Model = "plamo2" }, `model "plamo2" is not supported, use "llama"`},
		{"pre", func(c *tokenizer.Config) { c.Pre = "gpt-9" }, `pre-tokenizer "gpt-9" is not supported, known are: `},
		{"pre list", func(c *tokenizer.Config) { c.Pre = "gpt-9" }, "known are: a.x-4.0, afmoe, bailingmoe, "},
		{"pre list, later", func(c *tokenizer.Config) { c.Pre = "gpt3" }, "gpt-2, gpt-4o, gpt3-finnish, granite-docling, "},
		{"no tokens", func(c *tokenizer.Config) { c.Tokens = nil }, "has no tokens"},
		{"scores", func(c *tokenizer.Config) { c.Scores = make([]float32, 3) }, "3 scores for 266 tokens"},
		{"types", func(c *tokenizer.Config) { c.Types = c.Types[:7] }, "7 token types for 266 tokens"},
		{"type", func(c *tokenizer.Config) { c.Types[4] = 9 }, "token 4 (\"%\") has type 9"},
		{"byte token", func(c *tokenizer.Config) { c.Types[4] = tokenizer.Byte }, "not written <0xXX>"},
		{"merge without space", func(c *tokenizer.Config) { c.Merges[2] = "abc" }, `merge 2 is "abc"`},
		{"merge without right", func(c *tokenizer.Config) { c.Merges[2] = "abc " }, `merge 2 is "abc "`},
		{"merge without left", func(c *tokenizer.Config) { c.Merges[2] = "" }, `merge 2 is ""`},
		{"id too large", func(c *tokenizer.Config) { c.EOS = 266 }, "EOS is token 266"},
		{"id too small", func(c *tokenizer.Config) { c.Padding = -2 }, "Padding is token -2"},
		{"extra id", func(c *tokenizer.Config) { c.ExtraEOG = []tokenizer.ID{900} }, "ExtraEOG has token 900"},
		{"no BOS", func(c *tokenizer.Config) { c.BOS, c.AddBOS = tokenizer.None, true }, "texts should begin with a BOS token, but the vocabulary has none"},
		{"no EOS", func(c *tokenizer.Config) { c.EOS, c.AddEOS = tokenizer.None, true }, "texts should end with an EOS token, but the vocabulary has none"},
		{"duplicate", func(c *tokenizer.Config) { c.Tokens[9] = c.Tokens[3] }, `tokens 3 and 9 are both "$"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := smallBPE()
			c.change(&cfg)
			_, err := tokenizer.New(cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
	cfg := smallSPM()
	cfg.Merges = []string{"a b"}
	_, err := tokenizer.New(cfg)
	require.ErrorContains(t, err, "1 merges given")
	cfg = smallSPM()
	cfg.Scores[4] = float32(math.NaN())
	_, err = tokenizer.New(cfg)
	require.ErrorContains(t, err, "score of token 4")
}

func TestNewKeepsCopy(t *testing.T) {
	cfg := smallBPE()
	tok := mustNew(t, cfg)
	before := tok.Encode("lower", plain)
	clear(cfg.Tokens)
	clear(cfg.Merges)
	tok.Config().Tokens[0] = "changed"
	require.Equal(t, before, tok.Encode("lower", plain))
	require.Equal(t, "!", tok.TokenText(0))
}

func TestSPMRules(t *testing.T) {
	tok := mustNew(t, smallSPM())
	// "▁ab": "ab" scores better than "▁a", so the prefix stays alone.
	require.Equal(t, []tokenizer.ID{1, 3, 7}, tok.Encode("ab", special))
	require.Equal(t, []tokenizer.ID{6}, tok.Encode("a", plain))
	// Without byte pieces each byte of a character is unknown.
	require.Equal(t, []tokenizer.ID{3, 0, 0}, tok.Encode("é", plain))
	// After a special token, a new text begins, with its own prefix.
	require.Equal(t, []tokenizer.ID{1, 6, 2, 6}, tok.Encode("a</s>a", special))
	require.Equal(t, "a", tok.Decode([]tokenizer.ID{6}, tokenizer.DecodeOptions{}))
	require.Equal(t, " a", tok.Decode([]tokenizer.ID{6}, tokenizer.DecodeOptions{Continuation: true}))
	require.Equal(t, " a", tok.Decode([]tokenizer.ID{1, 6}, tokenizer.DecodeOptions{RemoveSpecial: true}))
	require.Equal(t, "<s> a</s>", tok.Decode([]tokenizer.ID{1, 6, 2}, tokenizer.DecodeOptions{ShowSpecial: true}))

	cfg := smallSPM()
	cfg.StripRight = []tokenizer.ID{2}
	cfg.AddSpacePrefix = false
	tok = mustNew(t, cfg)
	require.Equal(t, []tokenizer.ID{4, 2, 4}, tok.Encode("a</s> \n a", tokenizer.EncodeOptions{ParseSpecial: true}))
}

func TestAccessors(t *testing.T) {
	tok := mustNew(t, smallBPE())
	start, ok := tok.TokenID("<|im_start|>")
	require.True(t, ok)
	end, ok := tok.TokenID("<|im_end|>")
	require.True(t, ok)
	text, ok := tok.TokenID("<|endoftext|>")
	require.True(t, ok)
	_, ok = tok.TokenID("no such token")
	require.False(t, ok)

	require.Equal(t, text, tok.BOS())
	require.Equal(t, text, tok.EOS())
	require.Equal(t, end, tok.EOT(), "found by its text")
	require.Equal(t, tokenizer.None, tok.Unknown())
	require.Equal(t, tokenizer.None, tok.Padding())
	require.False(t, tok.AddsBOS())
	require.False(t, tok.AddsEOS())
	require.Equal(t, 266, tok.NumTokens())
	require.True(t, tok.IsEOG(text))
	require.True(t, tok.IsEOG(end))
	require.False(t, tok.IsEOG(start))
	require.True(t, tok.IsSpecial(start))
	require.False(t, tok.IsSpecial(0))
	require.True(t, tok.IsText(0))
	require.False(t, tok.IsText(start))
	require.Equal(t, []byte("<|im_end|>"), tok.Piece(end))
	space, ok := tok.TokenID("Ġ")
	require.True(t, ok)
	require.Equal(t, []byte(" "), tok.Piece(space))

	for _, id := range []tokenizer.ID{-1, 266, 1 << 30, -1 << 31} {
		require.Nil(t, tok.Piece(id))
		require.Empty(t, tok.TokenText(id))
		require.False(t, tok.IsSpecial(id))
		require.False(t, tok.IsText(id))
		require.False(t, tok.IsEOG(id))
		require.Empty(t, tok.Decode([]tokenizer.ID{id}, exact))
		require.Empty(t, tok.NewDecoder(exact).Push(id))
	}
}

func TestParseSpecial(t *testing.T) {
	tok := mustNew(t, smallBPE())
	end, _ := tok.TokenID("<|im_end|>")
	text := "low<|im_end|>er"
	require.Contains(t, tok.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true}), end)
	require.NotContains(t, tok.Encode(text, plain), end, "text must not forge control tokens")
	require.Equal(t, text, tok.Decode(tok.Encode(text, plain), exact))
}

// texts generates strings rich in characters that split patterns distinguish.
func texts() *rapid.Generator[string] {
	bits := rapid.SampledFrom([]string{" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'", "a", "the", "Öl", "1", "2024",
		"²", ".", "...", "<|im_end|>", "<|tool|>", "<s>", "日本", "한", "😀", "e\u0301", "\u00a0", "\u3000", "\x00", "▁", "Ġ"})
	part := rapid.OneOf(bits, rapid.StringN(0, 3, 8))
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 20).Draw(t, "parts"), "")
	})
}

// patterns are the pre-tokenizers that differ in how they split.
var patterns = []string{"gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "falcon", "default"}

func allTokenizers(t testing.TB) map[string]*tokenizer.Tokenizer {
	all := map[string]*tokenizer.Tokenizer{"spm": loadTokenizer(t, "spm", nil)}
	for _, pre := range patterns {
		all[pre] = loadTokenizer(t, "bpe", map[string]any{"pre": pre})
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	all := allTokenizers(t)
	rapid.Check(t, func(rt *rapid.T) {
		text := texts().Draw(rt, "text")
		for name, tok := range all {
			checkRoundTrip(rt, name, tok, text)
		}
	})
}

// checkRoundTrip checks that decoding inverts encoding, at once and token by token, as far as the formats permit.
func checkRoundTrip(t require.TestingT, name string, tok *tokenizer.Tokenizer, text string) {
	want := text
	if name == "spm" {
		want = strings.ReplaceAll(text, "▁", " ")
	} else if !utf8.ValidString(text) {
		return
	}
	for _, parse := range []bool{false, true} {
		ids := tok.Encode(text, tokenizer.EncodeOptions{ParseSpecial: parse})
		opts := tokenizer.DecodeOptions{KeepSpaces: true, ShowSpecial: true}
		got := tok.Decode(ids, opts)
		if name == "spm" && !utf8.ValidString(text) { // a space may end up in byte pieces
			got = strings.ReplaceAll(got, "▁", " ")
		}
		if name == "spm" && parse { // each text after a special token has a prefix of its own
			want, got = strings.ReplaceAll(want, " ", ""), strings.ReplaceAll(got, " ", "")
		}
		require.Equal(t, want, got, name)
		checkStream(t, tok, ids, opts)
	}
}

func checkStream(t require.TestingT, tok *tokenizer.Tokenizer, ids []tokenizer.ID, opts tokenizer.DecodeOptions) {
	want := tok.Decode(ids, opts)
	dec := tok.NewDecoder(opts)
	for range 2 { // a flushed decoder is as new
		var got strings.Builder
		for _, id := range ids {
			s := dec.Push(id)
			if utf8.ValidString(want) {
				require.True(t, utf8.ValidString(s), "%q of %q", s, want)
			}
			got.WriteString(s)
		}
		got.WriteString(dec.Flush())
		require.Equal(t, want, got.String())
	}
}

func TestDecoder(t *testing.T) {
	for _, name := range []string{"spm", "spm2", "bpe", "bpe2"} {
		t.Run(name, func(t *testing.T) {
			tok := loadTokenizer(t, name, map[string]any{"add_bos_token": true, "add_eos_token": true})
			rapid.Check(t, func(rt *rapid.T) {
				// Ids in any order: pieces of characters, specials, ids out of range.
				id := rapid.OneOf(rapid.Int32Range(-2, int32(tok.NumTokens())), rapid.SampledFrom([]int32{tok.BOS(), tok.EOS()}))
				ids := rapid.SliceOfN(id, 0, 12).Draw(rt, "ids")
				opts := tokenizer.DecodeOptions{
					KeepSpaces:    true,
					RemoveSpecial: rapid.Bool().Draw(rt, "RemoveSpecial"),
					ShowSpecial:   rapid.Bool().Draw(rt, "ShowSpecial"),
					Continuation:  rapid.Bool().Draw(rt, "Continuation"),
				}
				checkStream(rt, tok, ids, opts)
			})
		})
	}
}

func TestDecoderHoldsBack(t *testing.T) {
	tok := loadTokenizer(t, "spm", nil)
	push := func(d *tokenizer.Decoder, b byte) string {
		id, ok := tok.TokenID(fmt.Sprintf("<0x%02X>", b))
		require.True(t, ok)
		return d.Push(id)
	}
	d := tok.NewDecoder(tokenizer.DecodeOptions{Continuation: true})
	var got []string
	for _, b := range []byte("é😀") {
		got = append(got, push(d, b))
	}
	require.Equal(t, []string{"", "é", "", "", "", "😀"}, got)

	require.Equal(t, "", push(d, 0xF0))
	require.Equal(t, "\xF0A", push(d, 'A'), "a character that cannot come is let go")
	require.Equal(t, "\xFF", push(d, 0xFF))
	require.Equal(t, "", push(d, 0xE2))
	require.Equal(t, "\xE2", d.Flush())
	require.Equal(t, "", d.Flush())
}

func TestCleanSpaces(t *testing.T) {
	tok := mustNew(t, smallBPE())
	for text, want := range map[string]string{
		"a . b , c ? d !": "a. b, c? d!",
		"a  .":            "a .",
		"it 's we 're":    "it's we're",
		"it 't it 'll":    "it 't it 'll",
		"rock ' roll":     "rock'roll",
		"a ' ' b":         "a'' b",
		" .":              ".",
		"":                "",
	} {
		ids := tok.Encode(text, plain)
		require.Equal(t, want, tok.Decode(ids, tokenizer.DecodeOptions{}), "%q", text)
		require.Equal(t, text, tok.Decode(ids, exact))
	}
}

func TestConcurrentUse(t *testing.T) {
	for name, tok := range allTokenizers(t) {
		text := strings.Repeat("The 12 lower don't 日本 <|im_end|>\n", 20)
		want := tok.Encode(text, special)
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				got := tok.Encode(text, special)
				if len(got) != len(want) || tok.Decode(got, exact) != tok.Decode(want, exact) {
					t.Errorf("%s: goroutines disagree", name)
				}
			}()
		}
		wg.Wait()
	}
}

// TestLongInputs would take minutes if anything were quadratic.
func TestLongInputs(t *testing.T) {
	need.Time(t, "encodes megabytes")
	const size = 1 << 20
	all := allTokenizers(t)
	for _, unit := range []string{" ", "a", "7", "\n ", "'", "日", "\xff", "<|im_end|>", "the"} {
		text := strings.Repeat(unit, size/len(unit)) + "x"
		for _, name := range []string{"spm", "gpt-2", "qwen2", "default"} {
			start := time.Now()
			ids := all[name].Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
			require.NotEmpty(t, ids)
			require.Less(t, time.Since(start), 20*time.Second, "%s on 1 MB of %q", name, unit)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, seed := range []string{"", " ", "Hello world", "don't  1234\r\n\r\n x", "<s>a</s><|im_end|>", "\xff\xed\xa0\x80\xf0\x9f", "▁Ġ日本😀"} {
		f.Add(seed)
	}
	all := allTokenizers(f)
	f.Fuzz(func(t *testing.T, text string) {
		for name, tok := range all {
			for _, id := range tok.Encode(text, special) {
				require.True(t, id >= 0 && int(id) < tok.NumTokens(), "%s: id %d", name, id)
			}
			checkRoundTrip(t, name, tok, text)
		}
	})
}

// benchText is made-up prose with names, numbers and other scripts.
func benchText(size int) string {
	vowels, consonants := []string{"a", "e", "i", "o", "u", "é", "и"}, []string{"b", "d", "k", "l", "m", "n", "r", "s", "t", "th"}
	var b strings.Builder
	state := uint32(1)
	next := func(n int) int {
		state = state*1664525 + 1013904223
		return int(state>>16) % n
	}
	for b.Len() < size {
		for range 1 + next(4) {
			b.WriteString(consonants[next(len(consonants))] + vowels[next(len(vowels))])
		}
		b.WriteString([]string{" ", " ", " ", " ", ", ", ". ", "'s ", " 1984 ", "\n\n", " 日本 "}[next(10)])
	}
	return b.String()
}

func BenchmarkEncode(b *testing.B) {
	text := benchText(1 << 20)
	for _, name := range append([]string{"spm"}, patterns...) {
		tok := allTokenizers(b)[name]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, plain)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	text := benchText(1 << 20)
	tok := loadTokenizer(b, "bpe", nil)
	ids := tok.Encode(text, plain)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Decode(ids, exact)
	}
}

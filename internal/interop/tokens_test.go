//go:build interop

package interop

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A stockText is stock's result for a text: its tokens, and the text to which they decode.
type stockText struct {
	ids  []int32
	text string
}

// stockTokens returns llama.cpp's tokens of texts.
func stockTokens(t *testing.T, modelPath string, texts []string) []stockText {
	t.Helper()
	var file bytes.Buffer
	for _, text := range texts {
		fmt.Fprintf(&file, "%d\n%s", len(text), text)
	}
	path := filepath.Join(t.TempDir(), "texts")
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o600))
	lines := strings.Split(run(t, filepath.Join(stock, "run"), filepath.Join(stock, "tokens"), modelPath, path), "\n")
	require.Len(t, lines, 2*len(texts)+1)
	all := make([]stockText, len(texts))
	for i := range all {
		all[i].ids = []int32{}
		for _, field := range strings.Fields(lines[2*i]) {
			id := need.Value(strconv.Atoi(field))(t)
			all[i].ids = append(all[i].ids, int32(id))
		}
		decoded := need.Value(hex.DecodeString(lines[2*i+1]))(t)
		all[i].text = string(decoded)
	}
	return all
}

// TestInteropPreTokenizers compares tokens and decoded texts of every pre-tokenizer with stock's, on a
// vocabulary that merges across any two words.
func TestInteropPreTokenizers(t *testing.T) {
	for _, seed := range seeds() {
		rng := seeded(t, seed)
		learned, texts := generatedTexts(rng, 3000), generatedTexts(rng, 500)
		vocabulary, characters := mergingVocabulary(t, rng, learned, 3000), characterVocabulary(t, rng, learned)
		for _, pre := range tokenizer.PreTokenizers() {
			t.Run(pre+" "+seed, func(t *testing.T) {
				v := vocabulary
				if slices.Contains(characterPres, pre) {
					v = characters
				}
				compareTexts(t, withKey(v, "pre", pre), texts)
			})
		}
		t.Run("model gemma4 "+seed, func(t *testing.T) {
			bos, _ := characters.Value("tokenizer.ggml.eos_token_id")
			compareTexts(t, withKey(withKey(characters, "model", "gemma4"), "bos_token_id", bos), texts)
		})
		t.Run("model plamo3 "+seed, func(t *testing.T) { compareTexts(t, scoredVocabulary(t, rng, learned), texts) })
	}
}

// TestInteropCodePoints compares code points with stock's, by pre-tokenizers that use all character classes and
// ranges.
func TestInteropCodePoints(t *testing.T) {
	var texts []string
	var b strings.Builder
	for r := rune(1); r < 0xE1000; r++ {
		switch {
		case unicode.Is(unicode.Han, r) || unicode.Is(unicode.Hangul, r):
			r += 36 // these are all alike
		case r == 0x32400:
			r = 0xE0000 // unassigned in between
		}
		fmt.Fprintf(&b, "a%[1]ca %[1]c1%[1]c.", r)
		if b.Len() > 2000 {
			texts = append(texts, b.String())
			b.Reset()
		}
	}
	vocabulary := mergingVocabulary(t, seeded(t, "1"), texts, 300)
	for _, pre := range []string{"qwen35", "deepseek-v3", "kimi-k2", "k2-horizon", "deepseek-llm", "afmoe"} {
		t.Run(pre, func(t *testing.T) { compareTexts(t, withKey(vocabulary, "pre", pre), texts) })
	}
}

// withKey returns a copy of keys with one value replaced.
func withKey(kvs tokenizer.KeyValues, name string, value any) tokenizer.KeyValues {
	key := "tokenizer.ggml." + name
	kvs = slices.DeleteFunc(slices.Clone(kvs), func(kv tokenizer.KeyValue) bool { return kv.Key == key })
	return append(kvs, tokenizer.KeyValue{Key: key, Value: value})
}

// characterPres are the pre-tokenizers of character vocabularies.
var characterPres = []string{"gemma4", "granite-embed-multi-311m", "sarvam-moe", "mmbert"}

func seeded(t *testing.T, seed string) *rand.Rand {
	n := need.Value(strconv.ParseUint(seed, 10, 64))(t)
	return rand.New(rand.NewPCG(n, 0))
}

// vocabularyFile writes a vocabulary, and reads it.
func vocabularyFile(t *testing.T, kvs tokenizer.KeyValues) (path string, ours *tokenizer.Tokenizer) {
	path = filepath.Join(t.TempDir(), "vocabulary.gguf")
	g := need.Value(ggml.NewGGUF())(t)
	defer g.Close()
	require.NoError(t, g.Set("general.architecture", "llama"))
	for _, kv := range kvs {
		require.NoError(t, g.Set(kv.Key, kv.Value))
	}
	require.NoError(t, g.WriteFile(path))
	ours = need.Value(tokenizer.FromMetadata(g))(t)
	return path, ours
}

func compareTexts(t *testing.T, vocabulary tokenizer.KeyValues, texts []string) {
	path, ours := vocabularyFile(t, vocabulary)
	wrong := 0
	for i, theirs := range stockTokens(t, path, texts) {
		ids := ours.Encode(texts[i], tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		text := ours.Decode(theirs.ids, tokenizer.DecodeOptions{ShowSpecial: true})
		if slices.Equal(ids, theirs.ids) && text == theirs.text {
			continue
		}
		if wrong++; wrong > 3 {
			continue
		}
		at := 0
		for at < min(len(ids), len(theirs.ids)) && ids[at] == theirs.ids[at] {
			at++
		}
		t.Errorf("%q: from token %d on, ours has %q, stock %q", texts[i], at, pieces(ours, ids[at:]), pieces(ours, theirs.ids[at:]))
		if text != theirs.text {
			t.Errorf("decoded, ours is %q, stock's %q", text, theirs.text)
		}
	}
	require.Zero(t, wrong, "of %d texts", len(texts))
}

func pieces(tok *tokenizer.Tokenizer, ids []int32) (all []string) {
	for _, id := range ids[:min(len(ids), 6)] {
		all = append(all, string(tok.Piece(id)))
	}
	return all
}

// mergingVocabulary trains a vocabulary on texts whose words it does not know, adds pairs of adjacent bytes in
// them, and shuffles the merges: the tokens show where a text is split.
func mergingVocabulary(t *testing.T, rng *rand.Rand, texts []string, size int) tokenizer.KeyValues {
	c := need.Value(tokenizer.TrainBPE(slices.Values(texts), tokenizer.TrainOptions{VocabSize: size, Pre: "superbpe",
		Special: []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}}))(t)
	known := map[string]bool{}
	for _, token := range c.Tokens {
		known[token] = true
	}
	byteTokens := byteTokens(c)
	merge := func(left, right string) {
		if known[left+right] {
			return
		}
		known[left+right] = true
		c.Tokens, c.Types = append(c.Tokens, left+right), append(c.Types, tokenizer.Normal)
		c.Merges = append(c.Merges, left+" "+right)
	}
	for _, text := range texts {
		for i := 1; i < len(text); i++ {
			merge(byteTokens[text[i-1]], byteTokens[text[i]])
		}
	}
	for range 200 {
		merge(strconv.Itoa(10+rng.IntN(90)), strconv.Itoa(10+rng.IntN(90)))
	}
	rng.Shuffle(len(c.Merges), func(i, j int) { c.Merges[i], c.Merges[j] = c.Merges[j], c.Merges[i] })
	tok := need.Value(tokenizer.New(c))(t)
	return withoutImplied(tok)
}

// withoutImplied returns the keys without those that a name implies.
func withoutImplied(tok *tokenizer.Tokenizer) tokenizer.KeyValues {
	kvs := tokenizer.KeyValues{{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(tok.EOS())}}
	for _, kv := range tok.KeyValues() {
		switch strings.TrimPrefix(kv.Key, "tokenizer.ggml.") {
		case "pre", "bos_token_id", "add_bos_token", "add_eos_token":
		default:
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

// characterVocabulary has the bytes, most characters of the generated texts, and merges of adjacent ones.
func characterVocabulary(t *testing.T, rng *rand.Rand, texts []string) tokenizer.KeyValues {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelBPE, "gemma4"))(t)
	known := map[string]bool{}
	add := func(token string, kind tokenizer.TokenType) {
		if !known[token] {
			known[token] = true
			c.Tokens, c.Types = append(c.Tokens, token), append(c.Types, kind)
		}
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), tokenizer.Byte)
	}
	for _, special := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		add(special, tokenizer.Control)
	}
	for _, generated := range texts {
		text := []rune(strings.ToValidUTF8(strings.ReplaceAll(generated, " ", "▁"), "\ufffd"))
		for i, r := range text {
			if r%7 != 3 && r != '\n' && r != 0 {
				add(string(r), tokenizer.Normal)
			}
			left, right := string(text[max(0, i-rng.IntN(4)):i]), string(text[i:min(len(text), i+1+rng.IntN(3))])
			if known[left] && known[right] && !strings.ContainsAny(left+right, " \n") && rng.IntN(8) == 0 && !known[left+right] {
				add(left+right, tokenizer.Normal)
				c.Merges = append(c.Merges, left+" "+right)
			}
		}
	}
	for _, lines := range []string{"\n", "\n\n", "\n\n\n\n"} {
		add(lines, tokenizer.Normal)
	}
	rng.Shuffle(len(c.Merges), func(i, j int) { c.Merges[i], c.Merges[j] = c.Merges[j], c.Merges[i] })
	c.EOS = tokenizer.ID(slices.Index(c.Tokens, "<|endoftext|>"))
	c.BOS = c.EOS
	tok := need.Value(tokenizer.New(c))(t)
	return withoutImplied(tok)
}

// scoredVocabulary has the bytes, and pieces of the generated texts with scores, many of which are equal.
func scoredVocabulary(t *testing.T, rng *rand.Rand, texts []string) tokenizer.KeyValues {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelPLaMo3, ""))(t)
	known := map[string]bool{}
	add := func(token string, kind tokenizer.TokenType, score float32) {
		if !known[token] {
			known[token] = true
			c.Tokens, c.Types, c.Scores = append(c.Tokens, token), append(c.Types, kind), append(c.Scores, score)
		}
	}
	for _, special := range []string{"<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>", "<|im_end|>", "<|plamo:chat|>"} {
		add(special, tokenizer.Control, 0)
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), tokenizer.Byte, 0)
	}
	for _, text := range texts {
		chars := []rune(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd"))
		for range 8 {
			from := rng.IntN(len(chars) + 1)
			to := min(len(chars), from+1+rng.IntN(5))
			if from < to {
				add(string(chars[from:to]), tokenizer.Normal, -float32(rng.IntN(60))/4*float32(to-from))
			}
		}
	}
	c.Scores[len(c.Scores)-1] = -1e6
	tok := need.Value(tokenizer.New(c))(t)
	return tok.KeyValues()
}

// byteTokens returns the texts of the tokens of single bytes.
func byteTokens(c tokenizer.Config) (texts [256]string) {
	tok, err := tokenizer.New(c)
	if err != nil {
		panic(err)
	}
	for id := range c.Tokens {
		if piece := tok.Piece(int32(id)); len(piece) == 1 {
			texts[piece[0]] = c.Tokens[id]
		}
	}
	return texts
}

// scripts are the scripts of the generated texts, besides ASCII.
var scripts = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Hebrew, unicode.Arabic,
	unicode.Devanagari, unicode.Bengali, unicode.Tamil, unicode.Thai, unicode.Lao, unicode.Tibetan, unicode.Myanmar, unicode.Georgian,
	unicode.Hangul, unicode.Ethiopic, unicode.Cherokee, unicode.Khmer, unicode.Mongolian, unicode.Hiragana, unicode.Katakana,
	unicode.Han, unicode.Han, unicode.Bopomofo, unicode.Deseret, unicode.Adlam}

// fragments are texts with everything that split patterns match.
var fragments = [][]string{
	{" ", " ", " ", "  ", "   ", "    ", "     ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\u00a0", "\u0085", "\u2003", "\u2028", "\u3000", "\u202f"},
	{"'s", "'T", "'re", "'RE", "'Ve", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'x", "'", "'ſ", "’s", "it's", "WE'VE", "don't", "O'Neil", "''S"},
	{"the", "The", "THE", "camelCase", "HTMLParser", "iPhone", "ÉCOLE", "École", "éCOLE", "ǅ", "ß", "naïve", "A", "a", "Zé", "IMGIMGABCDZ", "IMGIMGZ"},
	{"0", "1", "12", "123", "1234", "12345", "1234567890", "3.14", "1,000,000", "٣", "١٢٣٤", "²", "½", "Ⅻ", "一二三", "1a2b3", "0x1F", "1٣23456", "१२३४"},
	{".", ",", "!", "?", "...", "?!", "(", ")", "[", "]", "{", "}", "/", "//", "\\", "-", "--", "_", "\"", "#", "$", "%", "&", "*", "+", "<", "=", ">", "^", "`", "|", "~", "@", ":", ";",
		"。", "，", "、", "！", "…", "«", "»", "“", "”", "—", "·", "।", "؟", "۔", "〜", "￥", "€", "±", "×", "÷", "™"},
	{"func main() {\n\treturn x[i] += 1;\n}\n", "if (a != b) { /* no */ }", "#include <stdio.h>\r\n", "a/b/c.txt\n", "://\n/", "def f(x):\n        pass", "SELECT * FROM t;", "e = mc^2", "<br/>"},
	{"😀", "👩‍👩‍👧", "🇩🇪", "❤️", "👍🏽", "1️⃣", "☃", "→", "∑", "∞", "\U0001f9ff"},
	{"\u0301", "e\u0301", "\u0301\u0301", " \u0301a", ".\u0301A", "क्षि", "ก็", "\u200d", "\u200c", "می\u200cخواهم", "\u20dd", "\ufe0f", "\u200b", "\ufeff", "\u00ad"},
	{"\xff", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc0\x80", "\xed\xa0\x80", "\xed\xb0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe0\x80\x80", "\ufffd", "\x00", "\x7f", "\x1b[0m", "\u0080"},
	{"<|plamo:chat|>", "<|plamo:|>", "<|plamo:a b|>", "<|plamo:aaaa|>", "<|plamo:" + strings.Repeat("x", 70) + "|>", "<<<<|plamo:eos|>", "\uee00", "aaaa", "aaa"},
	{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "<sentinel:12>", "▁", "Ġ"},
}

func generatedTexts(rng *rand.Rand, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = generatedText(rng)
	}
	return texts
}

// generatedText returns a text of up to 24 fragments, some repeated.
func generatedText(rng *rand.Rand) string {
	var b strings.Builder
	for range 1 + rng.IntN(24) {
		part := generatedPart(rng)
		if rng.IntN(12) == 0 {
			part = strings.Repeat(part, 1+rng.IntN(1+600/len(part)/(1+rng.IntN(8))))
		}
		b.WriteString(part)
	}
	return b.String()
}

func generatedPart(rng *rand.Rand) string {
	switch kind := rng.IntN(len(fragments) + 6); {
	case kind < len(fragments):
		return fragments[kind][rng.IntN(len(fragments[kind]))]
	case kind < len(fragments)+3: // a word in a script
		table := scripts[rng.IntN(len(scripts))]
		var b strings.Builder
		for range 1 + rng.IntN(8) {
			b.WriteRune(charOf(table, rng))
		}
		return b.String()
	case kind == len(fragments)+3: // ASCII
		var b strings.Builder
		for range 1 + rng.IntN(8) {
			b.WriteByte(byte(' ' + rng.IntN(95)))
		}
		return b.String()
	case kind == len(fragments)+4:
		return string(rune(rng.IntN(0x3400)))
	}
	return string(rune(rng.IntN(0x110000)))
}

// charOf returns a random character of a table.
func charOf(table *unicode.RangeTable, rng *rand.Rand) rune {
	if n := rng.IntN(len(table.R16) + len(table.R32)); n < len(table.R16) {
		r := table.R16[n]
		return rune(r.Lo) + rune(rng.IntN(int(r.Hi-r.Lo)/int(r.Stride)+1)*int(r.Stride))
	} else {
		r := table.R32[n-len(table.R16)]
		return rune(r.Lo) + rune(rng.IntN(int(r.Hi-r.Lo)/int(r.Stride)+1)*int(r.Stride))
	}
}

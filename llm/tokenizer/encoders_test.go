package tokenizer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// bertTokenizer has the vocabulary of a few words.
func bertTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelBERT, ""))(t)
	c.Tokens = append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, strings.Fields("▁un ▁unaf aff able ▁! ▁ecole ▁好 s ▁it ▁' ▁a b")...)
	c.Padding, c.Unknown, c.BOS, c.Separator = 0, 1, 2, 3
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(c.Tokens))
	for i := range 4 {
		c.Types[i] = tokenizer.Control
	}
	return need.Value(tokenizer.New(c))(t)
}

// t5Tokenizer has the vocabulary of a few words, and replaces no characters.
func t5Tokenizer(t testing.TB, merges bool) *tokenizer.Tokenizer {
	t.Helper()
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelT5, ""))(t)
	c.Tokens = append([]string{"<pad>", "</s>", "<unk>"}, strings.Fields("▁ ▁the ▁th e ▁cat c a t s ats")...)
	c.Scores = []float32{0, 0, 0, -2, -3, -4, -3, -5, -4, -4, -4, -4, -6}
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(c.Tokens))
	c.Types[0], c.Types[1], c.Types[2] = tokenizer.Control, tokenizer.Control, tokenizer.Unknown
	c.MergeSpaces, c.AddSpacePrefix = merges, true
	return need.Value(tokenizer.New(c))(t)
}

// rwkvTokenizer has single bytes and a few longer tokens.
func rwkvTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelRWKV, ""))(t)
	c.Tokens = append([]string{"<s>"}, strings.Fields(`una unaff \xe5\xa5 \xe5\xa5\xbd \n\n \t \' \\ ca cats`)...)
	for b := range 256 {
		if b != '\t' && b != '\'' && b != '\\' && b != 'x' {
			c.Tokens = append(c.Tokens, fmt.Sprintf(`\x%02x`, b))
		}
	}
	c.Unknown = 0
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(c.Tokens))
	c.Types[0] = tokenizer.Control
	return need.Value(tokenizer.New(c))(t)
}

func tokenTexts(tok *tokenizer.Tokenizer, ids []int32) string {
	var list []string
	for _, id := range ids {
		list = append(list, tok.TokenText(id))
	}
	return strings.Join(list, " ")
}

// Expected tokens come from BERT's, SentencePiece's and RWKV's own tokenizers; make interop compares many with stock
// llama.cpp.
func TestWordPieceUnigramAndRWKV(t *testing.T) {
	for _, c := range []struct {
		tok        *tokenizer.Tokenizer
		text, want string
	}{
		{bertTokenizer(t), "Un!affable unable unafx", "[CLS] ▁un ▁! [UNK] ▁un able [UNK] [SEP]"},
		{bertTokenizer(t), "unable  ÉCOLES\t!", "[CLS] ▁un able ▁ecole s ▁! [SEP]"},
		{bertTokenizer(t), "it's 好a\u00adb\u200b\x00", "[CLS] ▁it ▁' [UNK] ▁好 ▁a b [SEP]"},
		{bertTokenizer(t), "", "[CLS] [SEP]"},
		{t5Tokenizer(t, true), "the  cats ", "▁the ▁cat s </s>"},
		{t5Tokenizer(t, true), "thé", "▁th <unk> </s>"},
		{t5Tokenizer(t, true), "x y", "▁ <unk> ▁ <unk> </s>"},
		{rwkvTokenizer(t), "unaffable", `unaff \x61 \x62 \x6c \x65`},
		{rwkvTokenizer(t), "unaf好\xe5\xa5", `una \x66 \xe5\xa5\xbd \xe5\xa5`},
		{rwkvTokenizer(t), "\t'\\\n\n\nx", `\t \' \\ \n\n \x0a <s>`},
		{rwkvTokenizer(t), "catcats<s>", `ca \x74 cats <s>`},
		{rwkvTokenizer(t), "", ""},
		{t5Tokenizer(t, false), "the  cats ", "▁the ▁ ▁cat s ▁ </s>"},
		{t5Tokenizer(t, true), "", "</s>"},
	} {
		got := tokenTexts(c.tok, c.tok.Encode(c.text, tokenizer.EncodeOptions{AddSpecial: true}))
		t.Log(c.text, "→", got)
		if c.want != got {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A text in segments has the tokens of the whole text, and they cover all of it; KeyValues make an equal tokenizer.
func TestEncodersInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	parts := []string{"una", "ff", "able", " ", "  ", "!", "É", "cole", "好", "é", "the", "cats", "x", "\xff", "e\u0301", "▁", "[SEP]", "</s>", "\n"}
	for _, tok := range []*tokenizer.Tokenizer{bertTokenizer(t), t5Tokenizer(t, true), t5Tokenizer(t, false), rwkvTokenizer(t)} {
		again, err := tokenizer.FromMetadata(tok.KeyValues())
		require.NoError(t, err)
		want := tok.Config()
		want.Pre = again.Config().Pre // which says nothing here
		require.Equal(t, want, again.Config())
		for range 200 {
			var b strings.Builder
			for range rng.IntN(12) {
				b.WriteString(parts[rng.IntN(len(parts))])
			}
			text, o := b.String(), tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}
			want := tok.Encode(text, o)
			got := []int32{}
			for ids, err := range tok.EncodeReader(iotest.OneByteReader(strings.NewReader(text)), o) {
				require.NoError(t, err)
				got = append(got, ids...)
			}
			require.Equal(t, want, got, "%q", text)
			ids, ends := tok.EncodeSegments([]tokenizer.Segment{{Text: text, ParseSpecial: true}}, o)
			require.Equal(t, want, ids, "%q", text)
			require.True(t, slices.IsSorted(ends), "%q %v", text, ends)
			require.LessOrEqual(t, slices.Max(append(ends, 0)), len(text))
		}
	}
}

// Any table of characters is either rejected or usable.
func TestHostileCharsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	c := t5Tokenizer(t, true).Config()
	for range 500 {
		raw := make([]byte, rng.IntN(200))
		for i := range raw {
			raw[i] = byte(rng.Uint32() >> rng.IntN(25))
		}
		if len(raw) > 4 {
			copy(raw, []byte{byte(rng.IntN(len(raw)) / 4 * 4), 0, 0, 0})
		}
		c.CharsMap = raw
		tok, err := tokenizer.New(c)
		if err != nil {
			require.ErrorContains(t, err, "precompiled_charsmap")
			continue
		}
		require.NotEmpty(t, tok.Encode("the cats \xff", tokenizer.EncodeOptions{AddSpecial: true}))
	}
}

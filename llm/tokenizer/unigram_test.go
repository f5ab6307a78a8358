package tokenizer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func plamo3Config(t *testing.T) Config {
	cfg := need.Value(DefaultConfig(ModelPLaMo3, ""))(t)
	cfg.Tokens = []string{"<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>"}
	cfg.Types = []TokenType{Unknown, Control, Control, Control}
	cfg.Scores = []float32{0, 0, 0, 0}
	for b := range 256 {
		cfg.Tokens, cfg.Types, cfg.Scores = append(cfg.Tokens, byteToken(byte(b))), append(cfg.Types, Byte), append(cfg.Scores, 0)
	}
	for token, score := range map[string]float32{"a": -2, "b": -2, "ab": -3, "abb": -6, "bb": -3, " ": -1, "  ": -1, "aa": -5, "aaaa": -1, "x": -5000} {
		cfg.Tokens, cfg.Types, cfg.Scores = append(cfg.Tokens, token), append(cfg.Types, Normal), append(cfg.Scores, score)
	}
	return cfg
}

func TestScoredPieces(t *testing.T) {
	tok := need.Value(New(plamo3Config(t)))(t)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"ab", []string{"ab"}},
		{"abb", []string{"ab", "b"}}, // as good as a bb, and longer first; better than abb
		{"aab", []string{"a", "ab"}},
		{"aabb", []string{"a", "ab", "b"}},
		{"aaaab", []string{"aaaa", "b"}}, // runs stay apart
		{"aaaaab", []string{"aaaa", "a", "b"}},
		{"a  b", []string{"a", "  ", "b"}},
		{"a b", []string{"a", " ", "b"}},
		{"é", []string{"<0xC3>", "<0xA9>"}},
		{"\xff", []string{"<0xEF>", "<0xBF>", "<0xBD>"}},
		{"x", []string{"<0x78>"}}, // spelled, rather than a piece with such a score
		{"a\uee00b", []string{"a", "b"}},
		{"<|plamo:eos|>", []string{"<|plamo:eos|>"}},
	} {
		var got []string
		for _, id := range tok.Encode(c.text, EncodeOptions{}) {
			got = append(got, tok.TokenText(id))
		}
		require.Equal(t, c.want, got, "%q", c.text)
	}
	ids := tok.Encode("ab é", EncodeOptions{})
	require.Equal(t, "ab é", tok.Decode(ids, DecodeOptions{}))
}

func TestScoredPiecesNeedBytes(t *testing.T) {
	cfg := plamo3Config(t)
	cfg.Types[4+'A'] = Normal
	_, err := New(cfg)
	require.EqualError(t, err, fmt.Sprintf("tokenizer: there is no byte token %s, which a vocabulary of %s needs", "<0x41>", "plamo3"))
}

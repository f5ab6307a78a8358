package tokenizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// keys makes metadata of tokenizer.ggml keys.
func keys(values map[string]any) tokenizer.KeyValues {
	var kvs tokenizer.KeyValues
	for key, value := range values {
		kvs = append(kvs, tokenizer.KeyValue{Key: "tokenizer.ggml." + key, Value: value})
	}
	return kvs
}

func spmKeys() map[string]any {
	return map[string]any{"model": "llama", "tokens": []string{"<unk>", "<s>", "</s>", "▁a"}}
}

func TestMetadataDefaults(t *testing.T) {
	cfg := need.Value(tokenizer.ConfigFromMetadata(keys(spmKeys())))(t)
	require.Equal(t, []tokenizer.ID{1, 2, -1, 0, -1}, []tokenizer.ID{cfg.BOS, cfg.EOS, cfg.EOT, cfg.Unknown, cfg.Padding})
	require.True(t, cfg.AddBOS)
	require.False(t, cfg.AddEOS)
	require.True(t, cfg.AddSpacePrefix)

	// A byte-level vocabulary takes token 11 for BOS and EOS if it has one.
	bpe := map[string]any{"model": "gpt2", "tokens": []string{"a", "b"}, "merges": []string{}}
	cfg = need.Value(tokenizer.ConfigFromMetadata(keys(bpe)))(t)
	require.Equal(t, []tokenizer.ID{-1, -1, -1, -1, -1}, []tokenizer.ID{cfg.BOS, cfg.EOS, cfg.EOT, cfg.Unknown, cfg.Padding})
	require.False(t, cfg.AddBOS)
	require.False(t, cfg.AddSpacePrefix)

	bpe["tokens"] = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	bpe["pre"] = "llama-bpe"
	cfg = need.Value(tokenizer.ConfigFromMetadata(keys(bpe)))(t)
	require.Equal(t, tokenizer.ID(11), cfg.BOS)
	require.True(t, cfg.AddBOS)
}

// Vocabularies of characters know no tokens by default, and a BOS is always added.
func TestMetadataOfCharacters(t *testing.T) {
	values := map[string]any{"model": "gemma4", "tokens": []string{"<bos>", "▁", "a", "▁a", "\n", "\n\n"}, "merges": []string{"▁ a"},
		"token_type": []int32{3, 1, 1, 1, 1, 1}, "bos_token_id": uint32(0), "add_bos_token": false}
	tok := need.Value(tokenizer.FromMetadata(keys(values)))(t)
	require.Equal(t, tokenizer.None, tok.EOS())
	ids := tok.Encode("a a\n\n", tokenizer.EncodeOptions{AddSpecial: true})
	require.Equal(t, []tokenizer.ID{0, 2, 3, 5}, ids)
	require.Equal(t, "a a\n\n", tok.Decode(ids, tokenizer.DecodeOptions{RemoveSpecial: true}))
	again := need.Value(tokenizer.FromMetadata(tok.KeyValues()))(t)
	require.Equal(t, tok.Config(), again.Config())
}

func TestMetadataTypes(t *testing.T) {
	for _, id := range []any{int8(3), int16(3), int32(3), int64(3), int(3), uint8(3), uint16(3), uint32(3), uint64(3)} {
		values := spmKeys()
		values["eos_token_id"] = id
		values["fim_pad_token_id"] = id
		values["scores"] = []float64{0, 0, 0, -1.5, 9, 9}
		values["token_type"] = []any{int32(2), uint8(3), int64(3), int32(1)}
		cfg := need.Value(tokenizer.ConfigFromMetadata(keys(values)))(t)
		require.Equal(t, tokenizer.ID(3), cfg.EOS, "%T", id)
		require.Equal(t, []tokenizer.ID{3}, cfg.ExtraEOG)
		require.Equal(t, []float32{0, 0, 0, -1.5}, cfg.Scores)
		require.Equal(t, []tokenizer.TokenType{tokenizer.Unknown, tokenizer.Control, tokenizer.Control, tokenizer.Normal}, cfg.Types)
	}
	for _, id := range []any{int32(-1), uint32(1<<32 - 1), uint64(1 << 63), int64(4)} {
		values := spmKeys()
		values["eos_token_id"] = id
		cfg := need.Value(tokenizer.ConfigFromMetadata(keys(values)))(t)
		require.Equal(t, tokenizer.ID(2), cfg.EOS, "an id beyond the vocabulary keeps the default")
	}
}

func TestMetadataRejects(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"model", nil, "tokenizer.ggml.model is missing"},
		{"model", 3, "tokenizer.ggml.model is a int, want a string"},
		{"model", "plamo2", `model "plamo2" is not supported`},
		{"pre", true, "tokenizer.ggml.pre is a bool"},
		{"tokens", nil, "tokenizer.ggml.tokens is missing or empty"},
		{"tokens", []int32{1}, "tokenizer.ggml.tokens is a []int32, want an array of strings"},
		{"tokens", "abc", "tokenizer.ggml.tokens is a string"},
		{"scores", []string{"x", "x", "x", "x"}, "tokenizer.ggml.scores is a []string, want an array of numbers"},
		{"scores", []float32{1}, "1 scores for 4 tokens"},
		{"token_type", []float32{1, 1, 1, 1}, "tokenizer.ggml.token_type is a []float32"},
		{"token_type", []any{nil, 1, 1, 1}, "tokenizer.ggml.token_type"},
		{"bos_token_id", "1", "tokenizer.ggml.bos_token_id is a string, want an integer"},
		{"add_bos_token", uint8(1), "tokenizer.ggml.add_bos_token is a uint8, want a bool"},
	} {
		values := spmKeys()
		values[c.key] = c.value
		_, err := tokenizer.FromMetadata(keys(values))
		require.ErrorContains(t, err, c.want)
	}
	_, err := tokenizer.FromMetadata(keys(map[string]any{"model": "gpt2", "tokens": []string{"a"}}))
	require.ErrorContains(t, err, "tokenizer.ggml.merges is missing")
}

func TestKeyValuesRoundTrip(t *testing.T) {
	for _, name := range []string{"spm", "bpe", "spm2", "bpe2"} {
		tok := loadTokenizer(t, name, map[string]any{"padding_token_id": uint32(3), "eot_token_id": uint32(4), "eom_token_id": uint32(5), "fim_sep_token_id": uint32(6)})
		require.True(t, tok.IsEOG(6))
		kvs := tok.KeyValues()
		require.Equal(t, "tokenizer.ggml.model", kvs[0].Key)
		again := need.Value(tokenizer.FromMetadata(kvs))(t)
		require.Equal(t, tok.Config(), again.Config())
		require.Equal(t, kvs, again.KeyValues())
	}
}

func TestPhi3StripsRight(t *testing.T) {
	kvs := append(tokenizer.LoadVocab(t, "spm2", nil), tokenizer.KeyValue{Key: "general.name", Value: "Phi-3 Mini"})
	tok := need.Value(tokenizer.FromMetadata(kvs))(t)
	opts := tokenizer.EncodeOptions{ParseSpecial: true}
	require.Equal(t, tok.Encode("<|user|>a", opts), tok.Encode("<|user|> \n\ta", opts))
	require.NotEqual(t, tok.Encode("<s>a", opts), tok.Encode("<s> \n\ta", opts))
}

package llmtest

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// tinyEncoders describes tiny models that embed or score texts, by name.
var tinyEncoders = map[string]tinyArch{
	"bert":          {keys: map[string]any{"pooling_type": uint32(2)}, bare: types, gelu: true, kvHeads: 4, optional: slices.Concat(typed, bertBiases)},
	"bert-reranker": {arch: "bert", keys: map[string]any{"pooling_type": uint32(4)}, bare: types, gelu: true, kvHeads: 4, optional: slices.Concat(typed, bertBiases, classifier)},
	"bert-classes": {
		arch: "bert", keys: map[string]any{"pooling_type": uint32(4), "classifier.output_labels": []string{"no", "perhaps", "yes"}}, bare: types, gelu: true, kvHeads: 4,
		optional: []string{"cls.output.weight", "cls.output.bias"},
	},
	"nomic-bert": {keys: pooledByMean, bare: types, kvHeads: 4, fusedQKV: true, optional: typed},
	"nomic-bert-moe": {
		keys: merged(pooledByMean, map[string]any{"moe_every_n_layers": uint32(2), "expert_count": uint32(6), "expert_used_count": uint32(2)}), bare: types, kvHeads: 4, gelu: true, fusedQKV: true, layers: 4,
		optional: slices.Concat(typed, biases("attn_qkv", "attn_output", "ffn_up", "ffn_down")),
	},
	"jina-bert-v2": {
		keys: pooledByMean, bare: types, kvHeads: 4, gelu: true, has: []string{"ffn_gate"},
		optional: slices.Concat(biases("attn_q", "attn_k", "attn_v", "ffn_down"), []string{"attn_q_norm.weight", "attn_q_norm.bias", "attn_k_norm.weight", "attn_k_norm.bias"}),
	},
	"jina-bert-v2-code": {
		arch: "jina-bert-v2", keys: pooledByMean, bare: types, kvHeads: 4, gelu: true, has: []string{"attn_norm_2"}, fusedGateUp: true,
		optional: biases("attn_q", "attn_k", "attn_v", "ffn_up", "ffn_down"),
	},
	"jina-bert-v2-reranker": {
		arch: "jina-bert-v2", keys: map[string]any{"pooling_type": uint32(4)}, bare: types, kvHeads: 4, gelu: true,
		optional: slices.Concat(biases("attn_q", "attn_k", "attn_v", "ffn_up", "ffn_down"), []string{"cls.weight", "cls.bias"}),
	},
	"jina-bert-v3": {keys: pooledByMean, bare: types, kvHeads: 4, gelu: true, fusedQKV: true, optional: slices.Concat(typed, biases("attn_qkv", "attn_output", "ffn_up", "ffn_down"))},
	"modern-bert": {
		keys: merged(pooledByMean, map[string]any{"attention.sliding_window": uint32(8), "rope.freq_base_swa": float32(500)}), kvHeads: 4, gelu: true, fusedQKV: true, fusedGateUp: true, layers: 4,
	},
	"modern-bert-silu": {
		arch: "modern-bert", keys: map[string]any{"pooling_type": uint32(2), "attention.sliding_window": uint32(7), "hidden_activation": "silu"}, kvHeads: 4, fusedQKV: true, fusedGateUp: true, layers: 4, has: []string{"attn_norm"},
	},
	"modern-bert-reranker": {
		arch: "modern-bert", keys: map[string]any{"pooling_type": uint32(4)}, kvHeads: 4, gelu: true, fusedQKV: true, fusedGateUp: true,
		optional: []string{"cls.weight", "cls.norm.weight", "cls.output.weight", "cls.output.bias"},
	},
	"modern-bert-reranker-cls": {
		arch: "modern-bert", keys: map[string]any{"pooling_type": uint32(4), "classifier.pooling_type": uint32(2)}, kvHeads: 4, gelu: true, fusedQKV: true, fusedGateUp: true,
		optional: []string{"cls.weight", "cls.norm.weight", "cls.output.weight", "cls.output.bias"},
	},
	"modern-bert-gelu": {
		arch: "modern-bert", keys: merged(pooledByMean, map[string]any{"hidden_activation": "gelu"}), kvHeads: 4, gelu: true, fusedQKV: true, fusedGateUp: true,
	},
	"neo-bert":    {keys: map[string]any{"pooling_type": uint32(2)}, kvHeads: 4, fusedQKV: true, fusedGateUp: true},
	"eurobert":    {keys: pooledByMean},
	"llama-embed": {keys: merged(pooledByMean, map[string]any{"attention.causal": false}), optional: biases("attn_output", "ffn_down")},
	"gemma-embedding": {
		keys: merged(pooledByMean, map[string]any{
			"attention.sliding_window": uint32(8), "attention.sliding_window_pattern": uint32(3), "rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(500),
			"dense_2_feat_in": uint32(32), "dense_2_feat_out": uint32(96), "dense_3_feat_in": uint32(96), "dense_3_feat_out": uint32(32),
		}),
		layers: 4, headSize: 16, gelu: true,
	},
	"gemma-embedding2": {
		keys: merged(pooledByMean, map[string]any{
			"attention.sliding_window": uint32(8), "attention.sliding_window_pattern": uint32(3), "rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(500),
			"attention.key_length_swa": uint32(8), "attention.value_length_swa": uint32(8), "rope.dimension_count_swa": uint32(8),
			"embedding_length_per_layer_input": uint32(32), "embedding_length_out": uint32(64),
		}),
		layers: 4, headSize: 16, gelu: true, factors: GemmaFactors, optional: []string{"layer_output_scale.weight"},
	},
	"qwen3-reranker": {
		arch: "qwen3", keys: map[string]any{"pooling_type": uint32(4), "classifier.output_labels": []string{"yes", "no"}}, headSize: 16, optional: []string{"cls.output.weight"},
	},
	"t5encoder":       {keys: merged(pooledByMean, relative), kvHeads: 4},
	"t5encoder-gated": {arch: "t5encoder", keys: merged(pooledByMean, relative), kvHeads: 4, gelu: true, blocks: "enc.", has: []string{"ffn_gate"}},
}

var (
	pooledByMean = map[string]any{"pooling_type": uint32(1)}
	relative     = map[string]any{"attention.relative_buckets_count": uint32(32)}
	types        = map[string]any{"tokenizer.ggml.token_type_count": uint32(2)}
	typed        = []string{"token_types.weight"}
	bertBiases   = biases("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")
	classifier   = []string{"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"}
)

// Encoders lists the tiny models that embed or score texts.
func Encoders() []string { return slices.Sorted(maps.Keys(tinyEncoders)) }

// EncoderFile writes the file of one of [Encoders] in F32, with values that depend on a seed.
func EncoderFile(t testing.TB, name string, seed uint64) (path string) {
	t.Helper()
	a := tinyEncoders[name]
	a.seed, a.tied = seed, true
	return a.write(t, name, only(ggml.F32))
}

// EncoderTexts returns texts of several lengths, as tokens.
func EncoderTexts() [][]int32 {
	var texts [][]int32
	for i, length := range []int{17, 1, 30, 9} {
		texts = append(texts, RandomTokens(uint64(20+i), length, tinyVocab))
	}
	return texts
}

// TextEncoderFile writes the file of a tiny model of [Encoders] with a vocabulary of the given kind:
// letters, alone and at the beginning of words.
func TextEncoderFile(t testing.TB, name, kind string) (path string) {
	t.Helper()
	c := need.Value(tokenizer.DefaultConfig(kind, ""))(t)
	c.Tokens = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁"}
	c.Types = []tokenizer.TokenType{tokenizer.Control, tokenizer.Unknown, tokenizer.Control, tokenizer.Control, tokenizer.Normal}
	for letter := 'a'; len(c.Tokens) < tinyVocab; letter++ {
		c.Tokens = append(c.Tokens, string(letter))
		if len(c.Tokens) < tinyVocab {
			c.Tokens = append(c.Tokens, "▁"+string(letter))
		}
	}
	for len(c.Types) < len(c.Tokens) {
		c.Types = append(c.Types, tokenizer.Normal)
	}
	c.Padding, c.Unknown, c.BOS, c.Separator, c.AddBOS = 0, 1, 2, 3, true
	if kind == tokenizer.ModelT5 {
		c.EOS, c.AddSeparator, c.MergeSpaces, c.AddSpacePrefix = 3, true, true, true
		c.Scores = make([]float32, len(c.Tokens))
		for i := range c.Scores {
			c.Scores[i] = -float32(i % 7)
		}
	}
	tok := need.Value(tokenizer.New(c))(t)
	g := need.Value(ggml.OpenGGUF(EncoderFile(t, name, 1)))(t)
	defer g.Close()
	for _, kv := range tok.KeyValues() {
		require.NoError(t, g.Set(kv.Key, kv.Value))
	}
	path = filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

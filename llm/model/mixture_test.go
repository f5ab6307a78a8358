package model_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// The types are those of llama-quantize, which make interop compares for all mixtures.
func TestMixtureTypes(t *testing.T) {
	wide := arch.Config{Arch: "llama", Layers: 16, Heads: 8, KVHeads: 2}
	alone := arch.Config{Arch: "llama", Layers: 16, Heads: 8, KVHeads: 8}
	tied := arch.Config{Arch: "llama", Layers: 16, Heads: 8, KVHeads: 8, Tied: true}
	large := arch.Config{Arch: "llama", Layers: 80, Heads: 64, KVHeads: 32}
	weight := func(kind string, layer int, rowLen int64) *arch.Weight {
		w := &arch.Weight{Kind: kind, Layer: layer, Shape: []int64{rowLen, 256}}
		if kind == "token_embd" {
			w.Role = arch.Embedding
		}
		return w
	}
	some := model.Importance{"blk.0.attn_q.weight": {1}}
	for _, c := range []struct {
		mixture string
		config  arch.Config
		kind    string
		layer   int
		rowLen  int64
		i       model.Importance
		want    ggml.Type
	}{
		{"q4_k_m", wide, "attn_q", 3, 256, nil, ggml.Q4_K},
		{"q4_k_m", wide, "attn_v", 1, 256, nil, ggml.Q6_K},
		{"q4_k_m", wide, "attn_v", 2, 256, nil, ggml.Q4_K},
		{"q4_k_m", wide, "attn_qkv", 4, 256, nil, ggml.Q6_K},
		{"q4_k_m", wide, "ffn_down", 14, 256, nil, ggml.Q6_K},
		{"q4_k_m", wide, "output", -1, 256, nil, ggml.Q6_K},
		{"q4_k_m", wide, "token_embd", -1, 256, nil, ggml.Q4_K},
		{"Q4_K", tied, "token_embd", -1, 256, nil, ggml.Q6_K},
		{"q4_k_m", wide, "attn_q", 3, 96, nil, ggml.Q5_0},
		{"q4_k_m", wide, "attn_q", 3, 40, nil, ggml.F16},
		{"q4_k_m", tied, "token_embd", -1, 96, nil, ggml.Q8_0},
		{"q4_k_s", wide, "attn_v", 3, 256, nil, ggml.Q5_K},
		{"q4_k_s", wide, "attn_v", 4, 256, nil, ggml.Q4_K},
		{"q4_k_s", large, "attn_v", 9, 256, nil, ggml.Q5_K},
		{"q3_k_m", wide, "ffn_down", 0, 256, nil, ggml.Q5_K},
		{"q3_k_m", wide, "ffn_down", 1, 256, nil, ggml.Q4_K},
		{"q2_k", wide, "attn_v", 1, 256, nil, ggml.Q4_K},
		{"q2_k", alone, "attn_v", 1, 256, nil, ggml.Q3_K},
		{"q4_0", wide, "ffn_down", 0, 256, nil, ggml.Q4_0},
		{"q4_0", wide, "ffn_down", 0, 256, some, ggml.Q4_1},
		{"q4_0", wide, "output", -1, 256, nil, ggml.Q6_K},
		{"q8_0", wide, "output", -1, 256, nil, ggml.Q8_0},
		{"f16", wide, "output", -1, 256, nil, ggml.F16},
		{"iq3_xxs", alone, "attn_v", 5, 256, some, ggml.IQ3XXS},
		{"iq2_m", alone, "token_embd", -1, 256, some, ggml.IQ3S},
	} {
		x, ok := model.FindMixture(c.mixture)
		require.True(t, ok, c.mixture)
		got, isFallback := x.TypeOf(c.config, weight(c.kind, c.layer, c.rowLen), c.i)
		require.Equal(t, c.want, got, "%s: %s", c.mixture, c.kind)
		require.Equal(t, c.rowLen != 256 && got != ggml.Q8_0, isFallback, "%s: %s", c.mixture, c.kind)
	}
	_, ok := model.FindMixture("q9_k")
	require.False(t, ok)
	x, ok := model.FindMixture("Q4_K_M")
	require.True(t, ok)
	for _, w := range []*arch.Weight{nil, {Kind: "attn_v"}} {
		got, isFallback := x.TypeOf(alone, w, nil)
		require.Equal(t, ggml.F32, got)
		require.False(t, isFallback)
	}
}

// The older format of llama-imatrix has sums and a number of calls for each matrix.
func TestReadImportanceDat(t *testing.T) {
	var b bytes.Buffer
	write := func(values ...any) {
		for _, v := range values {
			require.NoError(t, binary.Write(&b, binary.LittleEndian, v))
		}
	}
	write(int32(2), int32(2), []byte("ab"), int32(4), int32(3), []float32{4, 8, 0}, int32(1), []byte("c"), int32(0), int32(1), float32(5))
	path := filepath.Join(t.TempDir(), "imatrix.dat")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	i, err := model.ReadImportance(path)
	require.NoError(t, err)
	require.Equal(t, model.Importance{"ab": {1, 2, 0}, "c": {5}}, i)
	for n := range b.Len() {
		require.NoError(t, os.WriteFile(path, b.Bytes()[:n], 0o600))
		_, err := model.ReadImportance(path)
		require.ErrorContains(t, err, path, n)
	}
}

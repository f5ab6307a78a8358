package quantize_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/quantize"
)

// The types are llama-quantize's, which make interop compares for all mixtures.
func TestMixtureTypes(t *testing.T) {
	llama := func(layers, kvHeads, experts int, tied bool) *arch.Architecture {
		c := llmtest.TinyConfig(tied)
		c.Layers, c.Heads, c.KVHeads, c.HeadSize, c.RoPE.Dims = layers, 8, kvHeads, 8, 8
		if experts > 0 {
			c.Experts, c.ExpertsUsed, c.ExpertFF, c.Gating = experts, 2, 96, arch.GatingSoftMax
		}
		return need.Value(arch.Resolve(c))(t)
	}
	wide, alone, tied, large, larger := llama(16, 2, 0, false), llama(16, 8, 0, false), llama(16, 8, 0, true), llama(80, 4, 0, false), llama(80, 1, 0, false)
	eight, sixteen := llama(16, 8, 8, false), llama(16, 8, 16, false)
	weight := func(kind string, layer int, rowLen int64) *arch.Weight {
		w := &arch.Weight{Name: fmt.Sprintf("blk.%d.%s.weight", layer, kind), Kind: arch.Kind(kind), Layer: layer, Shape: []int64{rowLen, 256}}
		switch kind {
		case "token_embd":
			w.Role, w.Name = arch.Embedding, "token_embd.weight"
		case "output":
			w.Name = "output.weight"
		case "ffn_down_exps":
			w.Role, w.Shape = arch.ExpertMatrices, append(w.Shape, 8)
		case "ffn_gate_inp":
			w.KeepType = true
		}
		return w
	}
	some := quantize.Importance{"blk.0.attn_q.weight": {1}}
	for _, c := range []struct {
		mixture string
		model   *arch.Architecture
		kind    string
		layer   int
		rowLen  int64
		i       quantize.Importance
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
		{"iq2_m", larger, "attn_v", 9, 256, some, ggml.Q4_K},
		{"q4_k_m", eight, "attn_v", 2, 256, nil, ggml.Q8_0},
		{"q4_k_m", eight, "attn_k", 2, 256, nil, ggml.Q8_0},
		{"q4_k_m", eight, "attn_output", 2, 256, nil, ggml.Q5_K},
		{"q3_k_l", eight, "attn_output", 2, 256, nil, ggml.Q3_K},
		{"q4_k_m", eight, "ffn_down_exps", 14, 256, nil, ggml.Q6_K},
		{"q4_k_m", eight, "ffn_gate_inp", 2, 256, nil, ggml.F32},
		{"iq3_m", eight, "ffn_down_exps", 4, 256, nil, ggml.Q4_K},
		{"iq3_m", sixteen, "ffn_down_exps", 4, 256, nil, ggml.IQ3S},
		{"q4_k_m", sixteen, "attn_v", 2, 256, nil, ggml.Q4_K},
		{"iq2_xs", sixteen, "attn_v", 2, 256, some, ggml.Q4_K},
		{"iq2_xs", eight, "attn_k", 2, 256, some, ggml.Q4_K},
		{"mxfp4_moe", sixteen, "ffn_down_exps", 2, 256, nil, ggml.MXFP4},
		{"mxfp4_moe", sixteen, "attn_q", 2, 256, nil, ggml.Q8_0},
		{"mxfp4_moe", sixteen, "output", -1, 256, nil, ggml.Q8_0},
	} {
		x, ok := quantize.FindMixture(c.mixture)
		require.True(t, ok, c.mixture)
		got, isFallback := x.TypeOf(c.model, weight(c.kind, c.layer, c.rowLen), c.i)
		require.Equal(t, c.want, got, "%s: %s", c.mixture, c.kind)
		require.Equal(t, c.rowLen != 256 && got != ggml.Q8_0, isFallback, "%s: %s", c.mixture, c.kind)
	}
	for _, c := range []struct {
		mixture, arch, name string
		want                ggml.Type
	}{
		{"q4_k_m", "falcon", "output.weight", ggml.Q8_0},
		{"q4_k_m", "falcon", "blk.1.ffn_down.weight", ggml.Q5_K},
		{"q4_k_s", "falcon", "blk.0.ffn_down.weight", ggml.Q4_K},
		{"q3_k_m", "falcon", "blk.0.attn_output.weight", ggml.Q3_K},
		{"q3_k_l", "falcon", "blk.0.attn_output.weight", ggml.Q4_K},
		{"q3_k_m", "cogvlm", "blk.0.vis_attn_qkv.weight", ggml.Q5_K}, // the second of all
		{"q3_k_m", "cogvlm", "blk.1.attn_qkv.weight", ggml.Q4_K},
		{"q8_0", "gpt2", "position_embd.weight", ggml.F32},
		{"f16", "gpt-oss", "blk.0.ffn_down_exps.bias", ggml.F32},
	} {
		m := need.Value(model.Load(llmtest.WideArchFile(t, c.arch, ggml.F32), model.LoadOptions{}))(t)
		x, ok := quantize.FindMixture(c.mixture)
		require.True(t, ok, c.mixture)
		w := m.Architecture().Weight(c.name)
		require.NotNil(t, w, c.name)
		got, _ := x.TypeOf(m.Architecture(), w, nil)
		require.Equal(t, c.want, got, "%s: %s of %s", c.mixture, c.name, c.arch)
		require.NoError(t, m.Close())
	}
	// What a model lacks does not count.
	loaded := llmtest.ArchModel(t, "cogvlm", ggml.F32)
	made := need.Value(model.New(loaded.Config(), nil, 1))(t)
	defer made.Close()
	for m, want := range map[*model.Model]ggml.Type{loaded: ggml.Q4_K, made: ggml.Q5_K} {
		x, _ := quantize.FindMixture("q3_k_m")
		w := *m.Architecture().Weight("blk.1.attn_qkv.weight")
		w.Shape = []int64{256, 768}
		got, _ := x.TypeOf(m.Architecture(), &w, nil)
		require.Equal(t, want, got)
	}
	_, ok := quantize.FindMixture("q9_k")
	require.False(t, ok)
	x, ok := quantize.FindMixture("Q4_K_M")
	require.True(t, ok)
	for _, w := range []*arch.Weight{nil, {Name: "blk.0.attn_v.weight"}} {
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
	i := need.Value(quantize.ReadImportance(path))(t)
	require.Equal(t, quantize.Importance{"ab": {1, 2, 0}, "c": {5}}, i)
	for n := range b.Len() {
		require.NoError(t, os.WriteFile(path, b.Bytes()[:n], 0o600))
		_, err := quantize.ReadImportance(path)
		require.ErrorContains(t, err, path, n)
	}
}

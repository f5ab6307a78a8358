package llmtest

import (
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/refmodel"
	"github.com/goggml/ggml/llm/model"
)

// A tinyArch is the smallest model of an architecture that has all that is special
// about it. The file says it in keys, as converters write them, and the float64 model is
// told by hand what they mean: a mistake in reading them shows.
type tinyArch struct {
	keys     map[string]any // without the architecture's name
	params   refmodel.Params
	tied     bool
	optional []string // weights, in each layer
}

// LongContext is the context from which on a model with two kinds of RoPE factors has
// those for long ones, and its float64 model has to be told so.
const LongContext = 17

var tinyArchs = map[string]tinyArch{
	"llama": {
		keys:   map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(2)},
		params: refmodel.Params{RoPE: refmath.RoPE{FreqScale: 0.5}},
		optional: slices.Concat(biases("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
			scales("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output"), []string{"rope_freqs.weight"}),
	},
	"qwen2": {
		params:   refmodel.Params{RoPE: refmath.RoPE{NeoX: true}},
		tied:     true,
		optional: slices.Concat(biases("attn_q", "attn_k", "attn_v", "output"), scales("attn_output")),
	},
	"qwen3": {
		params:   refmodel.Params{HeadDim: 16, RoPE: refmath.RoPE{NeoX: true}},
		optional: scales("attn_q", "ffn_gate", "ffn_up", "ffn_down"),
	},
	"mistral3": {
		keys: map[string]any{
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
			"rope.scaling.yarn_beta_fast": float32(0.5), "rope.scaling.yarn_beta_slow": float32(0.05),
			"rope.scaling.yarn_log_multiplier": float32(0.5), "rope.scaling.attn_factor": float32(1.25),
			"attention.temperature_scale": float32(0.3),
		},
		params: refmodel.Params{
			HeadDim: 16,
			// The magnitude is 1.25 · (1 + 0.1·ln 4) / (1 + 0.5·0.1·ln 4), of which YaRN itself makes the dividend.
			RoPE:        refmath.RoPE{FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1.25 / (1 + 0.05*math.Log(4)), BetaFast: 0.5, BetaSlow: 0.05, CtxOrig: 8},
			Temperature: func(position int) float64 { return 1 + 0.3*math.Log(1+float64(position/8)) },
		},
		optional: biases("attn_output", "ffn_down"),
	},
	"smollm3": {
		params: refmodel.Params{Layers: 4, NoRoPE: []bool{false, false, false, true}},
		tied:   true,
	},
	"granite": {
		keys: map[string]any{
			"embedding_scale": float32(3), "residual_scale": float32(0.25), "attention.scale": float32(0.125), "logit_scale": float32(0.5),
		},
		params:   refmodel.Params{EmbdScale: 3, ResidualScale: 0.25, AttnScale: 0.125, LogitDivisor: 0.5},
		tied:     true,
		optional: biases("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"),
	},
	"olmo2": {
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "rope.freq_base_swa": float32(500), // which counts nowhere
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(8),
		},
		params: refmodel.Params{
			Layers: 4, Windows: []int{5, 5, 5, 0}, LocalRoPE: refmath.RoPE{NeoX: true},
			RoPE: refmath.RoPE{NeoX: true, FreqScale: 0.25, ExtFactor: 1, BetaFast: 32, BetaSlow: 1, CtxOrig: 8},
		},
	},
	"gemma3": {
		keys: map[string]any{
			"attention.sliding_window": uint32(5), "rope.freq_base": float32(1e6), "rope.scaling.attn_factor": float32(0.9),
			"final_logit_softcapping": float32(2),
		},
		params: refmodel.Params{
			Layers: 6, HeadDim: 16, Windows: []int{5, 5, 5, 5, 5, 0},
			RoPE:      refmath.RoPE{NeoX: true, FreqBase: 1e6, AttnFactor: 0.9},
			LocalRoPE: refmath.RoPE{NeoX: true, FreqBase: 1e4, AttnFactor: 0.9},
			EmbdScale: math.Sqrt(32), LogitSoftcap: 2,
		},
		tied: true,
	},
	"phi3": {
		keys:     map[string]any{"rope.scaling.original_context_length": uint32(LongContext - 1), "rope.scaling.attn_factor": float32(1.25)},
		params:   refmodel.Params{HeadDim: 16, RoPE: refmath.RoPE{NeoX: true, Dims: 12, AttnFactor: 1.25}},
		optional: slices.Concat(biases("attn_qkv"), scales("attn_qkv", "attn_output"), []string{"rope_factors_short.weight", "rope_factors_long.weight"}),
	},
}

func biases(matrices ...string) []string { return suffixed(matrices, ".bias") }

func scales(matrices ...string) []string { return suffixed(matrices, ".scale") }

func suffixed(names []string, suffix string) []string {
	for i := range names {
		names[i] += suffix
	}
	return names
}

// complete are the parameters with the sizes that all have: rows hold whole blocks of
// types of up to 32 elements.
func (a tinyArch) complete(arch string) refmodel.Params {
	p := a.params
	p.Arch, p.Vocab, p.Embd, p.FF, p.Heads, p.KVHeads, p.RMSEps = arch, 40, 32, 64, 4, 2, 1e-5
	if p.Layers == 0 {
		p.Layers = 2
	}
	if p.HeadDim == 0 {
		p.HeadDim = 8
	}
	for _, r := range []*refmath.RoPE{&p.RoPE, &p.LocalRoPE} {
		if r.Dims == 0 {
			r.Dims = p.HeadDim
		}
	}
	return p
}

// tinyName is general.name, by which the float64 model of a loaded one is found.
func tinyName(arch string) string { return "tiny " + arch }

// Architectures lists those that [ArchModel] makes models of.
func Architectures() []string { return slices.Sorted(maps.Keys(tinyArchs)) }

// ArchModel loads a tiny random model of an architecture, whose matrices have the type.
func ArchModel(t testing.TB, arch string, typ ggml.Type) *model.Model {
	t.Helper()
	m, err := model.Load(ArchFile(t, arch, typ), model.LoadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// ArchFile writes the file of [ArchModel].
func ArchFile(t testing.TB, arch string, typ ggml.Type) (path string) {
	t.Helper()
	a, ok := tinyArchs[arch]
	require.True(t, ok, arch)
	p := a.complete(arch)
	g, err := ggml.NewGGUF()
	require.NoError(t, err)
	defer g.Close()
	keys := map[string]any{
		"context_length": uint32(64), "embedding_length": uint32(p.Embd), "feed_forward_length": uint32(p.FF), "block_count": uint32(p.Layers),
		"attention.head_count": uint32(p.Heads), "attention.head_count_kv": uint32(p.KVHeads), "attention.key_length": uint32(p.HeadDim),
		"attention.value_length": uint32(p.HeadDim), "attention.layer_norm_rms_epsilon": float32(p.RMSEps), "rope.dimension_count": uint32(p.RoPE.Dims),
	}
	maps.Copy(keys, a.keys)
	for key, value := range keys {
		require.NoError(t, g.Set(arch+"."+key, value))
	}
	for key, value := range map[string]string{
		"general.architecture": arch, "general.name": tinyName(arch), "tokenizer.ggml.model": "no_vocab",
	} {
		require.NoError(t, g.Set(key, value))
	}
	weights := refmodel.RandomWeights(p, a.tied, 7, a.optional...)
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		addWeight(t, g, name, weights[name], typ)
	}
	path = filepath.Join(t.TempDir(), arch+".gguf")
	require.NoError(t, g.WriteFile(path))
	return path
}

// addWeight adds a matrix in a type, or a vector in F32.
func addWeight(t testing.TB, g *ggml.GGUF, name string, w refmodel.Tensor, typ ggml.Type) {
	t.Helper()
	shape := w.Ne[:2]
	if w.Ne[1] == 1 {
		shape, typ = w.Ne[:1], ggml.F32
	}
	raw := make([]byte, typ.RowSize(w.Ne[0])*w.Ne[1])
	require.NoError(t, ggml.Quantize(raw, typ, w.Float32(), ggml.QuantizeOptions{RowLen: int(w.Ne[0])}))
	info := ggml.GGUFTensor{Name: name, Type: typ, Shape: shape, Size: int64(len(raw))}
	require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}))
}

// Reference makes the float64 model with the same (dequantised) weights.
func Reference(t testing.TB, m *model.Model) *refmodel.Model {
	t.Helper()
	weights := map[string]refmodel.Tensor{}
	for w := range m.Weights() {
		values, err := w.Float32s()
		require.NoError(t, err)
		weights[w.Name()] = refmath.From(values, w.Shape()...)
	}
	ref, err := refmodel.New(referenceParams(t, m.Config), weights)
	require.NoError(t, err)
	return ref
}

func referenceParams(t testing.TB, c model.Config) refmodel.Params {
	t.Helper()
	if a, ok := tinyArchs[c.Arch]; ok && c.Name == tinyName(c.Arch) {
		return a.complete(c.Arch)
	}
	require.Equal(t, "llama", c.Arch, "the float64 model has to be told what others compute")
	rope := refmath.NewRoPE(c.RoPE.Dims, false)
	rope.FreqBase = float64(c.RoPE.FreqBase)
	return refmodel.Params{
		Vocab: c.Vocab, Embd: c.Embd, FF: c.FF, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads,
		HeadDim: c.HeadSize, RMSEps: float64(c.RMSEps), RoPE: rope,
	}
}

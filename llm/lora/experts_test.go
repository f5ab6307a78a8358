package lora_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/quantize"
)

// experts are options that adapt all experts and their routers.
func experts() lora.Options {
	return lora.Options{Rank: 4, Alpha: 6, Seed: 3, Targets: []string{"blk.*_exps", "ffn_gate_inp"}, Ranks: map[string]int{"ffn_down_exps": 2}}
}

// Adapters of experts have one pair per expert. They keep their meaning in a file and when merged, also if the
// products of experts have factors.
func TestAdaptersOfExperts(t *testing.T) {
	m := llmtest.ArchModel(t, "qwen3moe", ggml.F32)
	a := trained(t, m, experts())
	shapes := map[string][][]int64{}
	for _, p := range a.Pairs() {
		shapes[p.Base] = [][]int64{p.A.Shape(), p.B.Shape()}
	}
	require.Len(t, shapes, 2*4)
	require.Equal(t, [][]int64{{32, 4, 6}, {4, 32, 6}}, shapes["blk.0.ffn_up_exps.weight"])
	require.Equal(t, [][]int64{{32, 2, 6}, {2, 32, 6}}, shapes["blk.1.ffn_down_exps.weight"])
	require.Equal(t, [][]int64{{32, 4}, {4, 6}}, shapes["blk.1.ffn_gate_inp.weight"])
	want := losses(t, m, a.WithScale(0.5))
	require.Greater(t, refmath.MaxAbsDiff(losses(t, m, nil), want), 1e-3)

	path := filepath.Join(t.TempDir(), "adapter.gguf")
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	b := load(t, path, m)
	require.Equal(t, want, losses(t, m, b.WithScale(0.5)))

	merged, _ := mergeTo(t, m, []lora.Scaled{{Adapter: b, Scale: 0.5}}, lora.MergeOptions{})
	require.Less(t, refmath.MaxAbsDiff(losses(t, merged, nil), want), 5e-5)
}

// Merging rounds experts to their type, which stays, and leaves other tensors unchanged.
func TestMergedTypesOfExperts(t *testing.T) {
	need.Time(t, "merges many models")
	for _, k := range llmtest.ExpertTypes() {
		m := k.Load(t, model.LoadOptions{})
		a := trained(t, m, lora.Options{Rank: 4, Alpha: 6, Seed: 3, Targets: []string{"blk.*_exps"}})
		merged, _ := mergeTo(t, m, []lora.Scaled{{Adapter: a, Scale: 0.5}}, lora.MergeOptions{})
		for _, p := range a.Pairs() {
			w, exact := m.Weight(p.Base), refmath.From(floats(t, m.Weight(p.Base))).Data
			require.Equal(t, k.Experts, merged.Weight(p.Base).Type(), p.Base)
			in, out, rank := int(w.Dim(0)), int(w.Dim(1)), p.Rank()
			pa, pb := floats(t, p.A), floats(t, p.B)
			factors := slices.Repeat([]float32{1}, int(w.Dim(2)))
			if scale := m.Weight(strings.TrimSuffix(p.Base, "weight") + "scale"); scale != nil {
				factors = floats(t, scale)
			}
			for i := range exact {
				row, column := i/in, i%in // the row counted over all experts
				for r := range rank {
					exact[i] += 0.5 * 6 / 4 / float64(factors[row/out]) * float64(pb[row*rank+r]) * float64(pa[(row/out*rank+r)*in+column])
				}
			}
			sum := make([]float32, len(exact))
			for i, v := range exact {
				sum[i] = float32(v)
			}
			raw := make([]byte, w.NumBytes())
			require.NoError(t, ggml.Quantize(raw, k.Experts, sum, ggml.QuantizeOptions{RowLen: in}))
			require.NoError(t, ggml.Dequantize(sum, k.Experts, raw))
			rounding, got := refmath.RelativeError(sum, exact), refmath.RelativeError(floats(t, merged.Weight(p.Base)), exact)
			require.InEpsilon(t, rounding, got, 0.01, "%s %v", p.Base, k.Experts)
		}
		require.Equal(t, floats(t, m.Weight("blk.0.attn_q.weight")), floats(t, merged.Weight("blk.0.attn_q.weight")))
		require.Equal(t, k.Others, merged.Weight("blk.0.attn_q.weight").Type())
	}
}

// Routers keep their type when others change, and so do two-dimensional tensors that are not multiplied.
func TestMergedTensorsThatKeepTheirType(t *testing.T) {
	mixture, ok := quantize.FindMixture("q4_k_m")
	require.True(t, ok)
	q8 := ggml.Q8_0
	for name, tensors := range map[string][]string{
		"qwen3moe": {"blk.0.ffn_gate_inp.weight"}, "gpt-oss": {"blk.0.ffn_gate_inp.weight", "blk.1.ffn_down_exps.bias"},
		"gpt2": {"position_embd.weight"}, "k2-horizon": {"blk.0.attn_q_norm.weight"},
	} {
		m := llmtest.ArchModel(t, name, ggml.F32)
		for _, o := range []lora.MergeOptions{{Type: &q8}, {Mixture: &mixture}} {
			merged, _ := mergeTo(t, m, nil, o)
			for _, tensor := range tensors {
				require.Equal(t, ggml.F32, merged.Weight(tensor).Type(), tensor)
			}
			require.NotEqual(t, ggml.F32, merged.Weight("blk.0.attn_output.weight").Type(), name)
		}
	}
}

// By default the targets are the dense layers.
func TestDefaultTargetsOfExperts(t *testing.T) {
	for name, want := range map[string][]string{
		"qwen2moe": {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"},
		"qwen3moe": {"attn_q", "attn_k", "attn_v", "attn_output"},
	} {
		m := llmtest.ArchModel(t, name, ggml.F32)
		for _, targets := range [][]string{nil, {lora.AllLinear}} {
			var kinds []string
			for _, p := range newAdapter(t, m, lora.Options{Rank: 2, Targets: targets}).Pairs() {
				if w := m.Architecture().Weight(p.Base); w.Layer == 0 {
					kinds = append(kinds, string(w.Kind))
				}
			}
			require.ElementsMatch(t, want, kinds)
		}
	}
}

// PEFT has no such adapters, and others do not fit.
func TestMisfitsOfExperts(t *testing.T) {
	m := llmtest.ArchModel(t, "qwen3moe", ggml.F32)
	a := newAdapter(t, m, experts())
	folder := filepath.Join(t.TempDir(), "peft")
	require.EqualError(t, a.SavePEFT(folder, lora.PEFTOptions{}),
		"adapter "+folder+": blk.0.ffn_gate_exps.weight belongs to experts, which are not modules in transformers, so PEFT cannot adapt it; save the adapter as GGUF, or merge it")

	path := filepath.Join(t.TempDir(), "adapter.gguf")
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	_, err := lora.Load(path, llmtest.ArchModel(t, "qwen2moe", ggml.F32))
	require.ErrorContains(t, err, `it was made for another kind of model`)
	require.ErrorContains(t, err, "blk.0.ffn_up_exps.weight [32 32 5]: A is [32 4 6] and B [4 32 6]; they must be A [32, r, 5] and B [r, 32, 5]")

	dense := newAdapter(t, m, lora.Options{Rank: 4, Targets: []string{"ffn_gate_inp"}}).WithScale(1)["blk.0.ffn_gate_inp.weight"]
	require.EqualError(t, m.CheckAdapters(model.Adapters{"blk.0.ffn_up_exps.weight": dense}),
		"an adapter of blk.0.ffn_up_exps.weight has A [32 4] and B [4 6] instead of [32 4 6] and [4 32 6]; it was made for another model")
}

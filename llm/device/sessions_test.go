package device_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// trained returns an adapter with nonzero B.
func trained(t *testing.T, m *model.Model) *lora.Adapter {
	t.Helper()
	a := newAdapter(t, m)
	for i, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		for j := range values {
			values[j] = 0.02 * float32((i+7*j)%11-5)
		}
		require.NoError(t, ggml.Write(p.B, values))
	}
	return a
}

// logits returns the logits after each token: most tokens in one pass, and the rest one by one if a sequence can
// continue. For embedding models it returns embeddings of texts.
func logits(t *testing.T, m *model.Model, e *device.Engine, adapters model.Adapters) []float32 {
	t.Helper()
	const prompt, all = 33, 40
	ctx, tokens := context.Background(), llmtest.RandomTokens(5, all, m.Config().Vocab)
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: e, Adapters: adapters, Sequences: 3}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	at := prompt
	if !m.Architecture().IsCausal() {
		at = all
	}
	rows := need.Value(q.DecodeAll(ctx, tokens[:at]))(t)
	for _, token := range tokens[at:] {
		row := need.Value(q.Decode(ctx, []int32{token}))(t)
		rows = append(rows, row)
	}
	vectors := need.Value(s.Embed(ctx, [][]int32{tokens[:7], tokens}, infer.EmbedOptions{}))(t)
	return slices.Concat(append(rows, vectors...)...)
}

func TestLoweringsDecodeAlike(t *testing.T) {
	need.Time(t, "decodes many models")
	each(t, func(t *testing.T, m *model.Model) {
		bound := 1e-10
		if llmtest.LooksUpGELU(m.Config().Arch) { // GELU rounds its input to F16, so another order of summation may round differently
			bound = 1e-8
		}
		kernels, stock := newEngine(t, device.Options{}), newEngine(t, device.Options{OpSet: device.Stock})
		plain := logits(t, m, kernels, nil)
		require.Less(t, refmath.NMSE(logits(t, m, stock, nil), plain), bound)

		a := trained(t, m).WithScale(1)
		adapted := logits(t, m, kernels, a)
		require.Greater(t, refmath.NMSE(adapted, plain), 1e-3)
		require.Less(t, refmath.NMSE(logits(t, m, stock, a), adapted), bound)
	})
}

// Sequences stepped together have the logits of each alone.
func TestStockStep(t *testing.T) {
	ctx := context.Background()
	m := llmtest.ArchModel(t, "olmo2", ggml.F32)
	e := newEngine(t, device.Options{OpSet: device.Stock})
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Sequences: 3, Engine: e}))(t)
	defer s.Close()
	fresh := need.Value(s.NewSequence())(t)
	var next []infer.StepInput
	var want [][]float32
	for i, length := range []int{5, 21} {
		tokens := llmtest.RandomTokens(uint64(i), length, m.Config().Vocab)
		q := need.Value(s.NewSequence())(t)
		_, err := q.Decode(ctx, tokens)
		require.NoError(t, err)
		next = append(next, infer.StepInput{Sequence: q, Token: 3})
		_, err = fresh.Rewind(0)
		require.NoError(t, err)
		logits := need.Value(fresh.Decode(ctx, append(tokens, 3)))(t)
		want = append(want, logits)
	}
	require.NoError(t, s.Step(ctx, next))
	for i, n := range next {
		require.Less(t, refmath.NMSE(n.Logits, want[i]), 1e-10)
	}
}

// A lowering for devices without flash attention computes the same logits, for every cache type.
func TestAttentionByProducts(t *testing.T) {
	lacks := func(_ int, _ device.Use, of *nn.Lowering) *nn.Lowering {
		l := *of
		l.Supports = func(op *ggml.Tensor) bool { return op.Op() != "flash_attn_ext" }
		return &l
	}
	for _, name := range llmtest.FewArchitectures() {
		m, bound := llmtest.ArchModel(t, name, ggml.F32), 1e-10
		if llmtest.LooksUpGELU(name) { // GELU rounds its input to F16, so another order of summation may round differently
			bound = 1e-7
		}
		flash, products := newEngine(t, device.Options{OpSet: device.Stock}), newEngine(t, device.Options{OpSet: device.Stock, Layers: lacks})
		require.Less(t, refmath.NMSE(logits(t, m, products, nil), logits(t, m, flash, nil)), bound, name)
	}
	m := wideHeads(t, ggml.F32)
	for _, cache := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0} {
		o := infer.SessionOptions{CacheType: cache, Sequences: 2}
		want := sessionLogits(t, m, device.Options{OpSet: device.Stock}, o)
		require.Less(t, refmath.NMSE(sessionLogits(t, m, device.Options{OpSet: device.Stock, Layers: lacks}, o), want), 1e-5, "%v", cache)
	}
}

// wideHeads is a model whose heads fit caches of every type.
func wideHeads(t *testing.T, typ ggml.Type) *model.Model {
	config := llmtest.LargeBlockConfig(false)
	config.Arch, config.Context, config.RoPE.Mode = "olmo2", 2048, ggml.RoPENeoX
	return llmtest.NoisyModel(t, config, typ, 0.03)
}

// sessionLogits returns the logits of two sequences with a common prefix: of their prompts, and of tokens decoded
// together.
func sessionLogits(t *testing.T, m *model.Model, e device.Options, o infer.SessionOptions) []float32 {
	t.Helper()
	ctx := t.Context()
	o.Engine, o.Context, o.Batch, o.Adapters = newEngine(t, e), 400, 64, trained(t, m).WithScale(1)
	s := need.Value(infer.NewSession(m, o))(t)
	defer s.Close()
	prompt := llmtest.RandomTokens(5, 150, m.Config().Vocab)
	var all [][]float32
	var next []infer.StepInput
	for i := range 2 {
		q := need.Value(s.NewSequence())(t)
		reads := testhook.Reads.Load()
		row, cached, err := q.Prefill(ctx, append(slices.Clone(prompt), int32(7+i)))
		require.NoError(t, err)
		require.Equal(t, i*len(prompt), cached)
		if i > 0 {
			require.EqualValues(t, 1, testhook.Reads.Load()-reads, "the logits alone come to the host")
		}
		all, next = append(all, row), append(next, infer.StepInput{Sequence: q, Token: int32(i)})
	}
	for j := range 3 {
		reads := testhook.Reads.Load()
		require.NoError(t, s.Step(ctx, next))
		require.EqualValues(t, 1, testhook.Reads.Load()-reads)
		for i := range next {
			all = append(all, slices.Clone(next[i].Logits))
			next[i].Token = prompt[i+7*j] // fixed rather than greedy: rounding may change the most likely token
		}
	}
	return slices.Concat(all...)
}

// Sessions on a device have the logits of the CPU for caches of every type, also with quantised weights. One bound is
// for float types, the other for types of 8 bits or less.
func cachesAlike(t *testing.T, d *ggml.Device, of func(testing.TB, *model.Model) *model.Model, exact, rounded float64) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.Q4_K} {
		m := wideHeads(t, typ)
		on, reference := loadOn(t, m, layout.On(d)), of(t, m)
		for _, cache := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0} {
			o := infer.SessionOptions{CacheType: cache, Sequences: 2}
			want := sessionLogits(t, reference, device.Options{OpSet: device.Stock}, o)
			e := refmath.NMSE(sessionLogits(t, on, device.Options{Layout: layout.On(d)}, o), want)
			t.Logf("weights %v, cache %v: %.1e", typ, cache, e)
			bound := exact
			if typ != ggml.F32 || cache == ggml.Q8_0 {
				bound = rounded
			}
			require.Less(t, e, bound, "weights %v, cache %v", typ, cache)
		}
	}
}

func TestCachesOnDevices(t *testing.T) {
	same := func(_ testing.TB, m *model.Model) *model.Model { return m }
	cachesAlike(t, remote(t), same, 1e-10, 1e-10)
}

// The CPU rounds operands of products with quantised weights to 8 bits, Vulkan rounds otherwise or not at all: the
// reference has F32 weights.
func TestVulkanCaches(t *testing.T) {
	cachesAlike(t, vulkan(t), llmtest.Dequantised, vulkanLogits, vulkanRounded)
}

// beyondWindows returns logits of a text longer than the windows, in a session that keeps only windows, or everything
// if full.
func beyondWindows(t *testing.T, m *model.Model, o device.Options, full bool) []float32 {
	t.Helper()
	ctx := context.Background()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: newEngine(t, o), Context: 400, Batch: 64, FullCache: full}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	rows := need.Value(q.DecodeAll(ctx, llmtest.RandomTokens(5, 300, m.Config().Vocab)))(t)
	_, err := q.Rewind(290)
	require.NoError(t, err)
	for range 5 {
		row := need.Value(q.Decode(ctx, []int32{7}))(t)
		rows = append(rows, row)
	}
	return slices.Concat(rows...)
}

func TestWindowsOnDevices(t *testing.T) {
	far := layout.On(remote(t))
	for _, name := range []string{"gemma3", "gpt-oss"} {
		m := llmtest.ArchModel(t, name, ggml.F32)
		want := beyondWindows(t, m, device.Options{}, true)
		require.Less(t, refmath.NMSE(beyondWindows(t, m, device.Options{OpSet: device.Stock}, false), want), 1e-8, name)
		require.Less(t, refmath.NMSE(beyondWindows(t, loadOn(t, m, far), device.Options{Layout: far}, false), want), 1e-8, name)
	}
}

func TestVulkanWindows(t *testing.T) {
	on := layout.On(vulkan(t))
	m := llmtest.ArchModel(t, "gemma3", ggml.F32)
	want := beyondWindows(t, m, device.Options{}, true)
	require.Less(t, refmath.NMSE(beyondWindows(t, loadOn(t, m, on), device.Options{Layout: on}, false), want), 1e-5) // its flash attention rounds to F16
}

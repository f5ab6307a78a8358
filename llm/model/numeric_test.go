package model_test

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/refmodel"
	"github.com/goggml/ggml/internal/stockmodel"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// minimalConfig is small enough for central differences. Its rows hold one
// block of Q8_0 or Q4_0, and more.
func minimalConfig() arch.Config {
	return arch.Config{
		Arch: "llama", Vocab: 40, Context: 32, Embd: 32, FF: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 8, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
}

// An adapted model has a pair on every matrix, and the float64 model beside it
// has the same.
type adaptedModel struct {
	*model.Model
	ref      *refmodel.Model
	adapters model.Adapters
	pairs    map[string]*ggml.Tensor // A and B by name
}

func newAdaptedModel(t *testing.T, typ ggml.Type, rank int, scale float32) *adaptedModel {
	t.Helper()
	m := &adaptedModel{Model: llmtest.TinyModel(t, minimalConfig(), typ), adapters: model.Adapters{}, pairs: map[string]*ggml.Tensor{}}
	m.ref = llmtest.Reference(t, m.Model)
	store := llmtest.NewArena(t)
	place := func(name string) *ggml.Tensor {
		v, err := m.ref.Weight(name)
		require.NoError(t, err)
		m.pairs[name] = store.Tensor(name, v.Float32(), v.Ne[0], v.Ne[1])
		return m.pairs[name]
	}
	for _, s := range llmtest.Declared(m.Model) {
		if len(s.Shape) == 2 {
			require.NoError(t, m.ref.AddRandomLoRA(rank, float64(scale), 11, s.Name))
			m.adapters[s.Name] = []model.LoRAPair{{A: place(s.Name + ".lora_a"), B: place(s.Name + ".lora_b"), Scale: scale}}
		}
	}
	require.Len(t, m.adapters, 2*7+2, "every target of every layer")
	return m
}

// gradients are those of the graph that trains, by name.
func (m *adaptedModel) gradients(t *testing.T, length int, b model.Batch) map[string][]float32 {
	t.Helper()
	store := llmtest.NewArena(t)
	trained, grad := map[*ggml.Tensor]*ggml.Tensor{}, map[string]*ggml.Tensor{}
	for name, x := range m.pairs {
		grad[name] = store.Tensor(name+".grad", make([]float32, x.NumElements()), x.Shape()...)
		trained[x] = grad[name]
	}
	rows := len(b.Tokens) / length
	l, err := m.NewLossGraph(llmtest.NewEngine(t), model.TrainGraphOptions{Length: length, Batch: rows, Adapters: m.adapters, Grads: trained})
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Compute(context.Background(), b)
	require.NoError(t, err)
	grads := map[string][]float32{}
	for name, x := range grad {
		grads[name], err = ggml.Read[float32](x)
		require.NoError(t, err)
	}
	return grads
}

// The gradients of A and B of every matrix of every layer, of the token
// embedding and of the output agree with central differences of the loss, which
// the float64 model computes from the same (dequantised) weights.
func TestLoRAGradientsAgainstCentralDifferences(t *testing.T) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0} {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			testCentralDifferences(t, typ)
		})
	}
}

func testCentralDifferences(t *testing.T, typ ggml.Type) {
	const rank, length, scale = 2, 5, 1.25
	const bound = 1e-5 // far below the 1e-2 that training would bear
	m := newAdaptedModel(t, typ, rank, scale)
	batch, sequences := llmtest.NewBatch(m.Config().Vocab, length)
	grads := m.gradients(t, length, batch)
	rng := rand.New(rand.NewPCG(5, uint64(typ)))
	for _, name := range slices.Sorted(maps.Keys(grads)) {
		got := grads[name]
		norm := math.Sqrt(dot(got, got))
		require.Positive(t, norm, name)

		// Along the gradient the loss rises by its norm.
		require.InEpsilon(t, norm, m.slope(t, sequences, name, got), bound, name)

		// A random direction sees all elements at once.
		random := make([]float32, len(got))
		for i := range random {
			random[i] = float32(rng.NormFloat64())
		}
		want := m.slope(t, sequences, name, random)
		require.InDelta(t, want, dot(got, random)/math.Sqrt(dot(random, random)), bound*norm, name)

		// Some elements, one by one.
		indices := rng.Perm(len(got))[:5]
		single, err := m.ref.NumericGradient(sequences, name, 1e-4, indices...)
		require.NoError(t, err)
		var picked []float32
		for _, i := range indices {
			picked = append(picked, got[i])
		}
		require.InDelta(t, 0, refmath.RelativeError(picked, single)*math.Sqrt(dot(single, single)), bound*norm, name)
	}
}

// slope is the central difference of the reference's loss along a direction,
// for a step of length 1.
func (m *adaptedModel) slope(t *testing.T, batch []refmodel.Sequence, name string, direction []float32) float64 {
	t.Helper()
	const h = 1e-4
	w, err := m.ref.Weight(name)
	require.NoError(t, err)
	old := slices.Clone(w.Data)
	defer copy(w.Data, old)
	step := h / math.Sqrt(dot(direction, direction))
	loss := func(sign float64) float64 {
		for i, d := range direction {
			w.Data[i] = old[i] + sign*step*float64(d)
		}
		l, err := m.ref.Loss(batch...)
		require.NoError(t, err)
		return l
	}
	return (loss(1) - loss(-1)) / (2 * h)
}

func dot[A, B ~float32 | ~float64](a []A, b []B) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// ggml's own backward pass through a graph of built-in ops gives the same
// gradients: another forward graph, and other rules.
func TestLoRAGradientsAgainstAutograd(t *testing.T) {
	const rank, length, scale = 2, 10, 1.25
	m := newAdaptedModel(t, ggml.F32, rank, scale)
	batch, sequences := llmtest.NewBatch(m.Config().Vocab, length)
	batch = model.Batch{Tokens: batch.Tokens[:length], Targets: batch.Targets[:length]} // stock loss: no weights
	sequences[0].Weights = nil
	want, err := m.ref.Loss(sequences[0])
	require.NoError(t, err)

	loss, grads := autograd(t, m, batch)
	require.InEpsilon(t, want, loss, 1e-5)
	ours := m.gradients(t, length, batch)
	require.Len(t, grads, len(ours))
	for name, g := range grads {
		require.Less(t, refmath.RelativeError(ours[name], g), 1e-5, name)
	}
}

// autograd computes loss and gradients of one sequence with built-in ops.
func autograd(t *testing.T, m *adaptedModel, b model.Batch) (float64, map[string][]float32) {
	t.Helper()
	g, err := stockmodel.New(m.Model, m.adapters, len(b.Tokens))
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	engine := llmtest.NewEngine(t)
	require.NoError(t, engine.Allocate(g.Graph))
	require.NoError(t, g.Compute(context.Background(), engine, b.Tokens, b.Targets))
	grads := map[string][]float32{}
	for name, p := range m.pairs {
		grad, ok := g.Grad(p)
		require.True(t, ok, name)
		v, err := grad.Float32s()
		require.NoError(t, err)
		grads[name] = v
	}
	v, err := ggml.Read[float32](g.Loss)
	require.NoError(t, err)
	return float64(v[0]), grads
}

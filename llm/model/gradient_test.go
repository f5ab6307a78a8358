package model_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/refmodel"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/model"
)

// tinyConfig is the smallest model with every feature: grouped heads, and rows
// that hold whole blocks of every quantised type up to 32 elements.
func tinyConfig(tied bool) model.Config {
	return model.Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16,
		RMSEps: 1e-5, Tied: tied,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
}

// tinyModel makes a random model whose matrices have the type. Its weights are
// larger than those of a fresh model: every path must count.
func tinyModel(t *testing.T, c model.Config, typ ggml.Type) *model.Model {
	t.Helper()
	return noisyModel(t, c, typ, 0.1)
}

// noisyModel adds noise to the weights of a fresh model.
func noisyModel(t *testing.T, c model.Config, typ ggml.Type, noise float64) *model.Model {
	t.Helper()
	made, err := model.New(c, nil, 7)
	require.NoError(t, err)
	defer made.Close()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	rng := rand.New(rand.NewPCG(1, 2))
	err = made.Save(path, model.SaveOptions{
		Type: func(name string, old ggml.Type) ggml.Type {
			if made.Weight(name).NumDims() < 2 {
				return old
			}
			return typ
		},
		Change: func(name string) func([]float32) error {
			return func(v []float32) error {
				for i := range v {
					v[i] += float32(noise * rng.NormFloat64())
				}
				return nil
			}
		},
	})
	require.NoError(t, err)
	m, err := model.Load(path, model.LoadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// reference makes the float64 model with the same (dequantised) weights.
func reference(t *testing.T, m *model.Model) *refmodel.Model {
	t.Helper()
	weights := map[string]refmodel.Tensor{}
	for _, s := range m.Config.Tensors() {
		values, err := m.Weight(s.Name).Float32s()
		require.NoError(t, err)
		weights[s.Name] = refmath.From(values, s.Shape...)
	}
	c := m.Config
	rope := refmath.NewRoPE(c.RoPE.Dims, c.RoPE.Mode == ggml.RoPENeoX)
	rope.FreqBase = float64(c.RoPE.FreqBase)
	ref, err := refmodel.New(refmodel.Params{
		Vocab: c.Vocab, Embd: c.Embd, FF: c.FF, Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads,
		HeadDim: c.HeadSize, RMSEps: float64(c.RMSEps), RoPE: rope,
	}, weights)
	require.NoError(t, err)
	return ref
}

// arena holds tensors that live as long as a test.
type arena struct {
	t   *testing.T
	ctx *ggml.Context
}

func newArena(t *testing.T) *arena {
	a := &arena{t: t, ctx: ggml.NewContext()}
	t.Cleanup(func() { a.ctx.Close() })
	return a
}

func (a *arena) tensor(name string, values []float32, shape ...int64) *ggml.Tensor {
	a.t.Helper()
	x := a.ctx.NewTensor(ggml.F32, shape...).SetName(name)
	buffers, err := a.ctx.Allocate(ggml.CPUBufferType())
	require.NoError(a.t, err)
	a.t.Cleanup(func() { buffers.Close() })
	require.NoError(a.t, ggml.Write(x, values))
	return x
}

func testEngine(t *testing.T) *model.Engine {
	t.Helper()
	e, err := model.NewEngine(2)
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

// testBatch is two sequences with some targets left out.
func testBatch(vocab, length int) (model.Batch, []refmodel.Sequence) {
	rng := rand.New(rand.NewPCG(3, 4))
	var b model.Batch
	var total float32
	for range 2 * length {
		b.Tokens = append(b.Tokens, int32(rng.IntN(vocab)))
		b.Targets = append(b.Targets, int32(rng.IntN(vocab)))
		w := float32(rng.IntN(3))
		b.Weights = append(b.Weights, w)
		total += w
	}
	var sequences []refmodel.Sequence
	for s := range 2 {
		q := refmodel.Sequence{Inputs: b.Tokens[s*length : (s+1)*length], Targets: b.Targets[s*length : (s+1)*length]}
		for _, w := range b.Weights[s*length : (s+1)*length] {
			q.Weights = append(q.Weights, float64(w))
		}
		sequences = append(sequences, q)
	}
	for i := range b.Weights {
		b.Weights[i] /= total
	}
	return b, sequences
}

func weightedLoss(b model.Batch, losses []float32) float64 {
	var sum float64
	for i, l := range losses {
		sum += float64(b.Weights[i]) * float64(l)
	}
	return sum
}

// The gradients of A and B of every matrix of every layer, and of the token
// embedding, agree with the float64 model, whose own gradients its tests check
// against central differences.
func TestLoRAGradients(t *testing.T) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_0} {
		for _, checkpoint := range []bool{false, true} {
			name := typ.String()
			if checkpoint {
				name += " checkpoint"
			}
			t.Run(name, func(t *testing.T) { testLoRAGradients(t, typ, checkpoint) })
		}
	}
}

func testLoRAGradients(t *testing.T, typ ggml.Type, checkpoint bool) {
	const length = 12
	s := newLoRASetup(t, tinyModel(t, tinyConfig(false), typ), 4, 0.75)
	require.Len(t, s.deltas, 2*7+2)
	batch, sequences := testBatch(s.m.Vocab, length)
	got := s.compute(t, testEngine(t), batch, model.PassOptions{Length: length, Batch: 2, HeadChunk: 7, Checkpoint: checkpoint, FeedForwardChunk: 5})

	loss, grads, err := s.ref.Gradient(sequences)
	require.NoError(t, err)
	require.InEpsilon(t, loss, got, 1e-5)
	require.Len(t, grads, len(s.trained))
	for name, acc := range s.trained {
		got, err := ggml.Read[float32](acc)
		require.NoError(t, err)
		require.Less(t, refmath.RelativeError(got, grads[name].Data), 1e-4, name)
	}
}

// The same for the weights themselves, as pretraining changes them.
func TestWeightGradients(t *testing.T) {
	for _, tied := range []bool{false, true} {
		requireWeightGradients(t, tinyModel(t, tinyConfig(tied), ggml.F32), 12, false)
	}
}

// requireWeightGradients compares the loss of two sequences, and the gradients of all
// weights, with the float64 model.
func requireWeightGradients(t *testing.T, m *model.Model, length int, checkpoint bool) {
	t.Helper()
	ref := reference(t, m)
	store := newArena(t)
	trained := map[string]*ggml.Tensor{}
	var names []string
	for _, s := range m.Config.Tensors() {
		w := m.Weight(s.Name)
		trained[s.Name] = store.tensor(s.Name+".grad", make([]float32, w.NumElements()), s.Shape...)
		names = append(names, s.Name)
	}
	l, err := m.NewLossGraph(model.PassOptions{Length: length, Batch: 2, Trained: trained, Checkpoint: checkpoint})
	require.NoError(t, err)
	defer l.Close()
	batch, sequences := testBatch(m.Vocab, length)
	losses, err := l.Compute(context.Background(), testEngine(t), batch)
	require.NoError(t, err)
	loss, grads, err := ref.Gradient(sequences, names...)
	require.NoError(t, err)
	require.InEpsilon(t, loss, weightedLoss(batch, losses), 1e-5)
	for name, acc := range trained {
		got, err := ggml.Read[float32](acc)
		require.NoError(t, err)
		require.Less(t, refmath.RelativeError(got, grads[name].Data), 1e-4, "%s, tied %v", name, m.Tied)
	}
}

// The gradients are the same, but slower, on a machine without a BLAS library.
func TestGradientsWithoutBLAS(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run", "^(TestLoRAGradients|TestWeightGradients|TestLongSequences|TestGEMMLibrary)$", "-test.v")
	c.Env = append(os.Environ(), "GOGGML_BLAS=none")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), `the library is ""`)
	require.Contains(t, string(out), "--- PASS: TestLoRAGradients")
}

func TestGEMMLibrary(t *testing.T) {
	library, err := kernels.GEMMLibrary()
	require.NoError(t, err)
	t.Logf("the library is %q", library)
}

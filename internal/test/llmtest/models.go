package llmtest

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/stretchr/testify/require"
)

// TinyConfig returns the config of the smallest model with every feature: grouped heads, and rows that
// are multiples of block sizes up to 32.
func TinyConfig(tied bool) arch.Config {
	return arch.Config{
		Arch: "llama", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16,
		RMSEps: 1e-5, Tied: tied,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
}

// TinyModel returns a random model with matrices of a type. Its weights are larger than a new model's,
// so that every path contributes.
func TinyModel(t testing.TB, c arch.Config, typ ggml.Type) *model.Model {
	t.Helper()
	return NoisyModel(t, c, typ, 0.1)
}

// NoisyModel adds noise to the weights of a fresh model.
func NoisyModel(t testing.TB, c arch.Config, typ ggml.Type, noise float64) *model.Model {
	t.Helper()
	return ScaledModel(t, c, typ, noise, nil)
}

// ScaledModel is like NoisyModel, with some kinds of weights, such as "attn_q_norm", multiplied by
// factors.
func ScaledModel(t testing.TB, c arch.Config, typ ggml.Type, noise float64, factors map[arch.Kind]float64) *model.Model {
	t.Helper()
	made := need.Value(model.New(c, nil, 7))(t)
	defer made.Close()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	rng := rand.New(rand.NewPCG(1, 2))
	err := made.Save(path, model.SaveOptions{
		Type: func(name string, old ggml.Type) ggml.Type {
			if made.Weight(name).NumDims() < 2 {
				return old
			}
			return typ
		},
		Change: func(name string) func([]float32) error {
			factor := 1.0
			for kind, f := range factors {
				if strings.HasSuffix(name, "."+string(kind)+".weight") {
					factor = f
				}
			}
			return func(v []float32) error {
				for i := range v {
					v[i] = float32(factor * (float64(v[i]) + noise*rng.NormFloat64()))
				}
				return nil
			}
		},
	})
	require.NoError(t, err)
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// Declared lists the model's weights, in order of computation.
func Declared(m *model.Model) []*arch.Weight {
	return slices.DeleteFunc(slices.Clone(m.Architecture().Weights()), func(w *arch.Weight) bool { return m.Weight(w.Name) == nil })
}

// Arena holds tensors for the duration of a test, many in one buffer: whatever uses a tensor retains all buffers of
// its context.
type Arena struct {
	t    testing.TB
	ctx  *ggml.Context
	room *ggml.TensorAllocator
}

func NewArena(t testing.TB) *Arena {
	a := &Arena{t: t, ctx: ggml.NewContext()}
	t.Cleanup(func() { a.ctx.Close() })
	return a
}

func (a *Arena) Tensor(name string, values []float32, shape ...int64) *ggml.Tensor {
	a.t.Helper()
	x := a.ctx.NewTensor(ggml.F32, shape...).SetName(name)
	if a.room == nil || a.room.Allocate(x) != nil {
		buffer := need.Value(ggml.CPUBufferType().NewBuffer(max(1<<20, 2*x.NumBytes())))(a.t)
		a.t.Cleanup(func() { buffer.Close() })
		a.room = need.Value(ggml.NewTensorAllocator(buffer))(a.t)
		require.NoError(a.t, a.room.Allocate(x))
	}
	require.NoError(a.t, ggml.Write(x, values))
	return x
}

func NewEngine(t testing.TB) *device.Engine {
	t.Helper()
	e := need.Value(device.NewCPU(2))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

// NewBatch returns two sequences, with some targets masked.
func NewBatch(vocab, length int) lossgraph.Batch {
	rng := rand.New(rand.NewPCG(3, 4))
	var b lossgraph.Batch
	var total float32
	for range 2 * length {
		b.Tokens = append(b.Tokens, int32(rng.IntN(vocab)))
		b.Targets = append(b.Targets, int32(rng.IntN(vocab)))
		w := float32(rng.IntN(3))
		b.LossWeights = append(b.LossWeights, w)
		total += w
	}
	for i := range b.LossWeights {
		b.LossWeights[i] /= total
	}
	return b
}

func WeightedLoss(b lossgraph.Batch, losses []float32) float64 {
	var sum float64
	for i, l := range losses {
		sum += float64(b.LossWeights[i]) * float64(l)
	}
	return sum
}

// PackableConfig returns a config whose matrices all of the CPU's repacked layouts accept.
func PackableConfig(tied bool) arch.Config {
	c := TinyConfig(tied)
	c.Embd, c.FF, c.HeadSize, c.RoPE.Dims = 128, 192, 32, 32
	return c
}

// LargeBlockConfig returns a config whose matrices can have every quantised type.
func LargeBlockConfig(tied bool) arch.Config {
	c := TinyConfig(tied)
	c.Embd, c.FF, c.HeadSize, c.RoPE.Dims = 256, 512, 64, 64
	return c
}

// RandomMatrices fills the matrices of a model without file so that hidden states keep their
// magnitude.
func RandomMatrices(t testing.TB, m *model.Model) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 9))
	for w := range m.Weights() {
		if w.NumDims() == 2 {
			require.NoError(t, ggml.Write(w, refmath.Normal(rng, 1/math.Sqrt(float64(w.Dim(0))), w.Shape()...).Float32()))
		}
	}
}

// RandomTokens returns token IDs below vocab.
func RandomTokens(seed uint64, n, vocab int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocab))
	}
	return tokens
}

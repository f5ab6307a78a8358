package llmtest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
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

// BlockConfig returns a config whose rows are multiples of every block size.
func BlockConfig() arch.Config {
	c := TinyConfig(false)
	c.Embd, c.FF, c.Layers, c.Heads, c.KVHeads, c.HeadSize = 256, 512, 3, 8, 4, 32
	c.RoPE.Dims = 32
	return c
}

// LoRASetup holds random adapters for a model, and accumulators for their gradients.
type LoRASetup struct {
	Model    *model.Model
	Adapters model.Adapters
	Grads    map[string]*ggml.Tensor // by name of the trained tensor
	tensors  map[string]*ggml.Tensor
}

func NewLoRASetup(t testing.TB, m *model.Model, rank int64, scale float32) *LoRASetup {
	t.Helper()
	s := &LoRASetup{Model: m, Adapters: model.Adapters{}, Grads: map[string]*ggml.Tensor{}, tensors: map[string]*ggml.Tensor{}}
	store := NewArena(t)
	rng := rand.New(rand.NewPCG(11, 2))
	factor := func(name string, shape []int64) *ggml.Tensor {
		values := refmath.Normal(rng, 1/math.Sqrt(float64(shape[0])), shape...)
		s.tensors[name] = store.Tensor(name, values.Float32(), shape...)
		s.Grads[name] = store.Tensor(name+".grad", make([]float32, len(values.Data)), shape...)
		return s.tensors[name]
	}
	for _, w := range Declared(m) {
		if !w.IsAdaptable() {
			continue
		}
		a, b := slices.Clone(w.Shape), slices.Clone(w.Shape) // for experts, includes their number
		a[1], b[0] = rank, rank
		if w.Role == arch.Embedding { // A is used by GET_ROWS
			a, b = []int64{rank, w.Shape[1]}, []int64{rank, w.Shape[0]}
		}
		s.Adapters[w.Name] = []model.LoRAPair{{A: factor(w.Name+".lora_a", a), B: factor(w.Name+".lora_b", b), Scale: scale}}
	}
	return s
}

// Trained returns the accumulator of each matrix of the adapters.
func (s *LoRASetup) Trained() map[*ggml.Tensor]*ggml.Tensor {
	trained := map[*ggml.Tensor]*ggml.Tensor{}
	for name, acc := range s.Grads {
		trained[s.tensors[name]] = acc
	}
	return trained
}

// Compute returns the loss, and stores the gradients in Grads.
func (s *LoRASetup) Compute(t testing.TB, e *device.Engine, b lossgraph.Batch, o lossgraph.Options) float64 {
	t.Helper()
	return s.ComputeGraph(t, s.NewGraph(t, e, o), b)
}

// NewGraph builds a graph that adds the gradients of a batch to Grads.
func (s *LoRASetup) NewGraph(t testing.TB, e *device.Engine, o lossgraph.Options) *lossgraph.Graph {
	t.Helper()
	o.Adapters, o.Grads = s.Adapters, s.Trained()
	l := need.Value(lossgraph.New(s.Model, e, o))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// ComputeGraph is like Compute, with a graph of [LoRASetup.NewGraph].
func (s *LoRASetup) ComputeGraph(t testing.TB, l *lossgraph.Graph, b lossgraph.Batch) float64 {
	t.Helper()
	for _, acc := range s.Grads {
		require.NoError(t, ggml.Write(acc, make([]float32, acc.NumElements())))
	}
	losses := need.Value(l.Compute(context.Background(), b))(t)
	return WeightedLoss(b, losses)
}

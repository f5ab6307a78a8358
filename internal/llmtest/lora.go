package llmtest

import (
	"context"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmodel"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
	"github.com/stretchr/testify/require"
)

// BlockConfig has rows that hold whole blocks of every quantised type.
func BlockConfig() model.Config {
	c := TinyConfig(false)
	c.Embd, c.FF, c.Layers, c.Heads, c.KVHeads, c.HeadSize = 256, 512, 3, 8, 4, 32
	c.RoPE.Dims = 32
	return c
}

// LoRASetup gives a model adapters with random values, accumulators for their
// gradients, and a float64 reference of it all.
type LoRASetup struct {
	Model    *model.Model
	Ref      *refmodel.Model
	Adapters model.Adapters
	Grads    map[string]*ggml.Tensor // by the name of what is trained
	tensors  map[string]*ggml.Tensor
}

func NewLoRASetup(t testing.TB, m *model.Model, rank int, scale float32) *LoRASetup {
	t.Helper()
	s := &LoRASetup{Model: m, Ref: Reference(t, m), Adapters: model.Adapters{}, Grads: map[string]*ggml.Tensor{}, tensors: map[string]*ggml.Tensor{}}
	store := NewArena(t)
	for _, w := range Declared(m) {
		if len(w.Shape) == 2 {
			require.NoError(t, s.Ref.AddRandomLoRA(rank, float64(scale), 11, w.Name))
		}
	}
	for _, name := range s.Ref.LoRANames() {
		values, err := s.Ref.Weight(name)
		require.NoError(t, err)
		s.tensors[name] = store.Tensor(name, values.Float32(), values.Ne[0], values.Ne[1])
		s.Grads[name] = store.Tensor(name+".grad", make([]float32, len(values.Data)), values.Ne[0], values.Ne[1])
	}
	for _, w := range Declared(m) {
		if a := s.tensors[w.Name+".lora_a"]; a != nil {
			s.Adapters[w.Name] = []model.LoRAPair{{A: a, B: s.tensors[w.Name+".lora_b"], Scale: scale}}
		}
	}
	return s
}

// Compute returns the loss, and leaves the gradients in Grads.
func (s *LoRASetup) Compute(t testing.TB, e *device.Engine, b model.Batch, o model.TrainGraphOptions) float64 {
	t.Helper()
	return s.ComputeGraph(t, s.NewGraph(t, e, o), b)
}

// NewGraph adds the gradients of a batch to Grads.
func (s *LoRASetup) NewGraph(t testing.TB, e *device.Engine, o model.TrainGraphOptions) *model.LossGraph {
	t.Helper()
	o.Adapters, o.Grads = s.Adapters, map[*ggml.Tensor]*ggml.Tensor{}
	for name, acc := range s.Grads {
		o.Grads[s.tensors[name]] = acc
	}
	l, err := s.Model.NewLossGraph(e, o)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// ComputeGraph is Compute by a graph of the setup.
func (s *LoRASetup) ComputeGraph(t testing.TB, l *model.LossGraph, b model.Batch) float64 {
	t.Helper()
	for _, acc := range s.Grads {
		require.NoError(t, ggml.Write(acc, make([]float32, acc.NumElements())))
	}
	losses, err := l.Compute(context.Background(), b)
	require.NoError(t, err)
	return WeightedLoss(b, losses)
}

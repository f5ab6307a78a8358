package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
)

const tokenEmbd = "token_embd.weight"

// A LoRAPair is the low-rank change (arXiv 2106.09685) of a matrix W [n_in, n_out]: with A [n_in, r] and B [r,
// n_out], y = W·x + Scale · B·(A·x). The token embedding [n_embd, n_vocab] has A [r, n_vocab], whose rows are looked
// up, and B [r, n_embd]. Matrices of experts [n_in, n_out, experts] have a pair per expert: A [n_in, r, experts] and
// B [r, n_out, experts].
//
// Type is the type of A and B in their file if it is F16 or BF16. Sessions on the CPU then store them in this type,
// which loses nothing and takes half the memory, and round x and A·x to it, as stock llama.cpp does.
type LoRAPair struct {
	A, B  *ggml.Tensor
	Scale float32
	Type  ggml.Type
}

// Adapters are the pairs of all adapters in use, by the name of the matrix in the model's file.
type Adapters map[string][]LoRAPair

// CheckEngine checks that the weights and adapters are on the engine's devices.
func (m *Model) CheckEngine(e *device.Engine, adapters Adapters) error {
	if err := m.CheckOpen(); err != nil {
		return err
	}
	for _, w := range m.arch.Weights() {
		var tensors []*ggml.Tensor
		if x := m.weights[w.Name]; x != nil {
			tensors = append(tensors, x)
		}
		for _, p := range adapters[w.Name] {
			tensors = append(tensors, p.A, p.B)
		}
		if err := e.Check(w.Layer, w.Kind, tensors...); err != nil {
			return err
		}
	}
	return nil
}

// CheckAdapters checks that the adapters fit the model.
func (m *Model) CheckAdapters(adapters Adapters) error {
	if err := m.CheckOpen(); err != nil {
		return err
	}
	const remedy = "it was made for another model"
	for name, list := range adapters {
		w := m.weights[name]
		if w == nil {
			return fmt.Errorf("an adapter is for %s, which the model does not have; %s", name, remedy)
		}
		in, out := w.Dim(0), w.Dim(1)
		for _, p := range list {
			if p.A == nil || p.B == nil {
				return fmt.Errorf("an adapter of %s lacks A or B", name)
			}
			if s := float64(p.Scale); math.IsNaN(s) || math.IsInf(s, 0) {
				return fmt.Errorf("an adapter of %s has the scale %v; it must be finite", name, p.Scale)
			}
			a, b, r := p.A.Shape(), p.B.Shape(), p.B.Dim(0)
			wantA, wantB := []int64{in, r}, []int64{r, out}
			switch experts := w.Dim(2); {
			case name == tokenEmbd:
				wantA, wantB = []int64{r, out}, []int64{r, in}
			case experts > 1:
				wantA, wantB = append(wantA, experts), append(wantB, experts)
			}
			if !slices.Equal(a, trimmed(wantA)) || !slices.Equal(b, trimmed(wantB)) {
				return fmt.Errorf("an adapter of %s has A %v and B %v instead of %v and %v; %s", name, a, b, wantA, wantB, remedy)
			}
		}
	}
	return nil
}

// The model's items in a memory estimate.
const (
	WeightsPart  = "weights"
	AdaptersPart = "adapters"
)

// AddEstimate adds the weights and the adapters to a memory estimate.
func (m *Model) AddEstimate(to *estimate.Memory, adapters Adapters) error {
	if err := m.CheckAdapters(adapters); err != nil {
		return err
	}
	for _, w := range m.arch.Weights() {
		if x := m.weights[w.Name]; x != nil {
			to.Part(WeightsPart)
			to.Hold(w.Layer, w.Kind, x)
		}
		to.Part(AdaptersPart)
		for _, p := range adapters[w.Name] {
			to.Hold(w.Layer, w.Kind, p.A, p.B)
		}
	}
	return to.Check()
}

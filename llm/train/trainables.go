package train

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/model"
)

// Trainables are the tensors that a run trains, and the frozen adapters that it uses.
type Trainables struct {
	Adapters     model.Adapters // their A and B are trained: F32 tensors on the device of their weight
	Frozen       model.Adapters // further adapters that are not trained
	ModelWeights []*ggml.Tensor // weights of the model to train, F32
}

// params returns the trained tensors: adapters' in the order of the model's weights, then weights.
func (x Trainables) params(m *model.Model, loraPlus float64) ([]parameter, error) {
	var list []parameter
	const matrix = 2 // number of dimensions of A and B; with rank 1 their shape shows fewer
	for _, w := range m.Architecture().Weights() {
		for _, p := range x.Adapters[w.Name] {
			if !p.A.IsAllocated() || !p.B.IsAllocated() {
				return nil, fmt.Errorf("the adapter of %s has no memory: %w", w.Name, ggml.ErrClosed)
			}
			if p.Scale == 0 {
				return nil, fmt.Errorf("the adapter of %s cannot be trained: its scale is 0", w.Name)
			}
			list = append(list, parameter{p.A, w, matrix, 1}, parameter{p.B, w, matrix, cmp.Or(loraPlus, 1)})
		}
	}
	for _, w := range x.ModelWeights {
		own := m.Weight(w.Name())
		switch {
		case own == nil || !w.Is(own):
			return nil, fmt.Errorf("the parameter %v is not a weight of the model", w)
		case m.Repacked():
			return nil, fmt.Errorf("the weight %v cannot be trained: the model was loaded with Repack, so sessions compute with repacked copies; load it without", w)
		case !m.Architecture().Weight(w.Name()).IsTrainable():
			return nil, fmt.Errorf("the weight %v cannot be trained: no gradient flows to it", w)
		}
		list = append(list, parameter{own, m.Architecture().Weight(w.Name()), own.NumDims(), 1})
	}
	return list, checkParams(list)
}

// checkParams checks that parameters are F32 and have unique names, by which checkpoints identify
// them.
func checkParams(params []parameter) error {
	if len(params) == 0 {
		return errors.New("there are no parameters to train")
	}
	seen := map[string]bool{}
	for _, p := range params {
		switch {
		case seen[p.Name()]:
			return fmt.Errorf("%q names two matrices; each parameter needs its own name", p.Name())
		case p.Type() != ggml.F32:
			return fmt.Errorf("the parameter %v cannot be trained: only F32 can", p.Tensor)
		}
		seen[p.Name()] = true
	}
	return nil
}

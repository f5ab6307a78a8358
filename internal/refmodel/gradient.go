package refmodel

import (
	"fmt"
	"maps"
)

// Gradients maps parameter names, as Model.Weight takes them, to dLoss/dparam.
type Gradients map[string]Tensor

// Gradient returns Loss and its exact gradient with respect to the named
// parameters, or with no names to all LoRA matrices. The gradient of a weight
// under an adapter is that of the base weight alone.
func (m *Model) Gradient(batch []Sequence, names ...string) (float64, Gradients, error) {
	total, err := m.checkBatch(batch)
	if err != nil {
		return 0, nil, err
	}
	if len(names) == 0 {
		names = m.LoRANames()
	}
	vars, grads := maps.Clone(m.vars), Gradients{}
	for _, name := range names {
		if name == ropeFreqs {
			return 0, nil, fmt.Errorf("refmodel: no gradient with respect to %s; NumericGradient gives one", name)
		}
		w, err := m.Weight(name)
		if err != nil {
			return 0, nil, err
		}
		grads[name] = Tensor{Ne: w.Ne, Data: make([]float64, len(w.Data))}
		vars[name] = variable(w)
		vars[name].grad = grads[name].Data
	}
	sum := 0.0
	for _, s := range batch {
		f := forward{&tape{}, m, vars, s}
		loss := f.crossEntropy(f.logits(), s)
		sum += loss.data[0]
		if loss.grad != nil {
			loss.grad[0] = 1 / total
		}
		f.backward()
	}
	return sum / total, grads, nil
}

package oracle

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Replay follows a device that computes the graph node by node. It compares each node with its formula on the
// device's own operands, so an error in one node does not affect its readers.
type Replay struct {
	p     *Program
	data  [][]float64
	steps map[ggml.TensorKey]*step
}

// Replay returns a replay that starts with the leaves.
func (p *Program) Replay() *Replay {
	r := &Replay{p, p.begin(), map[ggml.TensorKey]*step{}}
	for i := range p.steps {
		r.steps[p.steps[i].key] = &p.steps[i]
	}
	return r
}

// Next returns the operands of a node as the device has computed them, and the node's result in float64. Later
// nodes read got, the device's result. A view has no value of its own; then ok is false.
func (r *Replay) Next(t *ggml.Tensor, got []float64) (operands []refmath.Tensor, want refmath.Tensor, ok bool) {
	s, ok := r.steps[t.Key()]
	if !ok {
		return nil, refmath.Tensor{}, false
	}
	for _, v := range s.operands {
		x := v.gather(r.data)
		operands = append(operands, x.Clone()) // before a step changes it in place
	}
	want = r.p.compute(s, r.data)
	s.result.scatter(r.data, refmath.Tensor{Ne: want.Ne, Data: got})
	return operands, want, true
}

package oracle

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Replay follows a device that computes the graph, node after node, so that each is held against its formula by
// itself: what is wrong in one is not in those that read it.
type Replay struct {
	p     *Program
	data  [][]float64
	steps map[ggml.TensorKey]*step
}

// Replay begins with the leaves.
func (p *Program) Replay() *Replay {
	r := &Replay{p, p.begin(), map[ggml.TensorKey]*step{}}
	for i := range p.steps {
		r.steps[p.steps[i].key] = &p.steps[i]
	}
	return r
}

// Next gives the operands of a node as the device has computed them, and what the node is of these in float64. Those that
// come read got, which it has computed. A view has no value of its own, and gives false.
func (r *Replay) Next(t *ggml.Tensor, got []float64) (operands []refmath.Tensor, want refmath.Tensor, ok bool) {
	s, ok := r.steps[t.Key()]
	if !ok {
		return nil, refmath.Tensor{}, false
	}
	for _, v := range s.operands {
		x := v.gather(r.data)
		operands = append(operands, x.Clone()) // before a step in place
	}
	want = r.p.compute(s, r.data)
	s.result.scatter(r.data, refmath.Tensor{Ne: want.Ne, Data: got})
	return operands, want, true
}

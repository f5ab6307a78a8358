package oracle

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Replay follows a device that computes the graph node by node. It compares each node with its formula on the
// device's own operands, so an error in one node does not affect its readers.
type Replay struct {
	p        *Program
	data     [][]float64
	steps    map[ggml.TensorKey]*step
	compared map[ggml.TensorKey]bool
	read     map[int]bool // roots that hold operands of compared nodes
}

// Replay returns a replay of a program's graph that starts with the leaves. It compares the selected nodes.
func (p *Program) Replay(g *ggml.Graph, selected func(*ggml.Tensor) bool) *Replay {
	r := &Replay{p, p.begin(), map[ggml.TensorKey]*step{}, map[ggml.TensorKey]bool{}, map[int]bool{}}
	for i := range p.steps {
		r.steps[p.steps[i].key] = &p.steps[i]
	}
	for t := range g.Nodes() {
		s, ok := r.steps[t.Key()]
		if !ok || !selected(t) {
			continue
		}
		r.compared[t.Key()] = true
		for _, v := range s.operands {
			r.read[v.root] = true
		}
	}
	return r
}

// Needs reports whether Next needs the device's result of a node: a compared one, or an operand of one.
func (r *Replay) Needs(t *ggml.Tensor) bool {
	s, ok := r.steps[t.Key()] // a view has no value of its own
	return ok && (r.compared[t.Key()] || r.read[s.result.root])
}

// Next stores got, the device's result of a node, for the nodes that read it. For a compared node it returns the
// operands as the device has computed them, and the result in float64; for others ok is false.
func (r *Replay) Next(t *ggml.Tensor, got []float64) (operands []refmath.Tensor, want refmath.Tensor, ok bool) {
	s := r.steps[t.Key()]
	if r.compared[t.Key()] {
		for _, v := range s.operands {
			x := v.gather(r.data)
			operands = append(operands, x.Clone()) // before a step changes it in place
		}
		want = r.p.compute(s, r.data)
	}
	s.result.scatter(r.data, refmath.Tensor{Ne: s.ne, Data: got})
	return operands, want, r.compared[t.Key()]
}

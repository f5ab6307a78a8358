// Package oracle computes graphs of ggml in float64, with the formulas of package refmath. It reads a graph of
// built-in ops once into a [Program], whose leaves can be changed before each run. Central differences of a
// loss are then exact to nine digits, and check the gradients that a graph computes, for any architecture.
package oracle

import (
	"fmt"
	"reflect"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Program is a graph with the values of its leaves, in float64. It no longer needs the graph, and belongs to
// one goroutine.
type Program struct {
	roots []root
	steps []step
	index map[ggml.TensorKey]int // of roots
	views map[ggml.TensorKey]view
	named map[string][]view // nodes, in graph order

	// RoundGELU computes GELU as ggml's CPU backend does, from a table of F16.
	RoundGELU bool
}

// A root is a tensor that owns data, as opposed to a view.
type root struct {
	size    int64
	leaf    []float64 // its values, if it is a leaf
	written bool      // a step changes this leaf in place
}

// A step computes one node.
type step struct {
	node
	key      ggml.TensorKey
	operands []view
	result   view
}

// A node has what a formula needs to know about an op, except the values of its operands.
type node struct {
	op     string
	params ggml.OpParams
	ne     [4]int64 // of the result
}

// Inputs are the values of leaves by name. Leaves that are not listed are read from their memory.
type Inputs map[string][]float64

// InputsOf returns the inputs that a graph has declared, filled from a feed.
func InputsOf(in *nn.Inputs, f *nn.Feed) Inputs {
	all := Inputs{}
	for x, draw := range in.All() {
		values := reflect.ValueOf(draw(f))
		for i := range values.Len() {
			all[x.Name()] = append(all[x.Name()], values.Index(i).Convert(reflect.TypeFor[float64]()).Float())
		}
	}
	return all
}

// Compile reads a graph of ops that have formulas, and the values of its leaves.
func Compile(g *ggml.Graph, inputs Inputs) (*Program, error) {
	p := &Program{index: map[ggml.TensorKey]int{}, views: map[ggml.TensorKey]view{}, named: map[string][]view{}}
	for leaf := range g.Leaves() {
		if err := p.addLeaf(leaf, inputs); err != nil {
			return nil, err
		}
	}
	for t := range g.Nodes() {
		if err := p.addNode(t); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Program) addLeaf(t *ggml.Tensor, inputs Inputs) error {
	if _, isView := t.ViewSource(); isView {
		return nil // a view; its root is found when it is needed
	}
	_, err := p.rootOf(t, inputs)
	return err
}

// rootOf returns the root of a tensor that is not a view; it adds a new one if necessary.
func (p *Program) rootOf(t *ggml.Tensor, inputs Inputs) (int, error) {
	if i, known := p.index[t.Key()]; known {
		return i, nil
	}
	r := root{size: t.NumElements()}
	if t.Op() == "none" {
		var err error
		if r.leaf, err = leafValues(t, inputs); err != nil {
			return 0, err
		}
	}
	p.roots = append(p.roots, r)
	p.index[t.Key()] = len(p.roots) - 1
	return len(p.roots) - 1, nil
}

func leafValues(t *ggml.Tensor, inputs Inputs) ([]float64, error) {
	if values, ok := inputs[t.Name()]; ok {
		if int64(len(values)) != t.NumElements() {
			return nil, fmt.Errorf("oracle: %d values for %v", len(values), t)
		}
		return values, nil
	}
	if !t.IsAllocated() {
		return nil, fmt.Errorf("oracle: %v has no memory, and no input has its name", t)
	}
	switch t.Type() {
	case ggml.I32:
		values, err := ggml.Read[int32](t)
		return refmath.From(values).Data, err
	case ggml.I64:
		values, err := ggml.Read[int64](t)
		return refmath.From(values).Data, err
	}
	values, err := t.Float32s()
	return refmath.From(values).Data, err
}

func (p *Program) addNode(t *ggml.Tensor) error {
	op := t.Op()
	if op == "none" {
		return nil
	}
	result, err := p.viewOf(t)
	if err != nil {
		return err
	}
	if name := t.Name(); name != "" {
		p.named[name] = append(p.named[name], result)
	}
	if isView[op] {
		return nil
	}
	if formulas[op] == nil {
		return fmt.Errorf("oracle: there is no formula of %s, which makes %v", op, t)
	}
	s := step{node: node{op: op, params: t.OpParams(), ne: shapeOf(t)}, key: t.Key(), result: result}
	for _, source := range t.Sources() {
		v, err := p.viewOf(source)
		if err != nil {
			return err
		}
		s.operands = append(s.operands, v)
	}
	p.roots[result.root].written = true
	p.steps = append(p.steps, s)
	return nil
}

// Leaf returns the values of a leaf, which may be changed before a run; nil if the graph does not read the
// leaf.
func (p *Program) Leaf(t *ggml.Tensor) []float64 {
	i, known := p.index[t.Key()]
	if !known {
		return nil
	}
	return p.roots[i].leaf
}

// Values are the results of a run.
type Values struct {
	p    *Program
	data [][]float64 // by root
}

// Run computes all nodes. Leaves keep their values, even if the graph changes them.
func (p *Program) Run() Values {
	data := p.begin()
	for _, s := range p.steps {
		s.result.scatter(data, p.compute(&s, data))
	}
	return Values{p, data}
}

// begin allocates all roots, with the values of the leaves.
func (p *Program) begin() [][]float64 {
	data := make([][]float64, len(p.roots))
	for i, r := range p.roots {
		switch {
		case r.leaf == nil:
			data[i] = make([]float64, r.size)
		case r.written:
			data[i] = append([]float64(nil), r.leaf...)
		default:
			data[i] = r.leaf
		}
	}
	return data
}

// compute returns the result of a step.
func (p *Program) compute(s *step, data [][]float64) refmath.Tensor {
	var x []refmath.Tensor
	for _, v := range s.operands {
		x = append(x, v.gather(data))
	}
	compute := formulas[s.op]
	if rounded, ok := roundedGELU[s.op]; ok && p.RoundGELU {
		compute = rounded
	}
	return compute(&s.node, x)
}

// Of returns the values of a tensor of the graph.
func (v Values) Of(t *ggml.Tensor) (refmath.Tensor, error) {
	of, known := v.p.views[t.Key()]
	if !known {
		i, leaf := v.p.index[t.Key()]
		if !leaf {
			return refmath.Tensor{}, fmt.Errorf("oracle: %v is not in the graph", t)
		}
		return refmath.Tensor{Ne: shapeOf(t), Data: v.data[i]}, nil
	}
	return of.gather(v.data), nil
}

// Named returns the values of all nodes with a name, concatenated.
func (v Values) Named(name string) []float64 {
	var list []float64
	for _, of := range v.p.named[name] {
		list = append(list, of.gather(v.data).Data...)
	}
	return list
}

func shapeOf(t *ggml.Tensor) [4]int64 { return [4]int64{t.Dim(0), t.Dim(1), t.Dim(2), t.Dim(3)} }

package gpucost

import (
	"cmp"
	"slices"

	"github.com/goggml/ggml"
)

// A Work is the cost of a node.
type Work struct {
	Kind  Kind
	Op    string
	FLOPs float64 // of a product
	Depth int64   // the length of both operands' columns
	BF16  bool    // of which both operands are
	Bytes int64   // read and written, of what is not in a cache
}

// views are ops that compute nothing.
var views = []string{"none", "view", "reshape", "permute", "transpose"}

// Of returns the work of graphs that are computed one after the other, as ggml's CUDA plugin does it; all but the first
// belong to the optimiser. A product with a matrix in BF16 rounds the other operand by a kernel of its own, and a norm
// multiplies by its weight.
func Of(s Shape, graphs ...*ggml.Graph) []Work {
	var work []Work
	for i, g := range graphs {
		nodes := computed(g)
		of := kindsOf(s, nodes)
		for j, t := range nodes {
			w := Work{Kind: of[j], Op: t.Op(), Bytes: moved(t)}
			if i > 0 {
				w.Kind = Update
			}
			switch {
			case isProduct(t):
				a, b := t.Sources()[0], t.Sources()[1]
				w.FLOPs, w.Depth = flops(t), depth(t)
				w.BF16 = a.Type() == ggml.BF16
				if w.BF16 && b.Type() == ggml.F32 {
					w.Bytes -= 2 * b.NumElements()
					work = append(work, Work{Kind: Casts, Op: "cpy", Bytes: 6 * b.NumElements()})
				}
			case isScaledNorm(t):
				continue
			}
			work = append(work, w)
		}
	}
	return work
}

// computed lists the nodes that are more than views.
func computed(g *ggml.Graph) []*ggml.Tensor {
	return slices.DeleteFunc(slices.Collect(g.Nodes()), isView)
}

func isView(t *ggml.Tensor) bool { return slices.Contains(views, t.Op()) }

// isScaledNorm reports whether a node multiplies a norm by a vector.
func isScaledNorm(t *ggml.Tensor) bool {
	return t.Op() == "mul" && t.Sources()[0].Op() == "rms_norm" && t.Sources()[1].NumRows() == 1
}

// flops returns the FLOPs of a product.
func flops(t *ggml.Tensor) float64 { return 2 * float64(t.NumElements()) * float64(depth(t)) }

// depth is over how many products of numbers each of a product adds up.
func depth(t *ggml.Tensor) int64 {
	if t.Op() == "out_prod" {
		return t.Sources()[0].Dim(1)
	}
	return t.Sources()[0].Dim(0)
}

// size returns the bytes of a tensor, possibly a view, that are read or written.
func size(t *ggml.Tensor) int64 { return t.Type().RowSize(t.Dim(0)) * t.NumRows() }

// moved are the bytes that a node reads and writes.
func moved(t *ggml.Tensor) int64 {
	sources := t.Sources()
	switch t.Op() {
	case "fill", "arange":
		return size(t)
	case "get_rows": // some of all
		return sources[0].Type().RowSize(t.Dim(0))*t.NumRows() + size(sources[1]) + size(t)
	case "set_rows": // into what is there
		return 2*size(sources[0]) + size(sources[1])
	case "cpy": // the second operand is where to
		return size(sources[0]) + size(t)
	case "set": // a part of what is there, or of a copy
		bytes := 2 * size(sources[1])
		if !t.IsView() {
			bytes += 2 * size(t)
		}
		return bytes
	case "opt_step_adamw":
		return 7 * size(sources[0]) // the parameter and two moments are written, too
	}
	bytes := size(t)
	for i, s := range sources {
		if !slices.ContainsFunc(sources[:i], s.Is) {
			bytes += size(s)
		}
	}
	return bytes
}

// An OpWork is the work of all nodes of an op that are for the same.
type OpWork struct {
	Work
	Nodes   int
	Seconds float64 // on a card
}

// ByOp adds up what the nodes of each op take, and lists those that take longest first.
func (c Card) ByOp(work []Work) []OpWork {
	var list []OpWork
	for _, w := range work {
		i := slices.IndexFunc(list, func(o OpWork) bool { return o.Kind == w.Kind && o.Op == w.Op && o.BF16 == w.BF16 })
		if i < 0 {
			i = len(list)
			list = append(list, OpWork{Work: Work{Kind: w.Kind, Op: w.Op, BF16: w.BF16}})
		}
		o := &list[i]
		o.Nodes++
		o.Bytes += w.Bytes
		o.FLOPs += w.FLOPs
		o.Seconds += c.seconds(w)
	}
	slices.SortStableFunc(list, func(a, b OpWork) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return list
}

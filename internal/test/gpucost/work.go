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
	Depth int64   // length of the sum: ne0 of both operands
	BF16  bool    // both operands are BF16
	Bytes int64   // read and written outside of caches
}

// views lists ops that compute nothing.
var views = []string{"none", "view", "reshape", "permute", "transpose"}

// Of returns the work of graphs computed one after another, as ggml's CUDA plugin does it; all
// except the first belong to the optimiser. A product with a BF16 matrix rounds the other operand
// in a separate kernel, and a norm multiplies by its weight.
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

// computed lists the nodes other than views.
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

// depth returns the number of products that each element of a product sums.
func depth(t *ggml.Tensor) int64 {
	if t.Op() == "out_prod" {
		return t.Sources()[0].Dim(1)
	}
	return t.Sources()[0].Dim(0)
}

// size returns the bytes read or written of a tensor or view.
func size(t *ggml.Tensor) int64 { return t.Type().RowSize(t.Dim(0)) * t.NumRows() }

// moved returns the bytes that a node reads and writes.
func moved(t *ggml.Tensor) int64 {
	sources := t.Sources()
	switch t.Op() {
	case "fill", "arange":
		return size(t)
	case "get_rows": // reads some of the rows
		return sources[0].Type().RowSize(t.Dim(0))*t.NumRows() + size(sources[1]) + size(t)
	case "set_rows": // writes into existing rows
		return 2*size(sources[0]) + size(sources[1])
	case "cpy": // the second operand is the destination
		return size(sources[0]) + size(t)
	case "set": // writes a part of the operand, or of a copy
		bytes := 2 * size(sources[1])
		if !t.IsView() {
			bytes += 2 * size(t)
		}
		return bytes
	case "opt_step_adamw":
		return 7 * size(sources[0]) // the parameter and two moments are also written
	}
	bytes := size(t)
	for i, s := range sources {
		if !slices.ContainsFunc(sources[:i], s.Is) {
			bytes += size(s)
		}
	}
	return bytes
}

// An OpWork is the work of all nodes with the same op and kind.
type OpWork struct {
	Work
	Nodes   int
	Seconds float64 // on a card
}

// ByOp sums the work of the nodes by op, and lists the slowest first.
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

package nn

import (
	"cmp"
	"maps"
	"slices"

	"github.com/goggml/ggml"
)

// A Recomputation says which results of layers checkpoints keep; the backward pass recomputes the others. The zero value
// keeps none. [Recomputation.Results] lists what a graph recomputes, to choose from.
type Recomputation struct {
	Keep   []KeptResult
	graph  *ggml.Graph
	layers []*recomputed // that the tape has passed
}

// A KeptResult names a result of a layer, or all of them.
type KeptResult struct {
	Layer int
	Call  int // number of the result in the order in which the layer computes them; AllResults: all
	// Bytes is the memory that the result takes until the backward pass, and Cost the work that keeping it
	// saves: in floating-point operations of matrix products, which run at a processor's full rate.
	Bytes int64
	Cost  float64
}

// AllResults is the Call of all results of a layer.
const AllResults = -1

// recomputed is a layer that recomputes some of its results in the backward pass.
type recomputed struct {
	layer   int
	kept    map[int]bool
	from    int // number of nodes of the graph before the layer is recomputed
	results []notedResult
}

// A notedResult is a result of a recomputed layer, which the backward pass need not read.
type notedResult struct {
	call int
	x    *ggml.Tensor
}

// memo returns where the results of a layer are kept, for its tokens; nil if all are.
func (r *Recomputation) memo(g *ggml.Graph, layer int, tokens columnRange) *memoCursor {
	if r == nil {
		return nil
	}
	r.graph = g
	of := &recomputed{layer: layer, kept: map[int]bool{}}
	for _, k := range r.Keep {
		if k.Layer == layer {
			of.kept[k.Call] = true
		}
	}
	if of.kept[AllResults] {
		return nil
	}
	r.layers = append(r.layers, of)
	return &memoCursor{memo: &memo{of: of, calls: map[callOf]*ggml.Tensor{}}, tokens: tokens}
}

// perByte is the work of reading or writing a byte, in operations of matrix products. Results that save less than cheap for
// each of their bytes are kept together, after all others: norms, activations and rotations.
const perByte, cheap = 10, 64

// Results lists the results that a graph recomputes. First come results that save most work for a byte of memory; of equal
// ones, results of the last layers, whose memory the backward pass frees first.
func (r *Recomputation) Results() []KeptResult {
	if r == nil || r.graph == nil {
		return nil
	}
	at, i := map[ggml.TensorKey]int{}, 0
	for x := range r.graph.Nodes() {
		at[x.Key()] = i
		i++
	}
	var list []KeptResult
	for _, of := range r.layers {
		list = append(list, of.list(at)...)
	}
	slices.SortStableFunc(list, func(a, b KeptResult) int {
		return cmp.Or(cmp.Compare(b.worth(), a.worth()), cmp.Compare(b.Layer, a.Layer))
	})
	return list
}

// Worth returns the results that are worth keeping in so many bytes, and the share of the work that is then left.
func (r *Recomputation) Worth(bytes int64) (kept []KeptResult, left float64) {
	list := r.Results()
	n, all := 0, 0.0
	for i, k := range list {
		all += k.Cost
		if bytes -= k.Bytes; bytes >= 0 {
			n = i + 1
		}
	}
	for _, k := range list[n:] {
		left += k.Cost
	}
	return list[:n], left / max(1, all)
}

func (k KeptResult) worth() float64 { return k.Cost / float64(max(1, k.Bytes)) }

// list returns the layer's results by themselves, then the cheap ones together.
func (r *recomputed) list(at map[ggml.TensorKey]int) []KeptResult {
	byCall, passed := map[int]KeptResult{}, map[ggml.TensorKey]bool{}
	for _, n := range r.results {
		if _, isRead := at[n.x.Key()]; !isRead {
			continue
		}
		k := byCall[n.call]
		byCall[n.call] = KeptResult{r.layer, n.call, k.Bytes + n.x.NumBytes(), k.Cost + r.workOf(n.x, at, passed)}
	}
	rest := KeptResult{Layer: r.layer, Call: AllResults}
	var list []KeptResult
	for _, call := range slices.Sorted(maps.Keys(byCall)) {
		switch k := byCall[call]; {
		case k.worth() > cheap:
			list = append(list, k)
		case k.Cost > 0: // no view
			rest.Bytes, rest.Cost = rest.Bytes+k.Bytes, rest.Cost+k.Cost
		}
	}
	return append(list, rest)
}

// workOf returns the work of recomputing x from results that have been passed.
func (r *recomputed) workOf(x *ggml.Tensor, at map[ggml.TensorKey]int, passed map[ggml.TensorKey]bool) (work float64) {
	if i, found := at[x.Key()]; !found || i < r.from || passed[x.Key()] {
		return 0
	}
	passed[x.Key()] = true
	for _, source := range x.Sources() {
		work += r.workOf(source, at, passed)
		if !x.IsView() {
			work += perByte * float64(source.NumBytes())
		}
	}
	if x.IsView() {
		return work
	}
	return work + x.FLOPs() + perByte*float64(x.NumBytes())
}

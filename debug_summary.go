package ggml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A GraphSummary counts the nodes and FLOPs of a graph; see [Graph.Summary].
type GraphSummary struct {
	Nodes  int         // computed tensors
	Leaves int         // tensors that are only read
	FLOPs  float64     // floating-point operations of one compute, an estimate
	Ops    []OpSummary // sorted by FLOPs, highest first, then by count and name
}

// An OpSummary counts the nodes of one op.
type OpSummary struct {
	Op    string  // see [Tensor.Op]
	Count int     // number of nodes
	FLOPs float64 // of all these nodes, an estimate
}

// Summary counts the ops of the graph. The FLOPs are an estimate: exact for matrix products and
// attention (a multiplication and an addition are two), as a [NativeOp] declares, none for views
// and copies, and one per element of the result for other ops. It is empty if a context that the
// graph needs is closed.
func (g *Graph) Summary() GraphSummary {
	nodes, leaves := g.contents()
	s := GraphSummary{Nodes: len(nodes), Leaves: len(leaves)}
	at := map[string]int{}
	for _, t := range nodes {
		op := t.Op()
		i, found := at[op]
		if !found {
			i = len(s.Ops)
			at[op] = i
			s.Ops = append(s.Ops, OpSummary{Op: op})
		}
		flops := t.flops(op)
		s.Ops[i].Count++
		s.Ops[i].FLOPs += flops
		s.FLOPs += flops
	}
	slices.SortFunc(s.Ops, func(a, b OpSummary) int {
		return cmp.Or(cmp.Compare(b.FLOPs, a.FLOPs), cmp.Compare(b.Count, a.Count), strings.Compare(a.Op, b.Op))
	})
	return s
}

// FLOPs returns the floating-point operations of computing the tensor from its sources, an estimate; see
// [Graph.Summary]. It is 0 for tensors that are only read, and after the context has been closed.
func (t *Tensor) FLOPs() float64 { return t.flops(t.Op()) }

func (t *Tensor) flops(op string) float64 {
	if flops, native := t.nativeFLOPs(); native {
		return flops
	}
	elements := float64(t.NumElements())
	sources := t.Sources()
	switch {
	case len(sources) < 2 && (op == "mul_mat" || op == "mul_mat_id" || op == "out_prod"),
		len(sources) < 3 && op == "flash_attn_ext":
		return 0 // closed meanwhile
	}
	switch op {
	case "none", "view", "reshape", "permute", "transpose", "cont", "cpy", "dup", "get_rows", "set_rows", "concat", "repeat", "set":
		return 0
	case "mul_mat", "mul_mat_id":
		return 2 * elements * float64(sources[0].Dim(0))
	case "out_prod":
		return 2 * elements * float64(sources[0].Dim(1))
	case "flash_attn_ext":
		q, k, v := sources[0], sources[1], sources[2]
		scores := float64(q.NumRows()) * float64(k.Dim(1))
		return 2 * scores * float64(q.Dim(0)+v.Dim(0))
	}
	return elements
}

// String returns the summary as a table, one op per line.
func (s GraphSummary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, %d leaves, %s\n", s.Nodes, s.Leaves, metric(s.FLOPs, "FLOP"))
	width := 0
	for _, op := range s.Ops {
		width = max(width, len(op.Op))
	}
	for _, op := range s.Ops {
		fmt.Fprintf(&b, "%-*s %6d  %s\n", width, op.Op, op.Count, metric(op.FLOPs, "FLOP"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// metric formats a number with three digits and a metric prefix.
func metric(x float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for x >= 999.5 && i < len(prefixes)-1 {
		x /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s%s", x, prefixes[i], unit)
}

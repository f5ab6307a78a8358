package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/parallel"
)

// A reduction sums the gradients of a step over a group while the backward pass of the last batch is
// still running: in a few parts, the last layers first. A nil reduction is for a single process, and
// does nothing.
type reduction struct {
	group   parallel.Group
	parts   []gradPart
	running bool
	ctx     context.Context // context of the step
	begun   int             // number of parts whose all-reduce has begun
	waits   []func() error
}

// A gradPart is a set of gradients that are all-reduced together.
type gradPart struct {
	grads    []*ggml.Tensor
	complete bool // on this process
}

// Each part has about a quarter of all gradients: the last part, whose all-reduce overlaps with no
// computation, should be small. Parts below leastGradPart are not worth a call.
var (
	gradParts     = 4
	leastGradPart = int64(1 << 20) // bytes
)

func newReduction(g parallel.Group, o *optimizer) *reduction {
	if g.Size() == 1 {
		return nil
	}
	return &reduction{group: g, parts: divideGrads(o)}
}

// divideGrads divides the gradients into parts by layer, the last layer first. Gradients outside of
// layers, such as the embedding's, are complete last.
func divideGrads(o *optimizer) []gradPart {
	total := int64(0)
	params := slices.Clone(o.params)
	for _, p := range params {
		total += o.grad[p.Tensor].NumBytes()
	}
	slices.SortStableFunc(params, func(a, b parameter) int { return cmp.Compare(b.weight.Layer, a.weight.Layer) })
	most := max(leastGradPart, (total+int64(gradParts)-1)/int64(gradParts))
	var parts []gradPart
	size := most
	for i, p := range params {
		if size >= most && (i == 0 || p.weight.Layer != params[i-1].weight.Layer) {
			parts, size = append(parts, gradPart{}), 0
		}
		last := &parts[len(parts)-1]
		last.grads = append(last.grads, o.grad[p.Tensor])
		size += o.grad[p.Tensor].NumBytes()
	}
	return parts
}

// hooks returns gradient hooks that mark parts as complete.
func (r *reduction) hooks() []lossgraph.Hook {
	if r == nil {
		return nil
	}
	list := make([]lossgraph.Hook, len(r.parts))
	for i := range r.parts {
		list[i] = lossgraph.Hook{Grads: r.parts[i].grads, Call: func() error {
			r.parts[i].complete = true
			r.advance()
			return nil
		}}
	}
	return list
}

// begin allows the all-reduce of each part to begin as soon as it is complete.
func (r *reduction) begin(ctx context.Context) {
	if r == nil {
		return
	}
	r.running, r.ctx, r.begun, r.waits = true, ctx, 0, nil
	for i := range r.parts {
		r.parts[i].complete = false
	}
}

// advance begins the all-reduce of complete parts, in the same order on all ranks.
func (r *reduction) advance() {
	for r.running && r.begun < len(r.parts) && r.parts[r.begun].complete {
		r.waits = append(r.waits, r.group.AllReduceGrads(r.ctx, r.parts[r.begun].grads))
		r.begun++
	}
}

// end begins the all-reduce of the remaining parts, even after an error, because the other ranks wait
// for them. The returned function waits for all sums.
func (r *reduction) end(ctx context.Context) (wait func() error) {
	if !r.running { // this process had no batch
		r.begin(ctx)
	}
	for i := range r.parts {
		r.parts[i].complete = true
	}
	r.advance()
	r.running = false
	return func() (err error) {
		for _, wait := range r.waits {
			if e := wait(); err == nil {
				err = e
			}
		}
		return err
	}
}

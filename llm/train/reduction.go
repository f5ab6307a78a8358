package train

import (
	"cmp"
	"context"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/parallel"
)

// A reduction adds up the gradients of a step over a group while the backward pass of its last batch
// goes on: in some parts, the last layers first. A nil reduction is for a single process, and does
// nothing.
type reduction struct {
	group   parallel.Group
	parts   []gradPart
	running bool
	ctx     context.Context // of the step
	begun   int             // parts that are under way
	waits   []func() error
}

// A gradPart are gradients that are added up together.
type gradPart struct {
	grads    []*ggml.Tensor
	complete bool // in this process
}

// Each part has a quarter of all gradients: the last part, beside which nothing is computed, should
// be small. Parts below a size are not worth a call.
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

// divideGrads divides the gradients by layers, from the last on; gradients of no layer, such as the
// embedding's, are complete last.
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

// hooks note which parts are complete.
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

// begin lets parts be added up as soon as they are complete.
func (r *reduction) begin(ctx context.Context) {
	if r == nil {
		return
	}
	r.running, r.ctx, r.begun, r.waits = true, ctx, 0, nil
	for i := range r.parts {
		r.parts[i].complete = false
	}
}

// advance begins with the parts that are complete, in the order that all ranks have.
func (r *reduction) advance() {
	for r.running && r.begun < len(r.parts) && r.parts[r.begun].complete {
		r.waits = append(r.waits, r.group.AllReduceGrads(r.ctx, r.parts[r.begun].grads))
		r.begun++
	}
}

// end begins with what is left, whatever has happened to it. What it returns waits for the sums.
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

package nn

import "github.com/goggml/ggml"

// Checkpoint computes f, a layer. Of its intermediate results it keeps those that [Tape.Recompute] names, and the saved
// tensors ([Tape.Saved]); the backward pass computes the others again from x (gradient checkpointing, arXiv 1604.06174;
// selective recomputation, arXiv 2205.05198). Gradients are the same whatever is kept.
func (t *Tape) Checkpoint(x *Value, layer int, f func(t *Tape, x *Value) *Value) *Value {
	if !t.Training() {
		return f(t, x)
	}
	own := t.fork()
	own.shown, own.memo = &exposures{}, t.Recompute.memo(t.Graph, layer, t.tokensOf(x))
	y, back := own.run(x, own.memo, f)
	// The graph is in order of use: the recomputation must not be pulled
	// forward to where x is computed.
	t.Graph.Expand(y.T)
	t.record(y, func(dy *ggml.Tensor) {
		t.Graph.Expand(dy) // before f is recomputed, and so at once below: what it needs is free then
		own.memo.begins(t.Graph)
		if dx := back(dy); dx != nil {
			t.Graph.Expand(dx)
			t.flow(x, func() *ggml.Tensor { return dx })
		}
	})
	return y
}

// run computes f. back returns the gradient of x, or nil, given the gradient of f's result. It computes f again, with the
// results of the memo; without a memo all results are kept.
func (t *Tape) run(x *Value, memo *memoCursor, f func(t *Tape, x *Value) *Value) (y *Value, back func(dy *ggml.Tensor) *ggml.Tensor) {
	own, in := t.fork(), &Value{T: x.T, needsGrad: x.needsGrad}
	if memo == nil {
		made := f(own, in)
		return &Value{T: made.T, needsGrad: made.needsGrad}, func(dy *ggml.Tensor) *ggml.Tensor { return own.backward(made, in, dy) }
	}
	first, forward := *memo, t.fork()
	forward.noGrad, forward.memo = true, memo
	made := f(forward, x)
	return &Value{T: made.T, needsGrad: made.needsGrad}, func(dy *ggml.Tensor) *ggml.Tensor {
		first.recompute, own.memo = true, &first
		again := f(own, in)
		first.ended = true
		return own.backward(again, in, dy)
	}
}

// backward runs the steps of a function, and returns the gradient of x, given the gradient of its result y.
func (t *Tape) backward(y, x *Value, dy *ggml.Tensor) *ggml.Tensor {
	t.shown.flow(t)
	y.grad = dy
	t.Backward()
	return t.gradient(x)
}

// Reused is x for a use far from where it is computed: what flows back is added up at once, so that
// what it is made of is free again.
func (t *Tape) Reused(x *Value) *Value {
	y := &Value{T: x.T, needsGrad: x.needsGrad}
	t.record(y, func(dy *ggml.Tensor) {
		t.addTo(x, dy)
		t.Graph.Expand(x.grad)
	})
	return y
}

// Chunked computes an f that makes of each column of x [m, n] one of the result, on so many at a time. What of f's
// intermediate results is not kept exists for one chunk. A size of 0 is all.
func (t *Tape) Chunked(x *Value, size int64, f func(t *Tape, x *Value) *Value) *Value {
	n := x.T.Dim(1)
	if size == 0 || n <= size {
		return f(t, x)
	}
	y := &Value{}
	var backs []func(dy *ggml.Tensor) *ggml.Tensor
	var last *memoCursor
	all := chunks(n, size)
	for _, r := range all {
		last = t.memo.of(columnRange{t.column + r.from, t.column + r.to})
		part, back := t.at(r).run(&Value{T: columns(t.C, x.T, r), needsGrad: x.needsGrad}, last, f)
		y.T, y.needsGrad = putColumns(t.C, y.T, part.T, x.T, r), part.needsGrad
		backs = append(backs, back)
	}
	t.memo.passed(last)
	t.record(y, func(dy *ggml.Tensor) {
		dx := dy // which is of y alone: a chunk's gradient takes the place of what it was computed from
		for i, r := range all {
			if part := backs[i](columns(t.C, dx, r)); part != nil {
				dx = putColumns(t.C, dx, part, x.T, r)
				t.Graph.Expand(dx)
			}
		}
		t.flow(x, func() *ggml.Tensor { return dx })
	})
	return y
}

// A columnRange is the columns from and up to, not including, to.
type columnRange struct{ from, to int64 }

// tokensOf returns the tokens of the batch that x has.
func (t *Tape) tokensOf(x *Value) columnRange { return columnRange{t.column, t.column + x.T.Dim(1)} }

// chunks divides n columns into ranges of a size, at least one: what stands for a failed op has none.
func chunks(n, size int64) []columnRange {
	var list []columnRange
	for from := int64(0); from == 0 || from < n; from += size {
		list = append(list, columnRange{from, min(from+size, n)})
	}
	return list
}

// columns is a view of some columns of x [m, n].
func columns(c *ggml.Context, x *ggml.Tensor, r columnRange) *ggml.Tensor {
	return c.View(x, []int64{x.Dim(0), r.to - r.from}, nil, r.from*x.Stride(1))
}

// MaxColumns is how many columns of width F32 elements are put together of chunks: ggml's
// SET takes offsets of less than 1 GiB.
func MaxColumns(width int) int { return (1 << 30) / (4 * width) }

// putColumns writes columns of x, in place; a nil x is made, of the shape of
// like.
func putColumns(c *ggml.Context, x, part, like *ggml.Tensor, r columnRange) *ggml.Tensor {
	switch {
	case r.from == 0 && r.to == like.Dim(1):
		return part
	case x == nil:
		x = c.Fill(like, 0)
	}
	return c.SetInPlace(x, part, [3]int64{x.Stride(1), x.Stride(2), x.Stride(3)}, r.from*x.Stride(1))
}

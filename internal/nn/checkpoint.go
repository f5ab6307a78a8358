package nn

import "github.com/goggml/ggml"

// KeepInputs makes room for the inputs of checkpoints, one for each layer.
func (t *Tape) KeepInputs(layers ...int) {
	t.store = activationStore{}
	for _, i := range layers {
		l := t.On(i, "").Lowering
		if t.store[l] == nil {
			t.store[l] = &residuals{}
		}
		t.store[l].inputs++
	}
}

// Checkpoint computes f without keeping its intermediate results, except saved tensors
// ([Tape.Saved]); the backward pass computes them again from x (gradient checkpointing, arXiv
// 1604.06174). It needs [Tape.KeepInputs].
func (t *Tape) Checkpoint(x *Value, f func(t *Tape, x *Value) *Value) *Value {
	if !t.Training() {
		return f(t, x)
	}
	restore, first := Keep.Build(t, x.T), t.newMemo(x)
	memo := first
	y := t.forward(x, &memo, f)
	// The graph is in order of use: the recomputation must not be pulled
	// forward to where x is computed.
	t.Graph.Expand(y.T)
	t.record(y, func(dy *ggml.Tensor) {
		t.Graph.Expand(dy) // before f is recomputed, and so at once below: what it needs is free then
		from := &Value{T: restore(), needsGrad: x.needsGrad}
		if dx := t.recompute(from, dy, first, f); dx != nil {
			t.Graph.Expand(dx)
			t.flow(x, func() *ggml.Tensor { return dx })
		}
	})
	return y
}

// forward computes f without a record of it, but for what it computes once.
func (t *Tape) forward(x *Value, memo *memoCursor, f func(t *Tape, x *Value) *Value) *Value {
	forward := t.fork()
	forward.noGrad, forward.memo = true, memo
	y := f(forward, x)
	return &Value{T: y.T, needsGrad: y.needsGrad}
}

// recompute computes f, and the gradient of x from the gradient of f's result; nil if there is
// none.
func (t *Tape) recompute(x *Value, dy *ggml.Tensor, memo memoCursor, f func(t *Tape, x *Value) *Value) *ggml.Tensor {
	memo.recompute = true
	own := t.fork()
	own.memo = &memo
	in := &Value{T: x.T, needsGrad: x.needsGrad}
	f(own, in).grad = dy
	own.Backward()
	return own.gradient(in)
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

// Chunked computes an f that makes of each column of x [m, n] one of the result, on
// so many at a time, and recomputes each chunk in the backward pass: f's intermediate
// results exist for one chunk. The weights are converted once more for each, so
// the forward pass, which keeps less, takes twice the chunk. A size of 0 is all.
func (t *Tape) Chunked(x *Value, size int64, f func(t *Tape, x *Value) *Value) *Value {
	n := x.T.Dim(1)
	if size == 0 || n <= size {
		return f(t, x)
	}
	first := t.newMemo(x)
	if t.memo != nil {
		first = *t.memo
	}
	memo := func(r columnRange) memoCursor {
		m := first
		m.tokens = columnRange{t.column + r.from, t.column + r.to}
		return m
	}
	y, last := &Value{}, first
	for _, r := range chunks(n, 2*size) {
		last = memo(r)
		part := t.at(r).forward(&Value{T: columns(t.C, x.T, r), needsGrad: x.needsGrad}, &last, f)
		y.T, y.needsGrad = putColumns(t.C, y.T, part.T, x.T, r), part.needsGrad
	}
	if t.memo != nil {
		t.memo.call = last.call
	}
	t.record(y, func(dy *ggml.Tensor) {
		dx := dy // which is of y alone: a chunk's gradient takes the place of what it was computed from
		for _, r := range chunks(n, size) {
			part := t.at(r).recompute(&Value{T: columns(t.C, x.T, r), needsGrad: x.needsGrad}, columns(t.C, dx, r), memo(r), f)
			if part != nil {
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

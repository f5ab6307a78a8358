package model

import "github.com/goggml/ggml"

// checkpoint computes f without keeping its intermediate results; the backward
// pass computes them again from x.
func (t *tape) checkpoint(x *Var, f func(t *tape, x *Var) *Var) *Var {
	if !t.training() {
		return f(t, x)
	}
	restore := t.inputs.keep(x.T)
	y := t.forward(x, f)
	// The graph is in order of use: the recomputation must not be pulled
	// forward to where x is computed.
	t.g.Expand(y.T)
	t.record(y, func(dy *ggml.Tensor) {
		t.g.Expand(dy) // before f is computed again, and so at once below: what it needs is free then
		from := &Var{T: restore(), needs: x.needs}
		if dx := t.again(from, dy, f); dx != nil {
			t.g.Expand(dx)
			t.flow(x, func() *ggml.Tensor { return dx })
		}
	})
	return y
}

// forward computes f without a record of it.
func (t *tape) forward(x *Var, f func(t *tape, x *Var) *Var) *Var {
	forward := *t
	forward.off = true
	y := f(&forward, x)
	return &Var{T: y.T, needs: y.needs}
}

// again computes f, and the gradient of x from that of its result; nil if there
// is none.
func (t *tape) again(x *Var, dy *ggml.Tensor, f func(t *tape, x *Var) *Var) *ggml.Tensor {
	again := *t
	again.steps = nil
	in := &Var{T: x.T, needs: x.needs}
	f(&again, in).grad = dy
	again.backward()
	return again.gradient(in)
}

// inPieces computes an f that makes of each column of x [m, n] one of the result, on
// so many at a time, and each piece again in the backward pass: f's intermediate
// results exist for one piece. The weights are converted once more for each, so
// the forward pass, which keeps less, takes twice the piece. A size of 0 is all.
func (t *tape) inPieces(x *Var, size int64, f func(t *tape, x *Var) *Var) *Var {
	n := x.T.Dim(1)
	if size == 0 || n <= size {
		return f(t, x)
	}
	y := &Var{}
	for _, s := range cut(n, 2*size) {
		part := t.forward(&Var{T: columns(t.c, x.T, s), needs: x.needs}, f)
		y.T, y.needs = putColumns(t.c, y.T, part.T, x.T, s), part.needs
	}
	t.record(y, func(dy *ggml.Tensor) {
		dx := dy // which is of y alone: a piece's gradient takes the place of what it was computed from
		for _, s := range cut(n, size) {
			part := t.again(&Var{T: columns(t.c, x.T, s), needs: x.needs}, columns(t.c, dx, s), f)
			if part != nil {
				dx = putColumns(t.c, dx, part, x.T, s)
				t.g.Expand(dx)
			}
		}
		t.flow(x, func() *ggml.Tensor { return dx })
	})
	return y
}

// A span is the positions from and up to, not including, to.
type span struct{ from, to int64 }

// cut divides n positions into spans of a size.
func cut(n, size int64) []span {
	var list []span
	for from := int64(0); from < n; from += size {
		list = append(list, span{from, min(from+size, n)})
	}
	return list
}

// columns is a view of some columns of x [m, n].
func columns(c *ggml.Context, x *ggml.Tensor, s span) *ggml.Tensor {
	return c.View(x, []int64{x.Dim(0), s.to - s.from}, nil, s.from*x.Stride(1))
}

// putColumns writes columns of x, in place; a nil x is made, of the shape of
// like.
func putColumns(c *ggml.Context, x, part, like *ggml.Tensor, s span) *ggml.Tensor {
	switch {
	case s.from == 0 && s.to == like.Dim(1):
		return part
	case x == nil:
		x = c.Fill(like, 0)
	}
	return c.SetInPlace(x, part, [3]int64{x.Stride(1), x.Stride(2), x.Stride(3)}, s.from*x.Stride(1))
}

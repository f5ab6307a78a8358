package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
)

// Add returns x + y.
func (t *Tape) Add(x, y *Value) *Value {
	return t.Op(t.C.Add(x.T, y.T), func(d *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{d, d} }, x, y)
}

// Sub returns x − y.
func (t *Tape) Sub(x, y *Value) *Value {
	return t.Op(t.C.Sub(x.T, y.T), func(d *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{d, t.C.Neg(d)} }, x, y)
}

// Scale returns s·x; 0 and 1 stand for x itself.
func (t *Tape) Scale(x *Value, s float32) *Value {
	if s == 0 || s == 1 {
		return x
	}
	return t.Op(t.C.Scale(x.T, s), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.C.Scale(dy, s)} }, x)
}

// MulInput returns x · s for an input s that is repeated to x's shape.
func (t *Tape) MulInput(x *Value, s *ggml.Tensor) *Value {
	return t.Op(t.C.Mul(x.T, s), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.C.Mul(dy, s)} }, x)
}

// Hide makes the rows [from, to) of logits z the least number. A softmax gives them no weight, so they have no gradient,
// except as targets.
func (t *Tape) Hide(z *Value, from, to int) *Value {
	least := Declare(t.Inputs, fmt.Sprintf("hidden rows %d to %d", from, to), ggml.F32, []int64{z.T.Dim(0)}, func(_ *Feed, x []float32) {
		for i := from; i < to; i++ {
			x[i] = -math.MaxFloat32 // any logit disappears in the sum
		}
	})
	return t.Op(t.C.Add(z.T, least), func(dz *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{dz} }, z)
}

// Softcap limits x to ±limit: limit · tanh(x / limit); 0 stands for no limit.
func (t *Tape) Softcap(x *Value, limit float32) *Value {
	if limit == 0 {
		return x
	}
	c := t.C
	bent := c.Tanh(c.Scale(x.T, 1/limit))
	return t.Op(c.Scale(bent, limit), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.Mul(dy, c.ScaleBias(c.Sqr(bent), -1, 1))}
	}, x)
}

// Split divides the rows of x [Σ sizes, n] → [size, n] each, as views.
func (t *Tape) Split(x *Value, sizes ...int64) []*Value {
	var parts []*Value
	from := int64(0)
	for _, size := range sizes {
		part := t.C.View(x.T, []int64{size, x.T.Dim(1)}, []int64{x.T.Stride(1)}, from*x.T.Stride(0))
		parts = append(parts, &Value{T: part, needsGrad: x.needsGrad})
		from += size
	}
	if t.Training() && x.needsGrad {
		t.step(func() { t.flow(x, func() *ggml.Tensor { return t.joinGradients(parts) }) })
	}
	return parts
}

// SplitGroups divides each of the groups of rows of x [Σ sizes·groups, n] → [size·groups, n] each.
func (t *Tape) SplitGroups(x *Value, groups int64, sizes ...int64) []*Value {
	c, n := t.C, x.T.Dim(1)
	x = t.Contiguous(x)
	var parts []*Value
	for i, part := range t.Split(t.reshape(x, c.Reshape(x.T, x.T.Dim(0)/groups, groups*n)), sizes...) {
		part = t.Contiguous(part)
		parts = append(parts, t.reshape(part, c.Reshape(part.T, sizes[i]*groups, n)))
	}
	return parts
}

func (t *Tape) joinGradients(parts []*Value) *ggml.Tensor {
	var grads []*ggml.Tensor
	for _, p := range parts {
		d := t.gradient(p)
		if d == nil {
			d = t.C.Fill(t.C.Cont(p.T), 0)
		}
		grads = append(grads, d)
	}
	if all := sideBySide(t.C, grads); all != nil {
		return all
	}
	var all *ggml.Tensor
	for _, d := range grads {
		all = joined(t.C, all, d, 0)
	}
	return all
}

// sideBySide returns the tensor [Σ m, n] whose rows are all parts [m, n] in turn, without a copy; nil if there is none.
func sideBySide(c *ggml.Context, parts []*ggml.Tensor) *ggml.Tensor {
	source, isView := parts[0].ViewSource()
	at, width := parts[0].ViewOffset(), int64(0)
	for _, p := range parts {
		of, _ := p.ViewSource()
		if !isView || !of.Is(source) || p.ViewOffset() != at+width*p.Stride(0) || p.Stride(1) != parts[0].Stride(1) {
			return nil
		}
		width += p.Dim(0)
	}
	if parts[0].Stride(1) != width*parts[0].Stride(0) {
		return nil
	}
	return c.View(source, []int64{width, parts[0].Dim(1)}, []int64{parts[0].Stride(1)}, at)
}

// Heads divides the rows of x [size·heads, n], which need not be contiguous, into
// [size, heads, n].
func (t *Tape) Heads(x *Value, heads int64) *Value {
	size, n := x.T.Dim(0)/max(1, heads), x.T.Dim(1) // 0 heads of a tensor that stands for a failure
	strides := []int64{size * x.T.Stride(0), x.T.Stride(1)}
	return t.Op(t.C.View(x.T, []int64{size, heads, n}, strides, 0), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{t.C.View(dy, []int64{x.T.Dim(0), n}, []int64{dy.Stride(2)}, 0)} // tokens may lie apart
	}, x)
}

// Flat is the inverse of Heads, of a contiguous x.
func (t *Tape) Flat(x *Value) *Value {
	return t.reshape(x, t.C.Reshape(x.T, x.T.Dim(0)*x.T.Dim(1), x.T.Dim(2)))
}

// HeadGroups divides x [size, heads, n] into groups of adjacent heads, each [size, heads/groups, n].
func (t *Tape) HeadGroups(x *Value, groups int64) []*Value {
	size, each := x.T.Dim(0), x.T.Dim(1)/groups
	var list []*Value
	for _, part := range t.Split(t.Flat(t.Contiguous(x)), slices.Repeat([]int64{size * each}, int(groups))...) {
		list = append(list, t.Heads(t.Contiguous(part), each))
	}
	return list
}

// Sequences divides the tokens of x [size, heads, n·batch], which need not be
// contiguous, into [size, heads, n, batch].
func (t *Tape) Sequences(x *Value, batch int64) *Value {
	n := x.T.Dim(2) / batch
	strides := []int64{x.T.Stride(1), x.T.Stride(2), n * x.T.Stride(2)}
	return t.reshape(x, t.C.View(x.T, []int64{x.T.Dim(0), x.T.Dim(1), n, batch}, strides, 0))
}

// reshape makes a value of a view of all of x.
func (t *Tape) reshape(x *Value, view *ggml.Tensor) *Value {
	return t.Op(view, func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.C.Reshape(dy, x.T.Shape()...)} }, x)
}

// Last cuts x [m, n] to its last rows, without a gradient.
func (t *Tape) Last(x *Value, rows int64) *Value {
	skipped := (x.T.Dim(1) - rows) * x.T.Stride(1)
	return &Value{T: t.C.View(x.T, []int64{x.T.Dim(0), rows}, []int64{x.T.Stride(1)}, skipped)}
}

// Ends returns the columns of x [m, n] at [Feed].Ends, one of each row: [m, rows]. It has no gradients.
func (t *Tape) Ends(x *Value, rows int64) *Value {
	ends := Declare(t.Inputs, "ends", ggml.I32, []int64{rows}, func(f *Feed, x []int32) { copy(x, f.Ends) })
	return &Value{T: t.C.GetRows(x.T, ends)}
}

// Join appends the elements of y [k, …] to x [m, …] → [m+k, …].
func (t *Tape) Join(x, y *Value) *Value {
	c, m := t.C, x.T.Dim(0)
	return t.Op(c.Concat(x.T, y.T, 0), func(d *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{rowPart(c, d, 0, m), rowPart(c, d, m, y.T.Dim(0))}
	}, x, y)
}

// Pad puts zeros behind the elements of x [m, …] → [size, …].
func (t *Tape) Pad(x *Value, size int64) *Value {
	c, m := t.C, x.T.Dim(0)
	if m == size {
		return x
	}
	return t.Op(c.Pad(x.T, [4]int{int(size - m)}), func(d *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{rowPart(c, d, 0, m)}
	}, x)
}

// rowPart is a copy of some elements of each row of x [m, k, n].
func rowPart(c *ggml.Context, x *ggml.Tensor, from, n int64) *ggml.Tensor {
	return c.Cont(c.View(x, []int64{n, x.Dim(1), x.Dim(2)}, []int64{x.Stride(1), x.Stride(2)}, from*x.Stride(0)))
}

// RepeatHeads repeats each head of x [size, heads, n] so many times, one after the other → [size, heads·times, n].
func (t *Tape) RepeatHeads(x *Value, times int64) *Value {
	if times == 1 {
		return x
	}
	c, shape := t.C, x.T.Shape()
	size, each := x.T.Dim(0), x.T.Dim(1)*x.T.Dim(2)
	y := c.Repeat(c.Reshape(contiguous(c, x.T), size, 1, each), size, times, each)
	return t.Op(c.Reshape(y, size, times*x.T.Dim(1), x.T.Dim(2)), func(d *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.Reshape(sumMiddle(c, c.Reshape(contiguous(c, d), size, times, each)), shape...)}
	}, x)
}

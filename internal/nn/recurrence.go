package nn

import "github.com/goggml/ggml"

// Next holds the operands In of a recurrence for the next n tokens of each slot, and the states before these tokens: Stored
// returns all states that are kept [elements, …] and each slot's row of them, I32 [slots]; Before returns a copy of these rows,
// [elements, slots]; Written returns each slot's row for the states after these tokens, I32 [slots].
type Next[In any] struct {
	In      In
	Slots   int64
	Stored  func() (states, rows *ggml.Tensor)
	Before  func() *ggml.Tensor
	Written func() *ggml.Tensor
}

// Stepped is the result of a recurrence for the next tokens: Y [size, heads, n·slots], without gradients, and the
// states after them [elements, slots]; nil: they are in the rows Written.
type Stepped struct {
	Y      *Value
	States *ggml.Tensor
}

// inRows divides x [size, heads, n·rows], whose heads and tokens may lie apart, into rows.
func inRows(c *ggml.Context, x *ggml.Tensor, rows int64) *ggml.Tensor {
	if x.Dim(0) > 1 && x.Stride(0) != ggml.F32.BlockBytes() {
		x = c.Cont(x)
	}
	n := x.Dim(2) / max(1, rows)
	return c.View(x, []int64{x.Dim(0), x.Dim(1), n, rows}, []int64{x.Stride(1), x.Stride(2), n * x.Stride(2)}, 0)
}

// numbersInRows divides x [heads, n·rows] into rows, contiguous.
func numbersInRows(c *ggml.Context, x *ggml.Tensor, rows int64) *ggml.Tensor {
	return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1)/max(1, rows), rows)
}

// stepped divides the result of an op of ggml for a number of tokens: y, then the states of the slots.
func stepped(c *ggml.Context, all *ggml.Tensor, size, heads, tokens, slots int64) Stepped {
	n := size * heads * tokens
	after := c.View(all, []int64{all.NumElements() - n}, nil, n*all.Stride(0))
	return Stepped{
		Y:      Input(c.Reshape(c.View(all, []int64{n}, nil, 0), size, heads, tokens)),
		States: c.Reshape(after, after.NumElements()/slots, slots),
	}
}

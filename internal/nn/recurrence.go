package nn

import "github.com/goggml/ggml"

// Next holds the operands In of a recurrence for the next n tokens of each slot, and the states before these tokens: Stored
// returns all states that are kept [elements, …] and each slot's row of them, I32 [slots]; Before returns a copy of these rows,
// [elements, slots].
type Next[In any] struct {
	In     In
	Slots  int64
	Stored func() (states, rows *ggml.Tensor)
	Before func() *ggml.Tensor
}

// Stepped is the result of a recurrence for the next tokens: Y [size, heads, n·slots], without gradients, and the
// states after them [elements, slots].
type Stepped struct {
	Y      *Value
	States *ggml.Tensor
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

package nn

import "github.com/goggml/ggml"

// A Rotation holds the parameters of rotary position embedding (arXiv 2104.09864).
type Rotation struct {
	RoPE      ggml.RoPE
	Positions PositionInput
	Factors   *ggml.Tensor // divisors of the frequencies [dims/2]; nil: none
}

// RoPEOperands are vectors X [size, heads, n] with their rotation.
type RoPEOperands struct {
	X *ggml.Tensor
	Rotation
}

// RoPE rotates X by position; the gradient is rotated back.
var RoPE = &Op[RoPEOperands, Result[*ggml.Tensor]]{func(t *Tape, r RoPEOperands) Result[*ggml.Tensor] {
	return ropeBy(t, r, func(dy *ggml.Tensor) *ggml.Tensor { return t.C.RoPE(dy, r.Positions(true), r.Factors, r.RoPE) })
}}

// ropeBack rotates back by an op that not every device has.
func ropeBack(t *Tape, r RoPEOperands) Result[*ggml.Tensor] {
	return ropeBy(t, r, func(dy *ggml.Tensor) *ggml.Tensor { return t.C.RoPEBack(dy, r.Positions(false), r.Factors, r.RoPE) })
}

func ropeBy(t *Tape, r RoPEOperands, grad func(dy *ggml.Tensor) *ggml.Tensor) Result[*ggml.Tensor] {
	return Result[*ggml.Tensor]{t.C.RoPE(r.X, r.Positions(false), r.Factors, r.RoPE), grad}
}

// RoPE rotates x [size, heads, n] by position.
func (t *Tape) RoPE(x *Value, r Rotation) *Value {
	rotated := RoPE.Build(t, RoPEOperands{x.T, r})
	return t.Op(rotated.Y, func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{rotated.Grad(dy)} }, x)
}

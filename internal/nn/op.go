package nn

import (
	"maps"
	"slices"

	"github.com/goggml/ggml"
)

// An Op is a function of operands. Plain builds it from ops that every ggml device has. A device with a
// faster kernel has a row for the op in its table, the [Lowering].
type Op[In, Out any] struct{ Plain func(t *Tape, in In) Out }

// A Result is the result Y of an op. Grad returns the gradients of the operands, given the gradient dy of Y.
type Result[Grads any] struct {
	Y    *ggml.Tensor
	Grad func(dy *ggml.Tensor) Grads
}

// A Row is the entry of a device's table for an op.
type Row struct{ op, kernel any }

type kernel[In, Out any] struct {
	takes func(t *Tape, in In) bool // nil: takes all operands
	build func(t *Tape, in In) Out
}

// By returns a row for all operands.
func (o *Op[In, Out]) By(build func(t *Tape, in In) Out) Row { return o.When(nil, build) }

// When returns a row for the operands that takes accepts. Other operands go to the next row, and after the last to Plain.
func (o *Op[In, Out]) When(takes func(t *Tape, in In) bool, build func(t *Tape, in In) Out) Row {
	return Row{o, kernel[In, Out]{takes, build}}
}

// Build builds the op by the tape's table.
func (o *Op[In, Out]) Build(t *Tape, in In) Out {
	for _, row := range t.Lowering.rows[o] {
		if k := row.(kernel[In, Out]); k.takes == nil || k.takes(t, in) {
			return k.build(t, in)
		}
	}
	return o.Plain(t, in)
}

// With returns a copy of the table with rows that precede its own.
func (l *Lowering) With(rows ...Row) *Lowering {
	with := *l
	with.rows = maps.Clone(l.rows)
	if with.rows == nil {
		with.rows = map[any][]any{}
	}
	for _, r := range slices.Backward(rows) {
		with.rows[r.op] = append([]any{r.kernel}, with.rows[r.op]...)
	}
	return &with
}

// Op returns a value for a tensor y that is computed from others, for ops that no table replaces. back returns
// their gradients, given the gradient dy of y.
func (t *Tape) Op(y *ggml.Tensor, back func(dy *ggml.Tensor) []*ggml.Tensor, of ...*Value) *Value {
	v := &Value{T: y, needsGrad: slices.ContainsFunc(of, func(x *Value) bool { return x.needsGrad })}
	t.record(v, func(dy *ggml.Tensor) {
		for i, dx := range back(dy) {
			t.flow(of[i], func() *ggml.Tensor { return dx })
		}
	})
	return v
}

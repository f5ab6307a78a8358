package nn

import (
	"maps"
	"slices"

	"github.com/goggml/ggml"
)

// An Op is what graphs are made of, as a value: a function of operands. Plain builds it of ops that every
// device of ggml has; a device that does better has a row for it in its table, the [Lowering].
type Op[In, Out any] struct{ Plain func(t *Tape, in In) Out }

// A Result is the result of an op with gradients. Grad returns the gradients of the operands, given the gradient dy of Y.
type Result[Grads any] struct {
	Y    *ggml.Tensor
	Grad func(dy *ggml.Tensor) Grads
}

// A Row is how a device builds an op.
type Row struct{ op, kernel any }

type kernel[In, Out any] struct {
	takes func(t *Tape, in In) bool // nil: all
	build func(t *Tape, in In) Out
}

// By is a row for an op of any operands.
func (o *Op[In, Out]) By(build func(t *Tape, in In) Out) Row { return o.When(nil, build) }

// When is a row for the operands that it takes. Others go to the next row, behind the last to Plain.
func (o *Op[In, Out]) When(takes func(t *Tape, in In) bool, build func(t *Tape, in In) Out) Row {
	return Row{o, kernel[In, Out]{takes, build}}
}

// Build builds the op by the table of the tape.
func (o *Op[In, Out]) Build(t *Tape, in In) Out {
	for _, row := range t.Lowering.rows[o] {
		if k := row.(kernel[In, Out]); k.takes == nil || k.takes(t, in) {
			return k.build(t, in)
		}
	}
	return o.Plain(t, in)
}

// With is a copy of the table with other rows before its own.
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

// Op makes a value from a tensor y that is built from others, for ops that no table replaces. back returns
// the gradient of each of them, given the gradient dy of y.
func (t *Tape) Op(y *ggml.Tensor, back func(dy *ggml.Tensor) []*ggml.Tensor, of ...*Value) *Value {
	v := &Value{T: y, needsGrad: slices.ContainsFunc(of, func(x *Value) bool { return x.needsGrad })}
	t.record(v, func(dy *ggml.Tensor) {
		for i, dx := range back(dy) {
			t.flow(of[i], func() *ggml.Tensor { return dx })
		}
	})
	return v
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"strings"
)

// An OpCode is the number of an op in ggml. The numbers change from
// version to version: keep the names. C: enum ggml_op.
type OpCode int32

// OpCodes lists the ops of ggml in the order of their numbers; the first is "none", the op of
// leaves.
func OpCodes() []OpCode {
	codes := make([]OpCode, C.GGML_OP_COUNT)
	for i := range codes {
		codes[i] = OpCode(i)
	}
	return codes
}

func (o OpCode) valid() bool { return o >= 0 && o < C.GGML_OP_COUNT }

// String returns the name of the op, for example "mul_mat". C: ggml_op_name.
func (o OpCode) String() string {
	if !o.valid() {
		return fmt.Sprintf("OpCode(%d)", int32(o))
	}
	return strings.ToLower(C.GoString(C.ggml_op_name(C.enum_ggml_op(o))))
}

// Symbol returns the op as a formula, for example "X*Y"; "" if it has none. Plumbing: programs
// rarely need it. C: ggml_op_symbol.
func (o OpCode) Symbol() string {
	if !o.valid() {
		return ""
	}
	return C.GoString(C.ggml_op_symbol(C.enum_ggml_op(o)))
}

// OpCode returns the op that makes the tensor. All unary ops share one code, and all gated linear
// units another; [Tensor.Op] returns their names. C: op of struct ggml_tensor.
func (t *Tensor) OpCode() OpCode {
	var code OpCode
	t.withRef(func() { code = OpCode(t.t.op) })
	return code
}

// A Unary is an element-wise op. C: enum ggml_unary_op.
type Unary int

// The unary ops; see the methods of [Context] with these names.
const (
	UnaryAbs         Unary = C.GGML_UNARY_OP_ABS
	UnarySgn         Unary = C.GGML_UNARY_OP_SGN
	UnaryNeg         Unary = C.GGML_UNARY_OP_NEG
	UnaryStep        Unary = C.GGML_UNARY_OP_STEP
	UnaryTanh        Unary = C.GGML_UNARY_OP_TANH
	UnaryElu         Unary = C.GGML_UNARY_OP_ELU
	UnaryRelu        Unary = C.GGML_UNARY_OP_RELU
	UnarySigmoid     Unary = C.GGML_UNARY_OP_SIGMOID
	UnaryGelu        Unary = C.GGML_UNARY_OP_GELU
	UnaryGeluQuick   Unary = C.GGML_UNARY_OP_GELU_QUICK
	UnarySilu        Unary = C.GGML_UNARY_OP_SILU
	UnaryHardSwish   Unary = C.GGML_UNARY_OP_HARDSWISH
	UnaryHardSigmoid Unary = C.GGML_UNARY_OP_HARDSIGMOID
	UnaryExp         Unary = C.GGML_UNARY_OP_EXP
	UnaryExpm1       Unary = C.GGML_UNARY_OP_EXPM1
	UnarySoftplus    Unary = C.GGML_UNARY_OP_SOFTPLUS
	UnaryGeluErf     Unary = C.GGML_UNARY_OP_GELU_ERF
	UnaryXIELU       Unary = C.GGML_UNARY_OP_XIELU // has parameters: only Context.XIELU makes it
	UnaryFloor       Unary = C.GGML_UNARY_OP_FLOOR
	UnaryCeil        Unary = C.GGML_UNARY_OP_CEIL
	UnaryRound       Unary = C.GGML_UNARY_OP_ROUND
	UnaryTrunc       Unary = C.GGML_UNARY_OP_TRUNC
)

// Unaries lists the unary ops in the order of their numbers.
func Unaries() []Unary {
	list := make([]Unary, C.GGML_UNARY_OP_COUNT)
	for i := range list {
		list[i] = Unary(i)
	}
	return list
}

func (u Unary) valid() bool { return u >= 0 && u < C.GGML_UNARY_OP_COUNT }

// String returns the name of the op, for example "gelu_quick". C: ggml_unary_op_name.
func (u Unary) String() string {
	if !u.valid() {
		return fmt.Sprintf("Unary(%d)", int(u))
	}
	return strings.ToLower(C.GoString(C.ggml_unary_op_name(C.enum_ggml_unary_op(u))))
}

func (c *Context) unaryOf(name string, u Unary, a *Tensor) *opCall {
	op := c.elementwise(name, a)
	op.require(u.valid(), "there is no unary op %d", int(u))
	op.require(u != UnaryXIELU, "xielu has parameters; use XIELU")
	return op
}

// Unary applies an op to each element, like the method of the op's name. a is F32, F16 or BF16 with
// contiguous rows. C: ggml_unary.
func (c *Context) Unary(u Unary, a *Tensor) *Tensor {
	op := c.unaryOf("unary", u, a)
	return op.done(C.goggml_op_unary(op.arena, a.ptr(), C.enum_ggml_unary_op(u)))
}

// UnaryInPlace is [Context.Unary], in place: it changes a, and returns a view
// of it. It has no backward. C: ggml_unary_inplace.
func (c *Context) UnaryInPlace(u Unary, a *Tensor) *Tensor {
	op := c.unaryOf("unary_inplace", u, a)
	return op.done(C.goggml_op_unary_inplace(op.arena, a.ptr(), C.enum_ggml_unary_op(u)))
}

// Unary returns the unary op that makes the tensor; false if another op does. C: ggml_get_unary_op.
func (t *Tensor) Unary() (Unary, bool) {
	u, is := Unary(0), false
	t.withRef(func() {
		if is = t.t.op == C.GGML_OP_UNARY; is {
			u = Unary(C.ggml_get_unary_op(t.t))
		}
	})
	return u, is
}

// GLU returns the gated linear unit that makes the tensor; false if another op does. C:
// ggml_get_glu_op.
func (t *Tensor) GLU() (GLU, bool) {
	g, is := GLU(0), false
	t.withRef(func() {
		if is = t.t.op == C.GGML_OP_GLU; is {
			g = GLU(C.ggml_get_glu_op(t.t))
		}
	})
	return g, is
}

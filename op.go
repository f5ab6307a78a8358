package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/testhook"
)

// An opCall is one op under construction. The pattern of every op is
//
//	op := c.begin("add", a, b)
//	op.require(…)
//	return op.done(C.goggml_op_add(op.arena, a.ptr(), b.ptr()))
//
// begin locks the context and retains the operands' contexts; done undoes both.
//
// Errors are sticky. A failed check sets arena to nil, which makes the C call do nothing and skips
// the other checks. done records the error in the context, which then builds nothing more, and
// returns a poisoned tensor, which has no C tensor: an op with a poisoned operand fails with the
// same error.
//
// Each context owns one opCall and reuses it: building a node then allocates only the node's
// Tensor.
type opCall struct {
	c        *Context
	arena    *C.goggml_arena
	name     string
	operands []*Tensor
	describe []Operand // text before the operands in an error
	retained []*handle // c, and the contexts of operands of other contexts
	poisoned bool      // by an operand or context that failed earlier
	err      error
	reason   string
}

func (c *Context) begin(name string, operands ...*Tensor) *opCall {
	c = c.made()
	c.mu.Lock()
	op := &c.op
	op.c, op.name = c, name
	op.operands = append(op.operands, operands...)
	if c.err != nil {
		op.poisoned = true
		return op
	}
	if !op.retain(c) {
		op.failed(ErrClosed, "the context is closed")
		return op
	}
	op.arena = c.arena
	for i, t := range operands {
		if t == nil {
			op.failed(errNil, fmt.Sprintf("operand %d is nil", i))
			return op
		}
		if op.retainOperand(i, t); op.arena == nil {
			return op
		}
	}
	return op
}

// optional adds an operand that may be nil.
func (op *opCall) optional(t *Tensor) {
	if t != nil && op.arena != nil {
		op.operands = append(op.operands, t)
		op.retainOperand(len(op.operands)-1, t)
	}
}

// retainOperand retains the context of operand i, and the contexts of its view sources.
func (op *opCall) retainOperand(i int, t *Tensor) {
	switch {
	case t.t == nil:
		op.inherit(i, t)
	case t.ctx == op.c:
	case !op.retain(t.ctx):
		op.failed(ErrClosed, fmt.Sprintf("the context of operand %d is closed", i))
	default:
		op.c.addDep(t.ctx)
	}
	if op.arena != nil {
		op.retainRoot(i, t)
	}
}

func (op *opCall) retain(c *Context) bool {
	if c.h.acquire() != nil {
		return false
	}
	op.retained = append(op.retained, c.h)
	return true
}

// retainRoot retains the root of operand i if it is a view: ggml reads the root too.
func (op *opCall) retainRoot(i int, t *Tensor) {
	root := t.t.view_src
	if root == nil || t.ctx == op.c && bool(C.goggml_arena_owns(op.arena, root)) {
		return
	}
	for _, d := range t.ctx.withDependencies()[1:] {
		if !op.retain(d) {
			op.failed(ErrClosed, fmt.Sprintf("the context of the source of operand %d, a view, is closed", i))
			return
		}
	}
}

// inherit adopts the error of a poisoned operand.
func (op *opCall) inherit(i int, t *Tensor) {
	if t.err == nil {
		op.failed(ErrZeroValue, fmt.Sprintf("operand %d is a zero value; tensors come from a Context", i))
		return
	}
	op.poisoned = true
	op.arena = nil
	op.c.err = t.err
}

func (op *opCall) failed(err error, reason string) {
	if testhook.Unchecked && err == nil {
		return
	}
	if op.err == nil && !op.poisoned {
		op.err, op.reason = err, reason
	}
	op.arena = nil
}

// require checks a condition; the message states it.
func (op *opCall) require(ok bool, format string, args ...any) {
	if !ok && op.arena != nil {
		op.failed(nil, message(format, args))
	}
}

// message is fmt.Sprintf on copies of the arguments, so that a check that passes does not move its
// arguments to the heap. For an unknown type it prints the type instead of the value.
func message(format string, args []any) string {
	copies := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case int:
			copies[i] = a
		case int64:
			copies[i] = a
		case uint32:
			copies[i] = a
		case float32:
			copies[i] = a
		case float64:
			copies[i] = a
		case string:
			copies[i] = strings.Clone(a)
		case Type:
			copies[i] = a
		case [4]int64:
			copies[i] = a
		case [4]int:
			copies[i] = a
		case int32:
			copies[i] = a
		case []int64:
			copies[i] = slices.Clone(a)
		case []int:
			copies[i] = slices.Clone(a)
		default:
			copies[i] = reflect.TypeOf(a)
		}
	}
	return fmt.Sprintf(format, copies...)
}

// types requires that a tensor has one of the types.
func (op *opCall) types(what string, t *Tensor, allowed ...Type) {
	if op.arena == nil || t == nil {
		return
	}
	for _, a := range allowed {
		if t.typ == a {
			return
		}
	}
	op.failed(nil, fmt.Sprintf("%s has type %v; it must have %v", what, t.typ, oneOf(allowed)))
}

func oneOf(types []Type) string {
	s := ""
	for i, t := range types {
		switch {
		case i == 0:
		case i == len(types)-1:
			s += " or "
		default:
			s += ", "
		}
		s += t.String()
	}
	return s
}

// sameShape requires equal shapes.
func (op *opCall) sameShape(a, b *Tensor) {
	if op.arena != nil {
		op.require(a.ne == b.ne, "the shapes must be equal")
	}
}

// maxBytes limits the size of a tensor, far below where sizes in C overflow.
const maxBytes = math.MaxInt64 / 16

// checkShape requires a shape that a new tensor of the type can have.
func (op *opCall) checkShape(t Type, shape []int64) {
	if op.arena == nil {
		return
	}
	if !t.IsValid() {
		op.failed(nil, fmt.Sprintf("there is no type %d", int32(t)))
		return
	}
	if len(shape) < 1 || len(shape) > 4 {
		op.failed(nil, fmt.Sprintf("a shape has 1 to 4 dimensions, this one has %d", len(shape)))
		return
	}
	bytes := float64(t.BlockBytes()) / float64(t.BlockSize())
	for i, n := range shape {
		op.require(n >= 1, "ne%d is %d; it must be at least 1", i, n)
		bytes *= float64(n)
	}
	op.require(shape[0]%t.BlockSize() == 0, "ne0 is %d; a row of %v is a multiple of %d elements", shape[0], t, t.BlockSize())
	op.require(bytes < maxBytes, "the tensor is too large")
}

// done ends the op: it returns the tensor, or a poisoned one.
func (op *opCall) done(r C.goggml_tensor) *Tensor {
	if r.error != nil {
		op.failed(nil, guardError(r.error).Error())
	}
	var result *Tensor
	if op.arena != nil && r.value != nil {
		result = op.c.place()
		*result = tensorOf(op.c, r.value)
	} else {
		if op.err == nil && op.reason == "" && !op.poisoned {
			op.reason = "ggml returned no tensor"
		}
		if op.reason != "" && op.c.err == nil {
			op.c.err = op.opError()
		}
		result = &Tensor{ctx: op.c, err: op.c.err}
	}
	op.end()
	if testhook.Built != nil {
		testhook.Built()
	}
	return result
}

// composed ends an op that consists of other ops. It calls ops if the checks passed.
func (op *opCall) composed(ops func() *Tensor) *Tensor {
	if op.arena == nil {
		return op.done(C.goggml_tensor{})
	}
	op.end()
	return ops()
}

// end releases what the op retains, resets the context's opCall, and unlocks the context.
func (op *opCall) end() {
	c := op.c
	for _, h := range op.retained {
		h.release()
	}
	clear(op.operands)
	clear(op.retained)
	op.operands, op.retained = op.operands[:0], op.retained[:0]
	op.arena, op.describe = nil, nil
	op.poisoned, op.err, op.reason = false, nil, ""
	c.mu.Unlock()
}

func (op *opCall) opError() *OpError {
	e := &OpError{Op: op.name, Reason: op.reason, Caller: callerLine(), Err: op.err}
	e.Operands = op.describe
	for _, t := range op.operands {
		e.Operands = append(e.Operands, t.operand())
	}
	return e
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
)

// An opCall is one op under construction. The pattern of every op is
//
//	op := c.begin("add", a, b)
//	op.require(…)
//	return op.done(C.goggml_op_add(op.arena, a.ptr(), b.ptr()))
//
// begin locks the context and holds the operands' contexts; done undoes that.
// After a failure arena is nil, with which the C call does nothing, and the
// other checks are skipped.
type opCall struct {
	c        *Context
	arena    *C.goggml_arena
	name     string
	operands []*Tensor
	describe []Operand // in place of the operands, in an error
	held     int       // operands whose foreign context is held
	holding  bool      // whether c is held
	poisoned bool      // an operand, or the context, failed before
	err      error
	reason   string
}

var errNilTensor = errors.New("operand is nil")

func (c *Context) begin(name string, operands ...*Tensor) opCall {
	op := opCall{c: c, name: name, operands: operands}
	c.mu.Lock()
	if c.err != nil {
		op.poisoned = true
		return op
	}
	if err := c.h.acquire(); err != nil {
		op.failed(err, "the context is closed")
		return op
	}
	op.holding = true
	op.arena = c.arena
	for i, t := range operands {
		if t == nil {
			op.failed(errNilTensor, fmt.Sprintf("operand %d is nil", i))
			return op
		}
		if t.t == nil {
			op.inherit(t)
			return op
		}
		if t.ctx != c {
			if err := t.ctx.h.acquire(); err != nil {
				op.failed(err, fmt.Sprintf("the context of operand %d is closed", i))
				return op
			}
			c.addDep(t.ctx)
		}
		op.held = i + 1
	}
	return op
}

// optional adds an operand that may be nil.
func (op *opCall) optional(what string, t *Tensor) {
	if t == nil || op.arena == nil {
		return
	}
	switch {
	case t.t == nil:
		op.inherit(t)
	case t.ctx != op.c:
		if t.ctx.h.closed() {
			op.failed(ErrClosed, "the context of "+what+" is closed")
			return
		}
		op.c.addDep(t.ctx)
	}
}

// inherit takes over the failure that an operand stands for.
func (op *opCall) inherit(t *Tensor) {
	op.poisoned = true
	op.arena = nil
	if t.ctx == op.c {
		return
	}
	if err := t.ctx.Err(); err != nil {
		op.c.err = err
		return
	}
	op.c.err = fmt.Errorf("ggml: %s: an operand comes from an op that failed", op.name)
}

func (op *opCall) failed(err error, reason string) {
	if op.err == nil && !op.poisoned {
		op.err, op.reason = err, reason
	}
	op.arena = nil
}

// require demands a condition; the message says what is wanted.
func (op *opCall) require(ok bool, format string, args ...any) {
	if !ok && op.arena != nil {
		op.failed(nil, fmt.Sprintf(format, args...))
	}
}

// types demands that a tensor has one of the types.
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

// sameShape demands equal shapes.
func (op *opCall) sameShape(a, b *Tensor) {
	if op.arena != nil {
		op.require(a.ne == b.ne, "the shapes must be equal")
	}
}

// dense demands a tensor without gaps or permutation.
func (op *opCall) dense(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(bool(C.ggml_is_contiguous(t.t)), "%s must be contiguous; call Cont", what)
	}
}

// denseRows demands that the elements of each row are adjacent.
func (op *opCall) denseRows(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(bool(C.ggml_is_contiguous_rows(t.t)), "the rows of %s must be contiguous; call Cont", what)
	}
}

// maxBytes bounds a tensor, far below where sizes in C would overflow.
const maxBytes = math.MaxInt64 / 16

// checkShape demands a shape that a new tensor of the type can have.
func (op *opCall) checkShape(t Type, shape []int64) {
	if op.arena == nil {
		return
	}
	if !t.Valid() {
		op.failed(nil, fmt.Sprintf("there is no type %d", int32(t)))
		return
	}
	if len(shape) < 1 || len(shape) > 4 {
		op.failed(nil, fmt.Sprintf("a shape has 1 to 4 dimensions, this one has %d", len(shape)))
		return
	}
	bytes := float64(t.Size()) / float64(t.BlockSize())
	for i, n := range shape {
		op.require(n >= 1, "ne%d is %d; it must be at least 1", i, n)
		bytes *= float64(n)
	}
	op.require(shape[0]%t.BlockSize() == 0, "ne0 is %d; a row of %v is a multiple of %d elements", shape[0], t, t.BlockSize())
	op.require(bytes < maxBytes, "the tensor is too large")
}

// done ends the op: it returns the tensor, or one that stands for the failure.
func (op *opCall) done(r C.goggml_tensor) *Tensor {
	if r.error != nil {
		op.failed(nil, guardError(r.error).Error())
	}
	for _, t := range op.operands[:op.held] {
		if t.ctx != op.c {
			t.ctx.h.release()
		}
	}
	var result *Tensor
	if op.arena != nil && r.value != nil {
		result = newTensor(op.c, r.value)
	} else {
		if op.err == nil && op.reason == "" && !op.poisoned {
			op.reason = "the library returned no tensor"
		}
		if op.reason != "" && op.c.err == nil {
			op.c.err = op.opError()
		}
		result = &Tensor{ctx: op.c}
	}
	if op.holding {
		op.c.h.release()
	}
	op.c.mu.Unlock()
	return result
}

func (op *opCall) opError() *OpError {
	e := &OpError{Op: op.name, Reason: op.reason, Caller: callerLine(), Err: op.err}
	e.Operands = op.describe
	for _, t := range op.operands {
		e.Operands = append(e.Operands, t.operand())
	}
	return e
}

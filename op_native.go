package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// A NativeOp is an op of another package whose computation is a C function of this process. Make it
// once, as a package variable, and do not change it; [Context.BuildOp] and [OpBuilder.Native] make
// tensors of it.
//
// Func is the address of a function of the type ggml_custom_op_t:
//
//	void f(struct ggml_tensor *dst, int ith, int nth, void *userdata)
//
// In each compute of the graph, the nth threads of the CPU backend call it concurrently: thread ith
// fills its share of dst from dst->src[0], dst->src[1] … The result must not depend on nth. The
// parameters begin at byte [NativeParamsOffset] of dst->op_params. The last int32 of op_params is
// initially 0 and belongs to the function, for example to count the chunks that its threads have
// taken. userdata is NULL. The function must not call Go, nor leave by longjmp. GGML_ABORT ends the
// computation with an error on the thread that computes, and the process on any other thread.
//
// Only the CPU runs it, and a [Scheduler] puts it there. It has no backward.
type NativeOp struct {
	Name string         // name in Tensor.Op, errors, profiles and drawings
	Func unsafe.Pointer // valid for the life of the process

	// FLOPs returns the cost of one computation for [Graph.Summary], from the shapes of the result
	// and the operands; nil means one operation per element.
	FLOPs func(result [MaxDims]int64, operands [][MaxDims]int64) float64
}

const (
	// MaxNativeParams is the maximum size in bytes of the parameters of a [NativeOp].
	MaxNativeParams = C.GOGGML_NATIVE_PARAMS
	// NativeParamsOffset is the offset in bytes of the parameters in op_params of struct
	// ggml_tensor.
	NativeParamsOffset = C.GOGGML_NATIVE_OFFSET
	// MaxOperands is the maximum number of operands of a [NativeOp] or a [CustomFunc].
	MaxOperands = maxCustom
)

// nativeOps finds a *NativeOp by its function, the only part that C stores.
var nativeOps sync.Map

// nativeOp returns the native op that makes the tensor, or nil. The caller retains the context of
// the tensor.
func nativeOp(t *C.struct_ggml_tensor) *NativeOp {
	f := C.goggml_native_function(t)
	if f == nil {
		return nil
	}
	op, _ := nativeOps.Load(unsafe.Pointer(f))
	n, _ := op.(*NativeOp)
	return n
}

// register registers the op, or returns why it is invalid.
func (n *NativeOp) register() error {
	switch {
	case n == nil:
		return errors.New("the NativeOp is nil")
	case n.Name == "":
		return errors.New("the NativeOp has no name")
	case n.Func == nil:
		return fmt.Errorf("the C function of %s is nil", n.Name)
	}
	if other, known := nativeOps.LoadOrStore(n.Func, n); known && other != n {
		return fmt.Errorf("%s has the same C function as another NativeOp, %s; each needs its own", n.Name, other.(*NativeOp).Name)
	}
	return nil
}

// nativeFLOPs returns the cost of a native op's tensor; false for other tensors.
func (t *Tensor) nativeFLOPs() (flops float64, native bool) {
	t.withRefs(func() {
		op := nativeOp(t.t)
		if native = op != nil && op.FLOPs != nil; !native {
			return
		}
		var operands [][MaxDims]int64
		for _, p := range t.t.src {
			if p != nil {
				operands = append(operands, tensorOf(t.ctx, p).ne)
			}
		}
		flops = op.FLOPs(t.ne, operands)
	})
	return flops, native
}

// An OpBuilder checks the operands of another package's op and makes its tensor; see
// [Context.BuildOp]. After a failed check it makes nothing; the first failure determines the error.
// It is valid until the function that received it returns.
type OpBuilder struct {
	op     *opCall // nil once the op has ended
	result *Tensor
}

// BuildOp builds an op of another package in the way this package builds its own. build checks the
// operands, which are neither nil nor closed and stay so meanwhile, and ends with
// [OpBuilder.Native], [OpBuilder.NativeInPlace] or [OpBuilder.Compose], whose tensor it returns.
// The context keeps an error with the op's name, the operands and the line of the caller outside
// build's package; the returned tensor then stands for the failure. build is not called if an
// operand stands for an earlier failure.
//
// build must not use the context, which is locked, outside of Compose.
func (c *Context) BuildOp(name string, operands []*Tensor, build func(b *OpBuilder) *Tensor) *Tensor {
	b := &OpBuilder{op: c.beginCustom(name, operands)}
	defer func() { // if build panics, or makes no tensor
		b.end(func(op *opCall) *Tensor { return op.done(C.goggml_tensor{}) })
	}()
	b.Require(build != nil, "the function that builds it is nil")
	if b.OK() {
		build(b)
	}
	b.Require(b.op == nil, "the function that builds it made no tensor")
	return b.end(func(op *opCall) *Tensor { return op.done(C.goggml_tensor{}) })
}

// end ends the op by f, once.
func (b *OpBuilder) end(f func(op *opCall) *Tensor) *Tensor {
	if op := b.op; op != nil {
		b.op = nil
		b.result = f(op)
	}
	return b.result
}

// OK reports whether all checks have passed so far.
func (b *OpBuilder) OK() bool { return b != nil && b.op != nil && b.op.arena != nil }

// Require checks a condition; the message, formatted as by fmt.Sprintf, states it.
func (b *OpBuilder) Require(ok bool, format string, args ...any) {
	if b.OK() {
		b.op.require(ok, format, args...)
	}
}

// RequireType requires that an operand has one of the types.
func (b *OpBuilder) RequireType(what string, t *Tensor, allowed ...Type) {
	if b.OK() {
		b.op.types(what, t, allowed...)
	}
}

// RequireSameShape requires equal shapes.
func (b *OpBuilder) RequireSameShape(x, y *Tensor) {
	if b.OK() {
		b.op.sameShape(x, y)
	}
}

// RequireContiguous requires the strides of a new tensor, including dimensions of size 1.
func (b *OpBuilder) RequireContiguous(what string, t *Tensor) {
	if b.OK() {
		b.op.canonicalStrides(what, t)
	}
}

// RequireContiguousRows requires that the elements of each row are adjacent.
func (b *OpBuilder) RequireContiguousRows(what string, t *Tensor) {
	if b.OK() {
		b.op.contiguousRows(what, t)
	}
}

// RequireNoOverlap requires that an operand that the op writes shares no memory with the operands
// that it reads.
func (b *OpBuilder) RequireNoOverlap(written *Tensor, read ...*Tensor) {
	if b.OK() {
		b.op.noOverlap(written, read...)
	}
}

// Native makes a contiguous tensor of the type and shape [ne0, ne1, …] that the op computes from
// the operands, at most [MaxOperands]. It copies params, at most [MaxNativeParams] bytes. C:
// ggml_custom_4d.
func (b *OpBuilder) Native(op *NativeOp, params []byte, t Type, shape ...int64) *Tensor {
	b = made(b)
	return b.end(func(call *opCall) *Tensor {
		call.checkShape(t, shape)
		ne := [MaxDims]C.int64_t{1, 1, 1, 1}
		for i := range min(len(shape), MaxDims) {
			ne[i] = C.int64_t(shape[i])
		}
		return call.native(op, params, false, t, &ne)
	})
}

// NativeInPlace is [OpBuilder.Native], in place: the op writes the first operand, and the result is
// a view of it. No elements of that operand may share memory. C: ggml_custom_inplace.
func (b *OpBuilder) NativeInPlace(op *NativeOp, params []byte) *Tensor {
	b = made(b)
	return b.end(func(call *opCall) *Tensor {
		call.require(len(call.operands) > 0, "an op in place needs an operand")
		if call.arena != nil {
			call.writable("the first operand", call.operands[0])
		}
		return call.native(op, params, true, F32, nil)
	})
}

// Compose makes the op from other ops, which f builds after the checks have passed. f may use the
// context.
func (b *OpBuilder) Compose(f func() *Tensor) *Tensor {
	b = made(b)
	return b.end(func(call *opCall) *Tensor { return call.composed(f) })
}

// native ends an op that a C function computes.
func (op *opCall) native(n *NativeOp, params []byte, inplace bool, t Type, ne *[MaxDims]C.int64_t) *Tensor {
	if err := n.register(); err != nil {
		op.require(false, "%s", err.Error())
	}
	op.require(len(params) <= MaxNativeParams, "there are %d bytes of parameters; at most %d fit", len(params), MaxNativeParams)
	if op.arena == nil {
		return op.done(C.goggml_tensor{})
	}
	var x [maxCustom]*C.struct_ggml_tensor
	for i, operand := range op.operands {
		x[i] = operand.t
	}
	native := C.struct_goggml_native_op{function: C.ggml_custom_op_t(n.Func)}
	for i, p := range params {
		native.params[i] = C.char(p)
	}
	var first *C.int64_t
	if ne != nil {
		first = &ne[0]
	}
	called := false
	defer func() {
		if !called { // cgo panics if Func is Go memory
			op.end()
		}
	}()
	r := C.goggml_op_native(op.arena, &native, C.bool(inplace), C.goggml_type(t), first, &x[0], C.int(len(op.operands)))
	called = true
	return op.done(r)
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// MaxDims is the number of dimensions of every tensor. C: GGML_MAX_DIMS.
const MaxDims = C.GGML_MAX_DIMS

// A Tensor is a node of a graph, or a place for data: a type, a shape [ne0, ne1, ne2, ne3] with ne0
// the fastest dimension, and, once allocated, memory in a [Buffer]. It belongs to the [Context]
// that made it. If the context is closed, or the op failed, methods without an error find no data,
// name or op: they return 0, "", nil or false, and set nothing.
//
// Two *Tensor may stand for the same tensor; Is reports that. Reading the shape and type is safe
// for concurrent use; the data is safe if no goroutine writes it while another reads or writes it.
// C: struct ggml_tensor.
type Tensor struct {
	ctx *Context
	t   *C.struct_ggml_tensor // nil if it stands for a failed op
	err error                 // error of that op
	typ Type
	ne  [4]int64

	observed *atomic.Bool // set while a callback looks at the tensor; usually nil
}

func tensorOf(c *Context, t *C.struct_ggml_tensor) Tensor {
	return Tensor{ctx: c, t: t, typ: Type(t._type), ne: [4]int64{
		int64(t.ne[0]), int64(t.ne[1]), int64(t.ne[2]), int64(t.ne[3]),
	}}
}

func newTensor(c *Context, t *C.struct_ggml_tensor) *Tensor {
	tensor := tensorOf(c, t)
	return &tensor
}

// failure returns why there is no C tensor: an op has failed, or the tensor is a zero value.
func (t *Tensor) failure() error {
	if t.err == nil {
		return zeroError()
	}
	return t.err
}

// ptr returns the C tensor, nil for a nil tensor and for a failed op.
func (t *Tensor) ptr() *C.struct_ggml_tensor {
	if t == nil {
		return nil
	}
	return t.t
}

// Context returns the context that made the tensor.
func (t *Tensor) Context() *Context {
	t = made(t)
	return t.ctx
}

// Type returns the type of the elements.
func (t *Tensor) Type() Type {
	t = made(t)
	return t.typ
}

// Dim returns the size of dimension i (0 is the fastest), 1 beyond the last.
func (t *Tensor) Dim(i int) int64 {
	if t == nil || i < 0 || i >= MaxDims {
		return 1
	}
	return t.ne[i]
}

// Shape returns [ne0, ne1, …] without trailing ones, at least one dimension.
func (t *Tensor) Shape() []int64 {
	t = made(t)
	return append([]int64(nil), t.ne[:t.NumDims()]...)
}

// NumDims returns the number of dimensions without trailing ones, at least 1. C: ggml_n_dims.
func (t *Tensor) NumDims() int {
	t = made(t)
	for i := MaxDims - 1; i > 0; i-- {
		if t.ne[i] != 1 {
			return i + 1
		}
	}
	return 1
}

// NumElements returns the product of the sizes. C: ggml_nelements.
func (t *Tensor) NumElements() int64 {
	t = made(t)
	return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]
}

// NumRows returns the number of rows of ne0 elements. C: ggml_nrows.
func (t *Tensor) NumRows() int64 {
	t = made(t)
	return t.ne[1] * t.ne[2] * t.ne[3]
}

// NumBytes returns the bytes from the first element to the last, including the gaps of a view. C:
// ggml_nbytes.
func (t *Tensor) NumBytes() int64 {
	var n int64
	t.withRef(func() { n = int64(C.ggml_nbytes(t.t)) })
	return n
}

// NumBytesPadded returns NumBytes rounded up to ggml's memory alignment. Plumbing: programs rarely
// need it. C: ggml_nbytes_pad.
func (t *Tensor) NumBytesPadded() int64 {
	var n int64
	t.withRef(func() { n = int64(C.ggml_nbytes_pad(t.t)) })
	return n
}

// Stride returns the distance in bytes between neighbours in dimension i, for dimension 0 between
// blocks; 0 beyond the last dimension. C: nb of struct ggml_tensor.
func (t *Tensor) Stride(i int) int64 {
	if i < 0 || i >= MaxDims {
		return 0
	}
	var n int64
	t.withRef(func() { n = int64(t.t.nb[i]) })
	return n
}

// withRef runs f with the C tensor retained. If the context is closed or the op failed, f does not
// run.
func (t *Tensor) withRef(f func()) {
	if t == nil || t.t == nil || t.ctx.h.acquire() != nil {
		return
	}
	defer t.ctx.h.release()
	f()
}

// IsContiguous reports whether the data has no gaps and no permutation.
// C: ggml_is_contiguous.
func (t *Tensor) IsContiguous() bool {
	var yes bool
	t.withRef(func() { yes = t.contiguous() })
	return yes
}

// cutsBlocks reports whether the blocks of a quantised type lie along a dimension other than 0:
// ggml then overestimates the bytes. The caller retains the context.
func (t *Tensor) cutsBlocks() bool { return t.typ.BlockSize() > 1 && !t.hasContiguousRows() }

// IsView reports whether the tensor shares another one's data. C: ggml_is_view.
func (t *Tensor) IsView() bool {
	var yes bool
	t.withRef(func() { yes = t.t.view_src != nil })
	return yes
}

// IsAllocated reports whether the tensor has memory.
func (t *Tensor) IsAllocated() bool {
	if t == nil || t.t == nil {
		return false
	}
	release, err := retain(t.ctx.withDependencies())
	if err != nil {
		return false
	}
	defer release()
	return bool(C.goggml_has_memory(t.t))
}

// Is reports whether both stand for the same tensor.
func (t *Tensor) Is(u *Tensor) bool {
	return t != nil && u != nil && t.t != nil && t.t == u.t
}

// Name returns the name, or "". C: ggml_get_name.
func (t *Tensor) Name() string {
	var name string
	t.withRef(func() {
		t.ctx.mu.Lock()
		defer t.ctx.mu.Unlock()
		name = C.GoString(&t.t.name[0])
	})
	return name
}

// MaxName is the maximum length of a tensor's name in bytes; SetName truncates longer names. C:
// GGML_MAX_NAME less the terminator.
const MaxName = C.GGML_MAX_NAME - 1

// SetName names the tensor and returns it. C: ggml_set_name.
func (t *Tensor) SetName(name string) *Tensor {
	name = clipped(name)
	t.withRef(func() {
		t.ctx.mu.Lock()
		defer t.ctx.mu.Unlock()
		withCString(name, func(s *C.char) struct{} {
			C.ggml_set_name(t.t, s)
			return struct{}{}
		})
	})
	return t
}

// SetNamef is SetName with a name formatted as by fmt.Sprintf. C: ggml_format_name.
func (t *Tensor) SetNamef(format string, args ...any) *Tensor {
	return t.SetName(fmt.Sprintf(format, args...))
}

// clipped truncates a name to the length that a tensor can hold, between two characters.
func clipped(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	if len(name) <= MaxName {
		return name
	}
	end := MaxName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

// Op returns the name of the op that makes the tensor, "none" for a leaf; for a [NativeOp] its own
// name. C: ggml_op_desc.
func (t *Tensor) Op() string {
	op := "none"
	t.withRef(func() { op = opName(t.t) })
	return op
}

// opName returns the name of the op that makes the tensor, whose context is retained.
func opName(t *C.struct_ggml_tensor) string {
	if op := nativeOp(t); op != nil {
		return op.Name
	}
	return strings.ToLower(C.GoString(C.ggml_op_desc(t)))
}

// SetInput marks a tensor that the caller writes before each compute: the
// graph allocator gives its memory to other tensors only once the graph has
// read it. It returns the tensor. C: ggml_set_input.
func (t *Tensor) SetInput() *Tensor { return t.flag(C.GGML_TENSOR_FLAG_INPUT) }

// SetOutput marks a tensor that the caller reads after a compute: the graph allocator does not
// reuse its memory, nor the memory of its source if it is a view. It returns the tensor. C:
// ggml_set_output.
func (t *Tensor) SetOutput() *Tensor { return t.flag(C.GGML_TENSOR_FLAG_OUTPUT) }

// SetParam marks a tensor to train; it returns the tensor. C: ggml_set_param.
func (t *Tensor) SetParam() *Tensor { return t.flag(C.GGML_TENSOR_FLAG_PARAM) }

// SetLoss marks the value that training minimises; it returns the tensor. C: ggml_set_loss.
func (t *Tensor) SetLoss() *Tensor { return t.flag(C.GGML_TENSOR_FLAG_LOSS) }

func (t *Tensor) flag(f C.int32_t) *Tensor {
	if t == nil || t.t == nil {
		return t
	}
	release, err := retain(t.ctx.withDependencies())
	if err != nil {
		return t
	}
	defer release()
	t.ctx.mu.Lock()
	defer t.ctx.mu.Unlock()
	C.goggml_set_flag(t.t, f)
	return t
}

// operand describes the tensor for an error message.
func (t *Tensor) operand() Operand {
	if t == nil {
		return Operand{Name: "nil"}
	}
	if t.t == nil && t.err == nil {
		return Operand{Name: "(zero value)"}
	}
	if t.t == nil {
		return Operand{Name: "(failed op)"}
	}
	o := Operand{Name: "(closed)", Type: t.typ, Shape: t.Shape()}
	if t.ctx.h.acquire() == nil {
		defer t.ctx.h.release()
		// No lock: the caller may hold the context's.
		o.Name = t.label()
	}
	return o
}

// madeUpName matches the names that ggml generates for views of unnamed tensors and for nodes of a
// graph.
var madeUpName = regexp.MustCompile(`^( \(.*|(node|leaf)_\d+.*)?$`)

// label returns the name, or the op if there is no name.
func (t *Tensor) label() string {
	name := C.GoString(&t.t.name[0])
	switch {
	case !madeUpName.MatchString(name):
		return name
	case t.t.op == C.GGML_OP_NONE:
		return "leaf"
	}
	return opName(t.t) + "()"
}

// String returns the name, type and shape of the tensor.
func (t *Tensor) String() string { return t.operand().String() }

// errorf returns an error about one tensor.
func (t *Tensor) errorf(cause error, format string, args ...any) error {
	return callError(cause, fmt.Sprintf(format, args...), t.operand())
}

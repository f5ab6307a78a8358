package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// An Element is a Go type that holds one element of a tensor type: float32
// for F32, Float16 for F16, BFloat16 for BF16, and so on.
type Element interface {
	float32 | float64 | int8 | int16 | int32 | int64 | Float16 | BFloat16
}

// elementType is the tensor type that T holds.
func elementType[T Element]() Type {
	var x T
	switch any(x).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case Float16:
		return F16
	default:
		return BF16
	}
}

func asBytes[T Element](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// Write fills a tensor: src holds all its elements in order, ne0 fastest. The
// tensor has the type of T and is allocated; a view with gaps is written in
// the order of its elements. C: ggml_backend_tensor_set.
func Write[T Element](t *Tensor, src []T) error {
	if err := checkElements[T]("set", t, len(src)); err != nil {
		return err
	}
	if t.Contiguous() {
		return t.WriteBytes(asBytes(src), 0)
	}
	// Keep what lies in the gaps.
	raw := make([]byte, t.NumBytes())
	if err := t.ReadBytes(raw, 0); err != nil {
		return err
	}
	size := int(unsafe.Sizeof(src[0]))
	data := asBytes(src)
	t.eachElement(func(i, offset int64) {
		copy(raw[offset:offset+int64(size)], data[i*int64(size):])
	})
	return t.WriteBytes(raw, 0)
}

// Read returns all elements of a tensor in order, ne0 fastest; the tensor has
// the type of T. See [ReadInto].
func Read[T Element](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, t.errorf("get", nil, "there is no tensor")
	}
	dst := make([]T, t.NumElements())
	if err := ReadInto(dst, t); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReadInto fills dst with all elements of a tensor in order, ne0 fastest; a
// view with gaps or permutation too. The tensor has the type of T, is
// allocated, and is not a graph's intermediate result: see [Tensor.SetOutput].
// C: ggml_backend_tensor_get.
func ReadInto[T Element](dst []T, t *Tensor) error {
	if err := checkElements[T]("get", t, len(dst)); err != nil {
		return err
	}
	if t.Contiguous() {
		return t.ReadBytes(asBytes(dst), 0)
	}
	raw := make([]byte, t.NumBytes())
	if err := t.ReadBytes(raw, 0); err != nil {
		return err
	}
	size := int64(unsafe.Sizeof(dst[0]))
	data := asBytes(dst)
	t.eachElement(func(i, offset int64) {
		copy(data[i*size:(i+1)*size], raw[offset:offset+size])
	})
	return nil
}

func checkElements[T Element](op string, t *Tensor, n int) error {
	if t == nil || t.t == nil {
		return t.errorf(op, nil, "there is no tensor: it is nil or comes from an op that failed")
	}
	if want := elementType[T](); t.typ != want {
		return t.errorf(op, nil, "the tensor has type %v, the slice holds %v", t.typ, want)
	}
	if int64(n) != t.NumElements() {
		return t.errorf(op, nil, "the tensor has %d elements, the slice %d", t.NumElements(), n)
	}
	return nil
}

// eachElement gives the offset in bytes of each element, in order.
func (t *Tensor) eachElement(f func(i, offset int64)) {
	var nb [MaxDims]int64
	for d := range nb {
		nb[d] = t.Stride(d)
	}
	var i int64
	for i3 := range t.ne[3] {
		for i2 := range t.ne[2] {
			for i1 := range t.ne[1] {
				row := i1*nb[1] + i2*nb[2] + i3*nb[3]
				for i0 := range t.ne[0] {
					f(i, row+i0*nb[0])
					i++
				}
			}
		}
	}
}

// Float32s returns all elements of a tensor of any type as float32, in order,
// dequantising them.
func (t *Tensor) Float32s() ([]float32, error) {
	if t != nil && t.typ == F32 {
		return Read[float32](t)
	}
	if t == nil || t.t == nil {
		return nil, t.errorf("get", nil, "there is no tensor: it is nil or comes from an op that failed")
	}
	if !t.Contiguous() {
		return nil, t.errorf("get", nil, "the tensor must be contiguous to be converted; call Cont")
	}
	raw := make([]byte, t.NumBytes())
	if err := t.ReadBytes(raw, 0); err != nil {
		return nil, err
	}
	dst := make([]float32, t.NumElements())
	return dst, Dequantize(dst, t.typ, raw)
}

// SetFloat32s fills a tensor of any float or quantised type from float32.
func (t *Tensor) SetFloat32s(src []float32) error {
	if t != nil && t.typ == F32 {
		return Write(t, src)
	}
	if t == nil || t.t == nil {
		return t.errorf("set", nil, "there is no tensor: it is nil or comes from an op that failed")
	}
	if int64(len(src)) != t.NumElements() {
		return t.errorf("set", nil, "the tensor has %d elements, the slice %d", t.NumElements(), len(src))
	}
	raw := make([]byte, t.typ.RowSize(t.ne[0])*t.NumRows())
	if err := Quantize(raw, t.typ, src, int(t.ne[0]), nil); err != nil {
		return err
	}
	return t.WriteBytes(raw, 0)
}

// WriteBytes writes raw data at an offset in bytes from the tensor's start.
// C: ggml_backend_tensor_set.
func (t *Tensor) WriteBytes(p []byte, offset int64) error {
	if t.inGraphMemory(C.GGML_TENSOR_FLAG_INPUT) {
		return t.errorf("set", nil, "the graph may overwrite this tensor before it is used; call SetInput on it before the graph is allocated")
	}
	return t.access("set", len(p), offset, func() *C.char {
		return C.goggml_tensor_set(t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// ReadBytes reads raw data at an offset in bytes from the tensor's start.
// C: ggml_backend_tensor_get.
func (t *Tensor) ReadBytes(p []byte, offset int64) error {
	if t.inGraphMemory(C.GGML_TENSOR_FLAG_OUTPUT) {
		return t.errorf("get", nil, "the graph may have reused the memory of this tensor; call SetOutput on it before the graph is allocated")
	}
	return t.access("get", len(p), offset, func() *C.char {
		return C.goggml_tensor_get(t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// Fill sets every byte of the tensor. C: ggml_backend_tensor_memset.
func (t *Tensor) Fill(value byte) error {
	n := t.NumBytes()
	return t.access("memset", int(n), 0, func() *C.char {
		return C.goggml_tensor_memset(t.t, C.uint8_t(value), 0, C.size_t(n))
	})
}

// access runs f with the tensor's data held in place, after the checks that
// C leaves to an assertion or a crash.
func (t *Tensor) access(op string, n int, offset int64, f func() *C.char) error {
	if t == nil || t.t == nil {
		return t.errorf(op, nil, "there is no tensor: it is nil or comes from an op that failed")
	}
	unpin, err := pin(t.ctx.closure())
	if err != nil {
		return t.errorf(op, err, "%v", err)
	}
	defer unpin()
	root := t.t
	if root.view_src != nil {
		root = root.view_src
	}
	if t.t.data == nil || root.data == nil || root.buffer == nil {
		return t.errorf(op, ErrNotAllocated, "the tensor has no memory; allocate its context or its graph first")
	}
	if size := int64(C.ggml_nbytes(t.t)); offset < 0 || offset > size || int64(n) > size-offset {
		return t.errorf(op, nil, "bytes %d to %d are beyond the tensor, which has %d", offset, offset+int64(n), size)
	}
	if n == 0 {
		return nil // C would have no pointer to give to f
	}
	if err := guardError(f()); err != nil {
		return t.errorf(op, nil, "%v", err)
	}
	return nil
}

// inGraphMemory tells whether a graph allocator placed the tensor, in memory
// that it shares among the results of the graph, and the tensor lacks the flag.
func (t *Tensor) inGraphMemory(without C.int32_t) bool {
	var yes bool
	t.inspect(func() {
		root := t.t
		if root.view_src != nil {
			root = root.view_src
		}
		yes = root.buffer != nil && root.flags&without == 0 &&
			C.ggml_backend_buffer_get_usage(root.buffer) == C.GGML_BACKEND_BUFFER_USAGE_COMPUTE
	})
	return yes
}

// CopyTensor copies the data of src to dst, which has the same shape, type
// and layout, and may lie on another device. C: ggml_backend_tensor_copy.
func CopyTensor(dst, src *Tensor) error {
	if src == nil || src.t == nil || dst == nil || dst.t == nil {
		return fmt.Errorf("ggml: tensor_copy: there is no tensor: one is nil or comes from an op that failed")
	}
	if src.typ != dst.typ || src.ne != dst.ne || !bool(C.ggml_are_same_stride(src.t, dst.t)) {
		return &OpError{Op: "tensor_copy", Operands: []Operand{src.operand(), dst.operand()}, Reason: "type, shape and layout must be equal", Caller: callerLine()}
	}
	if err := src.access("tensor_copy", 0, 0, nil); err != nil {
		return err
	}
	unpin, err := pin(src.ctx.closure())
	if err != nil {
		return err
	}
	defer unpin()
	return dst.access("tensor_copy", int(dst.NumBytes()), 0, func() *C.char { return C.goggml_tensor_copy(src.t, dst.t) })
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
	"github.com/goggml/ggml/internal/testhook"
)

// An Element is a Go type that holds one element of a tensor type: float32
// for F32, Float16 for F16, BFloat16 for BF16, and so on.
type Element interface {
	float32 | float64 | int8 | int16 | int32 | int64 | Float16 | BFloat16
}

// elementType returns the tensor type whose elements are T.
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

// Write fills a tensor: src contains all its elements in order, ne0 fastest. The tensor must have
// the type of T and be allocated; a view with gaps is written in the order of its elements. C:
// ggml_backend_tensor_set.
func Write[T Element](t *Tensor, src []T) error {
	if err := checkElements[T](t, len(src)); err != nil {
		return err
	}
	return t.scatter(asBytes(src))
}

// Read returns all elements of a tensor in order, ne0 fastest; the tensor must have the type of T.
// See [ReadInto].
func Read[T Element](t *Tensor) ([]T, error) {
	if err := t.readable(); err != nil {
		return nil, err
	}
	dst := make([]T, t.NumElements())
	if err := ReadInto(dst, t); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReadInto fills dst with all elements of a tensor in order, ne0 fastest, also for a view with gaps
// or permutation. The tensor must have the type of T, be allocated, and not be an intermediate
// result of a graph: see [Tensor.SetOutput]. C: ggml_backend_tensor_get.
func ReadInto[T Element](dst []T, t *Tensor) error {
	if err := checkElements[T](t, len(dst)); err != nil {
		return err
	}
	return t.gather(asBytes(dst))
}

func checkElements[T Element](t *Tensor, n int) error {
	if err := t.missing(); err != nil {
		return err
	}
	if want := elementType[T](); t.typ != want {
		return t.errorf(nil, "the tensor has type %v, the slice holds %v", t.typ, want)
	}
	return t.fits(n)
}

func (t *Tensor) fits(n int) error {
	if int64(n) != t.NumElements() {
		return t.errorf(nil, "the tensor has %d elements, the slice %d", t.NumElements(), n)
	}
	return nil
}

// missing returns the error of using an invalid tensor: nil, or one that stands for a failed op,
// with that op's error.
func (t *Tensor) missing() error {
	if t == nil {
		return t.errorf(errNil, "the tensor is nil")
	}
	if t.t == nil {
		return t.failure()
	}
	return nil
}

// readable returns why the data cannot be read, or nil; called before allocating memory for it.
func (t *Tensor) readable() error {
	if err := t.access(0, 0, reads, nil); err != nil {
		return err
	}
	return t.compact()
}

// writable returns why the data cannot be written, or nil; called before allocating memory for it.
func (t *Tensor) writable() error {
	if err := t.access(0, 0, writesAll, nil); err != nil {
		return err
	}
	return t.compact()
}

// compact requires that a contiguous copy is not much larger than the tensor. It may be for a view
// whose elements share memory, and the Go runtime ends the process if memory is short.
func (t *Tensor) compact() error {
	const much = 1 << 28
	if n := t.packedSize(); n > much && n > t.NumBytes() {
		return t.errorf(nil, "the elements of this view share memory, and take %d bytes as a copy; that is too much", n)
	}
	return nil
}

// Float32s returns all elements of a tensor of any type in order, converted to float32.
func (t *Tensor) Float32s() ([]float32, error) {
	t = made(t)
	if err := t.readable(); err != nil {
		return nil, err
	}
	dst := make([]float32, t.NumElements())
	if t.typ == F32 {
		return dst, t.gather(asBytes(dst))
	}
	raw := make([]byte, t.packedSize())
	if err := t.gather(raw); err != nil {
		return nil, err
	}
	return dst, Dequantize(dst, t.typ, raw)
}

// SetNormal fills a tensor of any float or quantised type with random numbers of a normal
// distribution, for example to initialise weights.
func (t *Tensor) SetNormal(r *rand.Rand, mean, deviation float64) error {
	t = made(t)
	if err := t.writable(); err != nil {
		return err
	}
	if r == nil {
		return t.errorf(nil, "the source of random numbers is nil")
	}
	values := make([]float32, t.NumElements())
	for i := range values {
		values[i] = float32(mean + deviation*r.NormFloat64())
	}
	return t.SetFloat32s(values)
}

// SetFloat32s fills a tensor of any float or quantised type from float32; a
// quantised one takes finite values only, see [Quantize].
func (t *Tensor) SetFloat32s(src []float32) error {
	t = made(t)
	if err := t.missing(); err != nil {
		return err
	}
	if err := t.fits(len(src)); err != nil {
		return err
	}
	switch t.typ {
	case F32:
		return t.scatter(asBytes(src))
	case F16:
		return t.scatter(asBytes(converted(src, ToFloat16)))
	case BF16:
		return t.scatter(asBytes(converted(src, ToBFloat16)))
	}
	raw := make([]byte, t.packedSize())
	if err := Quantize(raw, t.typ, src, QuantizeOptions{RowLen: int(t.ne[0])}); err != nil {
		return err
	}
	return t.scatter(raw)
}

// converted converts src to another type, including infinities.
func converted[T Element](src []float32, f func(float32) T) []T {
	dst := make([]T, len(src))
	for i, x := range src {
		dst[i] = f(x)
	}
	return dst
}

// packedSize returns the size of the elements in bytes, without gaps.
func (t *Tensor) packedSize() int64 { return t.typ.RowSize(t.ne[0]) * t.NumRows() }

// gather reads the elements, in order and without gaps.
func (t *Tensor) gather(dst []byte) error {
	if t.IsContiguous() {
		return t.read(dst, 0)
	}
	if err := t.readable(); err != nil {
		return err
	}
	if t.sparse() {
		return t.eachRow(func(i, offset int64) error { return t.read(dst[i:i+t.typ.RowSize(t.ne[0])], offset) })
	}
	raw := make([]byte, t.NumBytes())
	if err := t.read(raw, 0); err != nil {
		return err
	}
	size := t.typ.BlockBytes()
	t.eachBlock(func(i, offset int64) { copy(dst[i*size:(i+1)*size], raw[offset:]) })
	return nil
}

// sparse reports whether the gaps between rows are too large to be read along.
func (t *Tensor) sparse() bool {
	const much, far = 1 << 24, 1 << 16
	n := t.NumBytes()
	return n > much && n > 4*t.packedSize() && n > far*t.NumRows() && t.Stride(0) == t.typ.BlockBytes()
}

// eachRow calls f with the offset in bytes of each row, without gaps and with them, until the first
// error.
func (t *Tensor) eachRow(f func(i, offset int64) error) error {
	row := t.typ.RowSize(t.ne[0])
	nb := [MaxDims]int64{row, t.Stride(1), t.Stride(2), t.Stride(3)}
	for i := range t.NumRows() {
		offset := i%t.ne[1]*nb[1] + i/t.ne[1]%t.ne[2]*nb[2] + i/t.ne[1]/t.ne[2]*nb[3]
		if err := f(i*row, offset); err != nil {
			return err
		}
	}
	return nil
}

// scatter writes the elements, given in order and without gaps.
func (t *Tensor) scatter(src []byte) error {
	if t.IsContiguous() {
		return t.write(src, 0)
	}
	if err := t.writable(); err != nil {
		return err
	}
	if t.sparse() {
		return t.eachRow(func(i, offset int64) error { return t.write(src[i:i+t.typ.RowSize(t.ne[0])], offset) })
	}
	// Keep the contents of the gaps.
	raw := make([]byte, t.NumBytes())
	if err := t.readFor(raw, 0, writesAll); err != nil {
		return err
	}
	size := t.typ.BlockBytes()
	t.eachBlock(func(i, offset int64) { copy(raw[offset:], src[i*size:(i+1)*size]) })
	return t.write(raw, 0)
}

// eachBlock calls f with the offset in bytes of each block (or element, if the type has no blocks)
// in order.
func (t *Tensor) eachBlock(f func(i, offset int64)) {
	var nb [MaxDims]int64
	for d := range nb {
		nb[d] = t.Stride(d)
	}
	var i int64
	for i3 := range t.ne[3] {
		for i2 := range t.ne[2] {
			for i1 := range t.ne[1] {
				row := i1*nb[1] + i2*nb[2] + i3*nb[3]
				for i0 := range t.ne[0] / t.typ.BlockSize() {
					f(i, row+i0*nb[0])
					i++
				}
			}
		}
	}
}

// WriteAt writes raw data at an offset in bytes from the tensor's start: all of p,
// or nothing. The tensor is an [io.WriterAt]. C: ggml_backend_tensor_set.
func (t *Tensor) WriteAt(p []byte, offset int64) (n int, err error) {
	t = made(t)
	if err := t.write(p, offset); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *Tensor) write(p []byte, offset int64) error {
	return t.access(len(p), offset, writesAll, func() *C.char {
		if bool(C.goggml_is_repacked(t.t)) {
			return t.writeRepacked(p, offset)
		}
		return C.goggml_tensor_set(t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// writeRepacked writes to memory that repacks the matrix, which may use OpenMP.
func (t *Tensor) writeRepacked(p []byte, offset int64) *C.char {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	chunk := &C.goggml_chunk{data: unsafe.Pointer(&p[0]), offset: C.size_t(offset), size: C.size_t(len(p))}
	pinner.Pin(&p[0])
	pinner.Pin(chunk)
	r, err := computethread.Job{Func: C.goggml_tensor_set_chunk, A: unsafe.Pointer(t.t), B: unsafe.Pointer(chunk)}.Run()
	if err != nil {
		return C.CString(err.Error())
	}
	return (*C.char)(r.Error)
}

// ReadAt reads raw data at an offset in bytes from the tensor's start: all of p, or nothing. The
// tensor is an [io.ReaderAt]: an [io.SectionReader] of its [Tensor.NumBytes] reads the data as a
// stream. C: ggml_backend_tensor_get.
func (t *Tensor) ReadAt(p []byte, offset int64) (n int, err error) {
	t = made(t)
	if err := t.read(p, offset); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *Tensor) read(p []byte, offset int64) error {
	return t.readFor(p, offset, reads)
}

// readFor is ReadAt for a call with the given use of the data.
func (t *Tensor) readFor(p []byte, offset int64, use dataUse) error {
	testhook.Reads.Add(1)
	testhook.BytesRead.Add(int64(len(p)))
	return t.access(len(p), offset, use, func() *C.char {
		return C.goggml_tensor_get(t.t, unsafe.Pointer(&p[0]), C.size_t(offset), C.size_t(len(p)))
	})
}

// Memset sets every byte of the elements; Memset(0) makes zeros of any type.
// [Tensor.Fill] sets every element to a number.
// C: ggml_backend_tensor_memset, ggml_set_zero.
func (t *Tensor) Memset(value byte) error {
	t = made(t)
	if err := t.missing(); err != nil {
		return err
	}
	if !t.IsContiguous() {
		if err := t.writable(); err != nil {
			return err
		}
		return t.scatter(bytes.Repeat([]byte{value}, int(t.packedSize())))
	}
	n := t.NumBytes()
	return t.access(int(n), 0, writes, func() *C.char {
		return C.goggml_tensor_memset(t.t, C.uint8_t(value), 0, C.size_t(n))
	})
}

// A dataUse describes how a call uses the data of a tensor.
type dataUse int

const (
	reads dataUse = iota
	writes
	writesAll // allowed for repacked weights if it covers all of them
)

// flag returns the flag that a tensor in a graph's memory needs for the use.
func (u dataUse) flag() C.int32_t {
	if u == reads {
		return C.GGML_TENSOR_FLAG_OUTPUT
	}
	return C.GGML_TENSOR_FLAG_INPUT
}

// access runs f with the tensor's data retained, after checks that replace assertions and crashes
// in C.
func (t *Tensor) access(n int, offset int64, use dataUse, f func() *C.char) error {
	release, err := t.retain()
	if err != nil {
		return err
	}
	defer release()
	return t.accessRetained(n, offset, use, f)
}

// retain keeps the contexts of a valid tensor until release.
func (t *Tensor) retain() (release func(), err error) {
	if err := t.missing(); err != nil {
		return nil, err
	}
	if release, err = retainChecked(t.ctx.withDependencies()); err != nil {
		return nil, during(err, t.operand())
	}
	return release, nil
}

// accessRetained is access for a tensor that is retained already.
func (t *Tensor) accessRetained(n int, offset int64, use dataUse, f func() *C.char) error {
	if err := t.checkAccess(int64(n), offset, use); err != nil || n == 0 {
		return err // with 0 bytes there is no pointer for C
	}
	if err := guardError(f()); err != nil {
		return t.errorf(nil, "%v", err)
	}
	return t.present()
}

// checkAccess returns why n bytes of a retained tensor cannot be used, or nil.
func (t *Tensor) checkAccess(n, offset int64, use dataUse) error {
	if err := t.accessible(use); err != nil {
		return err
	}
	if size := int64(C.ggml_nbytes(t.t)); offset < 0 || offset > size || n > size-offset {
		return t.errorf(nil, "%d bytes at offset %d reach beyond the tensor, which has %d", n, offset, size)
	}
	return t.checkRepacked(int(n), offset, use)
}

// present returns why the data of a retained tensor is gone, or nil.
func (t *Tensor) present() error {
	if err := deviceErr(t.memoryDevice()); err != nil {
		return t.errorf(err, "%v", err)
	}
	return nil
}

// root returns the tensor that owns the memory: the source of a view, else t.
func (t *Tensor) root() *C.struct_ggml_tensor {
	if t.t.view_src != nil {
		return t.t.view_src
	}
	return t.t
}

// memoryDevice returns the device of a retained tensor's memory; nil for system memory.
func (t *Tensor) memoryDevice() C.ggml_backend_dev_t {
	if b := t.root().buffer; b != nil {
		return deviceOf(C.ggml_backend_buffer_get_type(b))
	}
	return nil
}

// accessible returns why the data cannot be used now, or nil. The caller retains the context.
func (t *Tensor) accessible(use dataUse) error {
	root := t.root()
	if !bool(C.goggml_has_memory(t.t)) || root.buffer == nil {
		return t.errorf(ErrNotAllocated, "the tensor has no memory; allocate its context or its graph first")
	}
	if t.cutsBlocks() {
		return t.errorf(nil, "the blocks of its type do not lie along its rows; use the view's source")
	}
	origin := C.goggml_origin(t.t)
	if use == reads && origin.op != C.GGML_OP_NONE && origin.flags&C.GGML_TENSOR_FLAG_COMPUTE == 0 {
		return t.errorf(nil, "no graph computes this tensor; add it by Expand, or choose its branch by Select")
	}
	// A graph allocator shares its memory among the results of the graph.
	seen := use == reads && t.observed != nil && t.observed.Load()
	if seen || root.flags&use.flag() != 0 || C.ggml_backend_buffer_get_usage(root.buffer) != C.GGML_BACKEND_BUFFER_USAGE_COMPUTE {
		return nil
	}
	if use != reads {
		return t.errorf(nil, "the graph may overwrite this tensor before it is used; call SetInput on it before the graph is allocated")
	}
	return t.errorf(nil, "the graph may have reused the memory of this tensor; call SetOutput on it before the graph is allocated")
}

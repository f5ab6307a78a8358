package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// A Region2D is a rectangle of bytes, rows with a uniform stride, in a tensor and in a slice: a few
// columns of a matrix, or every other row. All sizes are in bytes.
type Region2D struct {
	Offset      int64 // offset of the first row from the tensor's start
	Width       int64 // size of each row
	Rows        int64 // number of rows
	Stride      int64 // from one row to the next in the tensor, at least Width
	SliceStride int64 // from one row to the next in the slice, at least Width; 0 means Width
}

// check validates the region for a slice of n bytes, and returns the bytes that it spans in the
// tensor.
func (r *Region2D) check(t *Tensor, n int) (span int64, err error) {
	if r.SliceStride == 0 {
		r.SliceStride = r.Width
	}
	if r.Offset < 0 || r.Width < 0 || r.Rows < 0 {
		return 0, t.errorf(nil, "the region has a negative offset, width or number of rows")
	}
	if r.Width == 0 || r.Rows == 0 {
		return 0, nil
	}
	if r.Rows > 1 && (r.Stride < r.Width || r.SliceStride < r.Width) {
		return 0, t.errorf(nil, "rows of %d bytes overlap at a distance of %d in the tensor and %d in the slice", r.Width, r.Stride, r.SliceStride)
	}
	if !r.fits(int64(n), r.SliceStride) {
		return 0, t.errorf(nil, "%d rows of %d bytes at a distance of %d reach beyond the slice, which has %d", r.Rows, r.Width, r.SliceStride, n)
	}
	size := t.NumBytes()
	if r.Offset > size || !r.fits(size-r.Offset, r.Stride) {
		return 0, t.errorf(nil, "%d rows of %d bytes at a distance of %d from offset %d on reach beyond the tensor, which has %d", r.Rows, r.Width, r.Stride, r.Offset, size)
	}
	return (r.Rows-1)*r.Stride + r.Width, nil
}

// fits reports whether the rows lie in n bytes, without overflow.
func (r *Region2D) fits(n, stride int64) bool {
	return r.Width <= n && (r.Rows == 1 || r.Rows-1 <= (n-r.Width)/stride)
}

func (r *Region2D) c() C.goggml_region {
	return C.goggml_region{
		offset: C.size_t(r.Offset), width: C.size_t(r.Width), rows: C.size_t(r.Rows),
		stride: C.size_t(r.Stride), memory_stride: C.size_t(r.SliceStride),
	}
}

// WriteRegion writes the rows of data to a region of the tensor; see
// [Tensor.WriteAt]. C: ggml_backend_tensor_set_2d.
func (t *Tensor) WriteRegion(data []byte, r Region2D) error {
	t = made(t)
	return t.region(data, r, writes, func(r C.goggml_region) *C.char {
		return C.goggml_tensor_set_2d(nil, t.t, unsafe.Pointer(&data[0]), r)
	})
}

// ReadRegion reads a region of the tensor into the rows of data; see
// [Tensor.ReadAt]. C: ggml_backend_tensor_get_2d.
func (t *Tensor) ReadRegion(data []byte, r Region2D) error {
	t = made(t)
	return t.region(data, r, reads, func(r C.goggml_region) *C.char {
		return C.goggml_tensor_get_2d(nil, t.t, unsafe.Pointer(&data[0]), r)
	})
}

func (t *Tensor) region(data []byte, r Region2D, use dataUse, f func(C.goggml_region) *C.char) error {
	span, err := t.checkRegion(data, &r)
	if err != nil {
		return err
	}
	return t.access(int(span), r.Offset, use, func() *C.char { return f(r.c()) })
}

func (t *Tensor) checkRegion(data []byte, r *Region2D) (span int64, err error) {
	if err := t.missing(); err != nil {
		return 0, err
	}
	if err := t.ctx.h.acquire(); err != nil {
		return 0, during(err, t.operand())
	}
	defer t.ctx.h.release()
	return r.check(t, len(data))
}

// WriteRegionAsync is [Tensor.WriteRegion] in the order of the backend's work;
// see [Backend.WriteAsync]. C: ggml_backend_tensor_set_2d_async.
func (b *Backend) WriteRegionAsync(t *Tensor, data []byte, r Region2D) error {
	return b.regionAsync(t, data, r, writes, func(r C.goggml_region) *C.char {
		return C.goggml_tensor_set_2d(b.b, t.t, unsafe.Pointer(&data[0]), r)
	})
}

// ReadRegionAsync is [Tensor.ReadRegion] in the order of the backend's work;
// see [Backend.ReadAsync]. C: ggml_backend_tensor_get_2d_async.
func (b *Backend) ReadRegionAsync(t *Tensor, data []byte, r Region2D) error {
	return b.regionAsync(t, data, r, reads, func(r C.goggml_region) *C.char {
		return C.goggml_tensor_get_2d(b.b, t.t, unsafe.Pointer(&data[0]), r)
	})
}

func (b *Backend) regionAsync(t *Tensor, data []byte, r Region2D, use dataUse, f func(C.goggml_region) *C.char) error {
	span, err := t.checkRegion(data, &r)
	if err != nil {
		return err
	}
	return b.copyAsync(t, data, span, r.Offset, use, func() *C.char { return f(r.c()) })
}

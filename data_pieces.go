package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// Pieces are parts of a tensor at equal distances, and where they lie in a
// slice: a few columns of a matrix, or every other row. All are in bytes.
type Pieces struct {
	Offset      int64 // of the first piece, from the tensor's start
	Size        int64 // of each piece
	Count       int64 // the number of pieces
	Stride      int64 // from one piece to the next in the tensor, at least Size
	SliceStride int64 // from one piece to the next in the slice, at least Size; 0 stands for Size
}

// check tells why the pieces do not fit into n bytes of a slice, and gives the
// bytes that they span in the tensor.
func (p *Pieces) check(op string, t *Tensor, n int) (span int64, err error) {
	if p.SliceStride == 0 {
		p.SliceStride = p.Size
	}
	if p.Offset < 0 || p.Size < 0 || p.Count < 0 {
		return 0, t.errorf(op, nil, "the pieces have a negative offset, size or count")
	}
	if p.Size == 0 || p.Count == 0 {
		return 0, nil
	}
	if p.Count > 1 && (p.Stride < p.Size || p.SliceStride < p.Size) {
		return 0, t.errorf(op, nil, "pieces of %d bytes overlap at a distance of %d in the tensor and %d in the slice", p.Size, p.Stride, p.SliceStride)
	}
	if !p.fits(int64(n), p.SliceStride) {
		return 0, t.errorf(op, nil, "%d pieces of %d bytes at a distance of %d reach beyond the slice, which has %d", p.Count, p.Size, p.SliceStride, n)
	}
	size := t.NumBytes()
	if p.Offset > size || !p.fits(size-p.Offset, p.Stride) {
		return 0, t.errorf(op, nil, "%d pieces of %d bytes at a distance of %d from offset %d on reach beyond the tensor, which has %d", p.Count, p.Size, p.Stride, p.Offset, size)
	}
	return (p.Count-1)*p.Stride + p.Size, nil
}

// fits tells whether the pieces lie in n bytes, without overflow.
func (p *Pieces) fits(n, stride int64) bool {
	return p.Size <= n && (p.Count == 1 || p.Count-1 <= (n-p.Size)/stride)
}

func (p *Pieces) c() C.goggml_pieces {
	return C.goggml_pieces{
		offset: C.size_t(p.Offset), size: C.size_t(p.Size), count: C.size_t(p.Count),
		stride: C.size_t(p.Stride), memory_stride: C.size_t(p.SliceStride),
	}
}

// WritePieces is [Tensor.WriteBytes] of several pieces.
// C: ggml_backend_tensor_set_2d.
func (t *Tensor) WritePieces(data []byte, p Pieces) error {
	return t.pieces("set_2d", data, p, C.GGML_TENSOR_FLAG_INPUT, func(p C.goggml_pieces) *C.char {
		return C.goggml_tensor_set_pieces(nil, t.t, unsafe.Pointer(&data[0]), p)
	})
}

// ReadPieces is [Tensor.ReadBytes] of several pieces.
// C: ggml_backend_tensor_get_2d.
func (t *Tensor) ReadPieces(data []byte, p Pieces) error {
	return t.pieces("get_2d", data, p, C.GGML_TENSOR_FLAG_OUTPUT, func(p C.goggml_pieces) *C.char {
		return C.goggml_tensor_get_pieces(nil, t.t, unsafe.Pointer(&data[0]), p)
	})
}

func (t *Tensor) pieces(op string, data []byte, p Pieces, flag C.int32_t, f func(C.goggml_pieces) *C.char) error {
	span, err := t.checkPieces(op, data, &p)
	if err != nil {
		return err
	}
	return t.access(op, int(span), p.Offset, flag, func() *C.char { return f(p.c()) })
}

func (t *Tensor) checkPieces(op string, data []byte, p *Pieces) (span int64, err error) {
	if err := t.missing(op); err != nil {
		return 0, err
	}
	if err := t.ctx.h.acquire(); err != nil {
		return 0, during(err, op, t.operand())
	}
	defer t.ctx.h.release()
	return p.check(op, t, len(data))
}

// WritePiecesAsync is [Tensor.WritePieces] in the order of the backend's work;
// see [Backend.WriteAsync]. C: ggml_backend_tensor_set_2d_async.
func (b *Backend) WritePiecesAsync(t *Tensor, data []byte, p Pieces) error {
	return b.piecesAsync("set_2d_async", t, data, p, C.GGML_TENSOR_FLAG_INPUT, func(p C.goggml_pieces) *C.char {
		return C.goggml_tensor_set_pieces(b.b, t.t, unsafe.Pointer(&data[0]), p)
	})
}

// ReadPiecesAsync is [Tensor.ReadPieces] in the order of the backend's work;
// see [Backend.ReadAsync]. C: ggml_backend_tensor_get_2d_async.
func (b *Backend) ReadPiecesAsync(t *Tensor, data []byte, p Pieces) error {
	return b.piecesAsync("get_2d_async", t, data, p, C.GGML_TENSOR_FLAG_OUTPUT, func(p C.goggml_pieces) *C.char {
		return C.goggml_tensor_get_pieces(b.b, t.t, unsafe.Pointer(&data[0]), p)
	})
}

func (b *Backend) piecesAsync(op string, t *Tensor, data []byte, p Pieces, flag C.int32_t, f func(C.goggml_pieces) *C.char) error {
	span, err := t.checkPieces(op, data, &p)
	if err != nil {
		return err
	}
	return b.async(op, t, data, span, p.Offset, flag, func() *C.char { return f(p.c()) })
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"unsafe"
)

// bytesLayout returns the layout of n bytes, n ≥ 1.
func bytesLayout(n int64) Layout {
	return Layout{I8, [MaxDims]int64{n, 1, 1, 1}, [MaxDims]int64{1, n, n, n}}
}

// bytes makes a C tensor of n bytes at an offset of the retained buffer.
func (b *Buffer) bytes(offset, n int64) *C.struct_ggml_tensor {
	t := &C.struct_ggml_tensor{buffer: b.b, data: b.at(offset)}
	bytesLayout(n).set(t)
	return t
}

// access runs f with n bytes at an offset of the buffer, which stays open meanwhile. It does not
// run f if n is 0.
func (b *Buffer) access(offset, n int64, f func(t *C.struct_ggml_tensor) *C.char) error {
	b = made(b)
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	size := b.heldSize()
	switch {
	case offset < 0 || n < 0 || offset > size || n > size-offset:
		return fmt.Errorf("ggml: %d bytes at offset %d of a buffer reach beyond its %d", n, offset, size)
	case b.heldType().repacks():
		return fmt.Errorf("ggml: the bytes of a buffer: %s repacks the weights that are placed in it; read and write tensors", b.heldType().Name())
	case n == 0:
		return nil
	}
	if err := guardError(f(b.bytes(offset, n))); err != nil {
		return fmt.Errorf("ggml: %d bytes at offset %d of a buffer: %w", n, offset, err)
	}
	return wrapDeviceErr(deviceOf(b.heldType().b))
}

// WriteAt writes all of p, or nothing, at an offset from the buffer's start, regardless of the
// tensors there. The buffer is an [io.WriterAt]. C: ggml_backend_tensor_set.
func (b *Buffer) WriteAt(p []byte, offset int64) (n int, err error) {
	err = b.access(offset, int64(len(p)), func(t *C.struct_ggml_tensor) *C.char {
		return C.goggml_tensor_set(t, unsafe.Pointer(&p[0]), 0, C.size_t(len(p)))
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadAt reads all of p, or nothing, at an offset from the buffer's start, regardless of the
// tensors there. The buffer is an [io.ReaderAt]. C: ggml_backend_tensor_get.
func (b *Buffer) ReadAt(p []byte, offset int64) (n int, err error) {
	err = b.access(offset, int64(len(p)), func(t *C.struct_ggml_tensor) *C.char {
		return C.goggml_tensor_get(t, unsafe.Pointer(&p[0]), 0, C.size_t(len(p)))
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Memset sets n bytes at an offset; [Buffer.Clear] sets all. C: ggml_backend_tensor_memset.
func (b *Buffer) Memset(value byte, offset, n int64) error {
	return b.access(offset, n, func(t *C.struct_ggml_tensor) *C.char {
		return C.goggml_tensor_memset(t, C.uint8_t(value), 0, C.size_t(n))
	})
}

// CopyAt copies n bytes from an offset of another buffer to an offset of this one. Devices copy
// directly where they can, as in [CopyTensor]. The two ranges must not overlap.
func (b *Buffer) CopyAt(offset int64, from *Buffer, fromOffset, n int64) error {
	b, from = made(b), made(from)
	if n == 0 {
		return cmp.Or(b.access(offset, 0, nil), from.access(fromOffset, 0, nil))
	}
	var fromErr error
	err := b.access(offset, n, func(dst *C.struct_ggml_tensor) *C.char {
		fromErr = from.access(fromOffset, n, func(src *C.struct_ggml_tensor) *C.char {
			if b.h == from.h && offset < fromOffset+n && fromOffset < offset+n {
				return C.CString("the parts overlap")
			}
			return C.goggml_tensor_copy(src, dst)
		})
		return nil
	})
	return cmp.Or(err, fromErr)
}

// WithBytes calls f with the memory of a buffer in system memory, for example to read a file into
// it without a copy. The memory is valid until f returns, and no computation uses it meanwhile. It
// fails for device memory: use WriteAt. C: ggml_backend_buffer_get_base.
func (b *Buffer) WithBytes(f func(memory []byte) error) error {
	b = made(b)
	if err := b.h.acquire(); err != nil {
		return err
	}
	defer b.h.release()
	switch {
	case f == nil:
		return errors.New("ggml: the bytes of a buffer: the function is nil")
	case !bool(C.ggml_backend_buffer_is_host(b.b)):
		return fmt.Errorf("ggml: the bytes of a buffer: %s is not in system memory; use ReadAt and WriteAt", b.heldType().Name())
	case b.heldSize() == 0:
		return f(nil)
	}
	return f(unsafe.Slice((*byte)(b.at(0)), b.heldSize()))
}

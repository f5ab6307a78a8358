package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// A Chunk is a run of bytes of a tensor, and its place in the slice that [WriteChunks] writes from or
// [ReadChunks] reads to. All numbers are in bytes.
type Chunk struct {
	Tensor *Tensor
	Offset int64 // from the tensor's start
	Size   int64
	At     int64 // from the slice's start
}

// chunks are the arrays that C takes.
type chunks struct {
	tensors             []*C.struct_ggml_tensor
	offsets, sizes, ats []C.size_t
}

// WriteChunks writes chunks of several tensors in one call, which some devices do at once. The tensors
// may lie on different devices; tensors of repacked weights are refused. After an error some chunks
// may have been written. C: ggml_backend_tensor_set_n.
func WriteChunks(data []byte, p ...Chunk) error {
	return transferChunks(data, p, writes, func(c chunks) *C.char {
		return C.goggml_tensor_set_n(&c.tensors[0], unsafe.Pointer(&data[0]), &c.offsets[0], &c.sizes[0], &c.ats[0], C.size_t(len(c.sizes)))
	})
}

// ReadChunks reads chunks of several tensors in one call; see [WriteChunks]. C:
// ggml_backend_tensor_get_n.
func ReadChunks(data []byte, p ...Chunk) error {
	return transferChunks(data, p, reads, func(c chunks) *C.char {
		return C.goggml_tensor_get_n(&c.tensors[0], unsafe.Pointer(&data[0]), &c.offsets[0], &c.sizes[0], &c.ats[0], C.size_t(len(c.sizes)))
	})
}

// transferChunks calls f with the chunks that are not empty, with their tensors retained.
func transferChunks(data []byte, list []Chunk, use dataUse, f func(chunks) *C.char) error {
	var c chunks
	for _, p := range list {
		t := made(p.Tensor)
		release, err := t.retain()
		if err != nil {
			return err
		}
		defer release()
		if err := p.check(t, int64(len(data)), use); err != nil {
			return err
		}
		if p.Size > 0 {
			c.tensors = append(c.tensors, t.t)
			c.offsets, c.sizes, c.ats = append(c.offsets, C.size_t(p.Offset)), append(c.sizes, C.size_t(p.Size)), append(c.ats, C.size_t(p.At))
		}
	}
	if len(c.tensors) == 0 {
		return nil
	}
	if err := guardError(f(c)); err != nil {
		return callError(nil, err.Error(), list[0].Tensor.operand())
	}
	for _, p := range list {
		if err := p.Tensor.present(); err != nil {
			return err
		}
	}
	return nil
}

// check requires that the chunk lies in the tensor, which is retained, and in a slice of n bytes.
func (p Chunk) check(t *Tensor, n int64, use dataUse) error {
	if p.Size < 0 || p.At < 0 || p.At > n || p.Size > n-p.At {
		return t.errorf(nil, "%d bytes at %d reach beyond the slice, which has %d", p.Size, p.At, n)
	}
	return t.checkAccess(p.Size, p.Offset, use)
}

// CopyTensors is [CopyTensor] for several tensors in one call, which some devices do at once: srcs[i]
// is copied to dsts[i]. After an error some may have been copied. C: ggml_backend_tensor_copy_n.
func CopyTensors(dsts, srcs []*Tensor) error {
	if len(dsts) != len(srcs) {
		return callError(nil, "there must be a destination for each source")
	}
	if len(srcs) == 0 {
		return nil
	}
	var from, to []*C.struct_ggml_tensor
	for i, src := range srcs {
		release, err := retainCopy(dsts[i], src)
		if err != nil {
			return err
		}
		defer release()
		if err := checkCopy(dsts[i], src); err != nil {
			return err
		}
		from, to = append(from, src.t), append(to, dsts[i].t)
	}
	if err := guardError(C.goggml_tensor_copy_n(&from[0], &to[0], C.size_t(len(from)))); err != nil {
		return callError(nil, err.Error(), srcs[0].operand(), dsts[0].operand())
	}
	for i, src := range srcs {
		if err := src.present(); err != nil {
			return err
		}
		if err := dsts[i].present(); err != nil {
			return err
		}
	}
	return nil
}

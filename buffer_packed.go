package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// ExtraBufferTypes lists the kinds of memory in which a processor keeps
// matrices in layouts of its own, packed, to multiply faster: "AMX" and
// "CPU_REPACK" for example. The fastest is first; which matrices it takes tells
// [BufferType.Multiplies]. A tensor in such memory is written as a whole, is
// the first operand of [Context.MulMat] or [Context.MulMatID], and nothing
// else; it cannot be read, nor can a view of it.
// C: ggml_backend_dev_get_extra_bufts of its plugin.
func (d *Device) ExtraBufferTypes() []*BufferType {
	var types []*BufferType
	for p := C.goggml_extra_bufts(d.d); p != nil && *p != nil; p = (*C.ggml_backend_buffer_type_t)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		types = append(types, &BufferType{*p})
	}
	return types
}

// Multiplies tells whether the device of such memory computes
// [Context.MulMat] with t as the matrix when it lies there.
// C: ggml_backend_dev_supports_op.
func (bt *BufferType) Multiplies(t *Tensor) bool {
	var yes bool
	t.inspect(func() { yes = bt.multiplies(t) })
	return yes
}

// multiplies is Multiplies for a tensor that is held.
func (bt *BufferType) multiplies(t *Tensor) bool {
	return t.t.op == C.GGML_OP_NONE && t.t.view_src == nil && bool(C.goggml_multiplies(bt.b, t.t))
}

// packed tells whether such memory holds matrices in a layout of its own.
func (bt *BufferType) packed() bool { return bool(C.goggml_is_packed(bt.b)) }

// isPacked tells whether the tensor, which is held, lies in such memory.
func (t *Tensor) isPacked() bool {
	b := t.root().buffer
	return b != nil && (&BufferType{C.ggml_backend_buffer_get_type(b)}).packed()
}

// checkPacked tells why an access to n bytes of a packed tensor is not possible.
func (t *Tensor) checkPacked(op string, n int, offset int64) error {
	switch {
	case !t.isPacked() || op == "set" && t.t.view_src == nil && offset == 0 && int64(n) == int64(C.ggml_nbytes(t.t)):
		return nil
	case op == "set":
		return t.errorf(op, nil, "the tensor is packed to be multiplied with; write all of its %d bytes at once", int64(C.ggml_nbytes(t.t)))
	}
	return t.errorf(op, nil, "the tensor is packed to be multiplied with, and can only be written as a whole")
}

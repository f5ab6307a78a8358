package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// ExtraBufferTypes lists the kinds of memory that repack weights: a processor
// keeps the matrices there in layouts of its own, to multiply faster, "AMX" and
// "CPU_REPACK" for example. The fastest is first; [BufferType.SupportsMulMat]
// reports which matrices it takes. A tensor in such memory is written as a
// whole, is the first operand of [Context.MulMat] or [Context.MulMatID], and
// nothing else; it cannot be read, nor can a view of it.
// C: ggml_backend_dev_get_extra_bufts of its plugin.
func (d *Device) ExtraBufferTypes() []*BufferType {
	if d.isZero() {
		return nil
	}
	var types []*BufferType
	for p := C.goggml_extra_bufts(d.d); p != nil && *p != nil; p = (*C.ggml_backend_buffer_type_t)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		types = append(types, &BufferType{*p})
	}
	return types
}

// SupportsMulMat reports whether the device of such memory computes
// [Context.MulMat] with t as the matrix when it lies there.
// C: ggml_backend_dev_supports_op.
func (bt *BufferType) SupportsMulMat(t *Tensor) bool {
	var yes bool
	t.withRef(func() { yes = !bt.isZero() && bt.supportsMulMat(t) })
	return yes
}

// supportsMulMat is SupportsMulMat for a tensor that is retained.
func (bt *BufferType) supportsMulMat(t *Tensor) bool {
	return t.t.op == C.GGML_OP_NONE && t.t.view_src == nil && bool(C.goggml_supports_mul_mat(bt.b, t.t))
}

// repacks reports whether such memory holds weights in a layout of its own.
func (bt *BufferType) repacks() bool { return bool(C.goggml_repacks(bt.b)) }

// isRepacked reports whether the tensor, which is retained, lies in such memory.
func (t *Tensor) isRepacked() bool {
	b := t.root().buffer
	return b != nil && (&BufferType{C.ggml_backend_buffer_get_type(b)}).repacks()
}

// checkRepacked says why an access to n bytes of repacked weights is not possible.
func (t *Tensor) checkRepacked(n int, offset int64, use dataUse) error {
	switch {
	case !t.isRepacked() || use == writesAll && t.t.view_src == nil && offset == 0 && int64(n) == int64(C.ggml_nbytes(t.t)):
		return nil
	case use == writesAll:
		return t.errorf(nil, "the tensor holds repacked weights; write all of its %d bytes at once", int64(C.ggml_nbytes(t.t)))
	}
	return t.errorf(nil, "the tensor holds repacked weights, which can only be written, and as a whole")
}

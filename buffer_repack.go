package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// ExtraBufferTypes lists the kinds of memory that repack weights, such as "AMX" and "CPU_REPACK",
// the fastest first. A processor stores matrices there in layouts of its own, to multiply faster.
// [BufferType.SupportsMulMat] reports which matrices the memory takes. A tensor in such memory is
// written as a whole and serves only as the first operand of [Context.MulMat] or
// [Context.MulMatID]. Neither it nor its views can be read. C: ggml_backend_dev_get_extra_bufts of
// its plugin.
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

// SupportsMulMat reports whether the device can compute [Context.MulMat] with t as the matrix, if t
// lies in this memory. C: ggml_backend_dev_supports_op.
func (bt *BufferType) SupportsMulMat(t *Tensor) bool {
	var yes bool
	t.withRef(func() { yes = !bt.isZero() && bt.supportsMulMat(t) })
	return yes
}

// supportsMulMat is SupportsMulMat for a retained tensor.
func (bt *BufferType) supportsMulMat(t *Tensor) bool {
	return t.t.op == C.GGML_OP_NONE && t.t.view_src == nil && bool(C.goggml_supports_mul_mat(bt.b, t.t))
}

// repacks reports whether the memory stores weights in a layout of its own.
func (bt *BufferType) repacks() bool { return bool(C.goggml_repacks(bt.b)) }

// isRepacked reports whether the retained tensor lies in memory that repacks.
func (t *Tensor) isRepacked() bool {
	b := t.root().buffer
	return b != nil && (&BufferType{C.ggml_backend_buffer_get_type(b)}).repacks()
}

// checkRepacked returns why n bytes of repacked weights cannot be accessed.
func (t *Tensor) checkRepacked(n int, offset int64, use dataUse) error {
	switch {
	case !t.isRepacked() || use == writesAll && t.t.view_src == nil && offset == 0 && int64(n) == int64(C.ggml_nbytes(t.t)):
		return nil
	case use == writesAll:
		return t.errorf(nil, "the tensor holds repacked weights; write all of its %d bytes at once", int64(C.ggml_nbytes(t.t)))
	}
	return t.errorf(nil, "the tensor holds repacked weights, which can only be written, and as a whole")
}

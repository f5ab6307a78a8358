package ggml

// #include "csrc/goggml.h"
import "C"

import "fmt"

// A Precision limits how coarsely a backend may round numbers while it computes an op. C: enum
// ggml_prec.
type Precision int

// The precisions, from the finest to the coarsest. A backend may always be more precise than
// required.
const (
	PrecisionAny  Precision = C.GGML_PREC_UNDEFINED // the backend's own choice
	PrecisionF32  Precision = C.GGML_PREC_F32
	PrecisionBF16 Precision = C.GGML_PREC_BF16
	PrecisionF16  Precision = C.GGML_PREC_F16
	PrecisionQ8   Precision = C.GGML_PREC_Q8 // 8 bits, in blocks with a scale
	PrecisionQ4   Precision = C.GGML_PREC_Q4 // 4 bits, in blocks with a scale
)

// String returns the name of the precision.
func (p Precision) String() string {
	switch p {
	case PrecisionAny:
		return "any"
	case PrecisionF32:
		return "f32"
	case PrecisionBF16:
		return "bf16"
	case PrecisionF16:
		return "f16"
	case PrecisionQ8:
		return "q8"
	case PrecisionQ4:
		return "q4"
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}

func (p Precision) valid() bool {
	switch p {
	case PrecisionAny, PrecisionF32, PrecisionBF16, PrecisionF16, PrecisionQ8, PrecisionQ4:
		return true
	}
	return false
}

// setOpParam changes a setting of the op that makes the tensor, and returns the tensor. An error
// goes to the tensor's context, as when building the op. f returns 0 if the op has no such setting;
// ok is the result of the caller's own checks.
func (t *Tensor) setOpParam(name string, f func() C.goggml_int, ok bool, format string, args ...any) *Tensor {
	if t == nil || t.t == nil {
		return t
	}
	op := t.ctx.begin(name, t)
	op.require(ok, format, args...)
	if op.arena == nil {
		return op.done(C.goggml_tensor{})
	}
	r := f()
	if r.error == nil && r.value == 0 {
		op.failed(nil, fmt.Sprintf("the op %v has no such setting", OpCode(t.t.op)))
	}
	return op.done(C.goggml_tensor{value: t.t, error: r.error})
}

// SetAccPrecision requires that the op that makes the tensor accumulates in the given precision or
// a finer one, and returns the tensor. The op must be MulMat, MulMatID or FlashAttention; the
// precision F32, BF16, F16 or Any. Call it before the graph is computed. CPU backends always
// accumulate in F32.
//
//	y := c.MulMat(w, x).SetAccPrecision(ggml.PrecisionF32)
//
// C: ggml_prec_set_acc.
func (t *Tensor) SetAccPrecision(p Precision) *Tensor {
	return t.setOpParam("prec_set_acc", func() C.goggml_int { return C.goggml_prec_set_acc(t.t, C.enum_ggml_prec(p)) },
		p.valid() && p <= PrecisionF16, "the precision is %v; it must be any, f32, bf16 or f16", p.String())
}

// SetSourcePrecision limits the types to which the op may convert its second operand (source 1)
// before it computes, and returns the tensor. The op must be MulMat or MulMatID. Call it before the
// tensor is allocated, when its device is chosen: CUDA devices multiply quantised weights by 8
// bits, and not by more. C: ggml_prec_set_src.
func (t *Tensor) SetSourcePrecision(source int, p Precision) *Tensor {
	ok := p.valid() && source == 1
	if ok && t.IsAllocated() {
		return t.setOpParam("prec_set_src", nil, false, "the tensor has memory already; set the precision before it is allocated")
	}
	return t.setOpParam("prec_set_src", func() C.goggml_int { return C.goggml_prec_set_src(t.t, C.enum_ggml_prec(p), C.int(source)) },
		ok, "source %d, precision %v: only source 1, the second operand, has one", source, p.String())
}

// AccPrecision returns the precision set by SetAccPrecision; PrecisionAny if none was, or the op has
// no such setting. C: ggml_prec_get_acc, ggml_flash_attn_ext_get_prec.
func (t *Tensor) AccPrecision() Precision {
	p := PrecisionAny
	t.withRef(func() { p = Precision(C.ggml_prec_get_acc(t.t)) })
	return p
}

// SourcePrecision returns the precision set by SetSourcePrecision; PrecisionAny if none was, or the
// op has no such setting, or no such source. C: ggml_prec_get_src.
func (t *Tensor) SourcePrecision(source int) Precision {
	p := PrecisionAny
	if source < 0 || source >= C.GGML_MAX_SRC {
		return p
	}
	t.withRef(func() { p = Precision(C.ggml_prec_get_src(t.t, C.int(source))) })
	return p
}

// SetHadamard declares that the first operand of the tensor's MulMat is a Hadamard matrix [n, n], n
// a power of two, scaled to be orthogonal, and that the second operand is F32; it returns the
// tensor. A backend may then use a fast transform instead of the matrix. With any other matrix the
// result is wrong. Plumbing: programs rarely need it. C: ggml_mul_mat_set_hint with
// GGML_HINT_SRC0_IS_HADAMARD.
func (t *Tensor) SetHadamard() *Tensor {
	return t.setOpParam("mul_mat_set_hint", func() C.goggml_int { return C.goggml_mul_mat_set_hint(t.t, C.GGML_HINT_SRC0_IS_HADAMARD) },
		t.maybeHadamard(), "the tensor must come from MulMat with a first operand [n, n], n a power of two, and an F32 second one")
}

func (t *Tensor) maybeHadamard() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool {
		if t.op != C.GGML_OP_MUL_MAT {
			return false
		}
		n := t.src[0].ne[0]
		return C.bool(t.src[0].ne[1] == n && n&(n-1) == 0 && t.src[1]._type == C.GGML_TYPE_F32)
	})
}

// SetMaxKeys declares that no mask row of the tensor's FlashAttention has more than n finite
// entries, and returns the tensor. A backend may then skip the other keys; with more finite entries
// the result may be wrong. 0 means unknown. Plumbing: programs rarely need it. C:
// ggml_flash_attn_ext_set_n_kv_max.
func (t *Tensor) SetMaxKeys(n int) *Tensor {
	return t.setOpParam("flash_attn_ext_set_n_kv_max", func() C.goggml_int { return C.goggml_flash_attn_set_n_kv_max(t.t, C.int32_t(n)) },
		n >= 0 && n < 1<<31 && t.isFlashAttention(), "%d keys: the number must not be negative, nor above %d, and the tensor must come from FlashAttention", n, 1<<31-1)
}

func (t *Tensor) isFlashAttention() bool {
	return t.predicate(func(t *C.struct_ggml_tensor) C.bool { return C.bool(t.op == C.GGML_OP_FLASH_ATTN_EXT) })
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// CPUTraits are the CPU plugin's routines for a type, used by its matrix products. They stay valid
// for the life of the process, and are safe for concurrent use. Plumbing, for authors of ops, who
// test their ops against them. C: struct ggml_type_traits_cpu.
type CPUTraits struct {
	Type    Type
	DotType Type // type of the second operand of a dot product
	DotRows int  // number of rows per dot product call

	typ, dotType Type // the same as Type and DotType, but callers cannot change them
	traits       *C.struct_ggml_type_traits_cpu
}

// CPUTraits returns the routines for the type. Plumbing, for authors of ops.
// C: ggml_get_type_traits_cpu.
func (t Type) CPUTraits() (CPUTraits, error) {
	if !t.IsValid() {
		return CPUTraits{}, fmt.Errorf("ggml: there is no type %d", int32(t))
	}
	r, err := CPURegistry()
	if err != nil {
		return CPUTraits{}, err
	}
	p := C.goggml_cpu_traits(r.r, C.enum_ggml_type(t))
	if p == nil {
		return CPUTraits{}, fmt.Errorf("ggml: the CPU plugin of ggml %s does not export ggml_get_type_traits_cpu", Version())
	}
	dot := Type(p.vec_dot_type)
	return CPUTraits{Type: t, DotType: dot, DotRows: int(p.nrows), typ: t, dotType: dot, traits: p}, nil
}

// HasFromFloat reports whether FromFloat is available. [Quantize] supports more types and quantises
// better.
func (t CPUTraits) HasFromFloat() bool { return t.traits != nil && t.traits.from_float != nil }

// HasDot reports whether Dot is available.
func (t CPUTraits) HasDot() bool { return t.traits != nil && t.traits.vec_dot != nil }

// FromFloat converts a row of finite values to the type. The size of dst is exactly its
// [Type.RowSize]. C: ggml_from_float_t.
func (t CPUTraits) FromFloat(dst []byte, src []float32) error {
	n := int64(len(src))
	switch {
	case !t.HasFromFloat():
		return fmt.Errorf("ggml: the CPU plugin converts no rows to %v; use Quantize", t.typ)
	case n%t.typ.BlockSize() != 0 || int64(len(dst)) != t.typ.RowSize(n):
		return fmt.Errorf("ggml: %d values of %v take %d bytes in blocks of %d values, the destination has %d", n, t.typ, t.typ.RowSize(n), t.typ.BlockSize(), len(dst))
	case n == 0:
		return nil
	}
	return guardError(C.goggml_cpu_from_float(t.traits, (*C.float)(&src[0]), unsafe.Pointer(&dst[0]), C.int64_t(n)))
}

// Dot returns the dot product of n values: x has the type, y has DotType. C: ggml_vec_dot_t.
func (t CPUTraits) Dot(x, y []byte, n int) (float32, error) {
	switch {
	case !t.HasDot():
		return 0, fmt.Errorf("ggml: the CPU plugin has no dot product of %v", t.typ)
	case n < 0 || n > math.MaxInt32 || int64(n)%t.typ.BlockSize() != 0 || int64(n)%t.dotType.BlockSize() != 0:
		return 0, fmt.Errorf("ggml: a dot product of %d values; %v has blocks of %d, %v of %d", n, t.typ, t.typ.BlockSize(), t.dotType, t.dotType.BlockSize())
	case int64(len(x)) != t.typ.RowSize(int64(n)) || int64(len(y)) != t.dotType.RowSize(int64(n)):
		return 0, fmt.Errorf("ggml: a dot product of %d values takes %d bytes of %v and %d of %v, not %d and %d",
			n, t.typ.RowSize(int64(n)), t.typ, t.dotType.RowSize(int64(n)), t.dotType, len(x), len(y))
	case n == 0:
		return 0, nil
	}
	var result C.float
	err := guardError(C.goggml_cpu_vec_dot(t.traits, C.int(n), &result, unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])))
	return float32(result), err
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"strings"
)

// A Type is the type of the elements of a tensor. C: enum ggml_type.
type Type int32

// The element types. Quantised types store blocks of [Type.BlockSize] elements along ne0.
const (
	F32    Type = C.GGML_TYPE_F32
	F16    Type = C.GGML_TYPE_F16
	Q4_0   Type = C.GGML_TYPE_Q4_0
	Q4_1   Type = C.GGML_TYPE_Q4_1
	Q5_0   Type = C.GGML_TYPE_Q5_0
	Q5_1   Type = C.GGML_TYPE_Q5_1
	Q8_0   Type = C.GGML_TYPE_Q8_0
	Q8_1   Type = C.GGML_TYPE_Q8_1
	Q2_K   Type = C.GGML_TYPE_Q2_K
	Q3_K   Type = C.GGML_TYPE_Q3_K
	Q4_K   Type = C.GGML_TYPE_Q4_K
	Q5_K   Type = C.GGML_TYPE_Q5_K
	Q6_K   Type = C.GGML_TYPE_Q6_K
	Q8_K   Type = C.GGML_TYPE_Q8_K
	IQ2XXS Type = C.GGML_TYPE_IQ2_XXS
	IQ2XS  Type = C.GGML_TYPE_IQ2_XS
	IQ3XXS Type = C.GGML_TYPE_IQ3_XXS
	IQ1S   Type = C.GGML_TYPE_IQ1_S
	IQ4NL  Type = C.GGML_TYPE_IQ4_NL
	IQ3S   Type = C.GGML_TYPE_IQ3_S
	IQ2S   Type = C.GGML_TYPE_IQ2_S
	IQ4XS  Type = C.GGML_TYPE_IQ4_XS
	I8     Type = C.GGML_TYPE_I8
	I16    Type = C.GGML_TYPE_I16
	I32    Type = C.GGML_TYPE_I32
	I64    Type = C.GGML_TYPE_I64
	F64    Type = C.GGML_TYPE_F64
	IQ1M   Type = C.GGML_TYPE_IQ1_M
	BF16   Type = C.GGML_TYPE_BF16
	TQ1_0  Type = C.GGML_TYPE_TQ1_0
	TQ2_0  Type = C.GGML_TYPE_TQ2_0
	MXFP4  Type = C.GGML_TYPE_MXFP4
	NVFP4  Type = C.GGML_TYPE_NVFP4
	Q1_0   Type = C.GGML_TYPE_Q1_0
	Q2_0   Type = C.GGML_TYPE_Q2_0
	F8E4M3 Type = C.GGML_TYPE_F8_E4M3 // 4 bits of exponent, 3 of mantissa; up to 448, and not infinite (arXiv 2209.05433)
)

// typeInfo is ggml's description of a type, read once.
type typeInfo struct {
	name      string
	blockSize int64
	size      int64 // bytes per block
	quantized bool
}

var typeTable = func() []typeInfo {
	table := make([]typeInfo, C.GGML_TYPE_COUNT)
	for i := range table {
		traits := C.ggml_get_type_traits(C.enum_ggml_type(i))
		if traits == nil || traits.type_size == 0 {
			continue // a removed type
		}
		table[i] = typeInfo{
			name:      C.GoString(traits.type_name),
			blockSize: int64(traits.blck_size),
			size:      int64(traits.type_size),
			quantized: bool(traits.is_quantized),
		}
	}
	return table
}()

// Types lists the types of ggml in the order of their numbers.
func Types() []Type {
	var types []Type
	for i := range typeTable {
		if t := Type(i); t.IsValid() {
			types = append(types, t)
		}
	}
	return types
}

// IsValid reports whether ggml has the type.
func (t Type) IsValid() bool {
	return t >= 0 && int(t) < len(typeTable) && typeTable[t].size > 0
}

func (t Type) info() typeInfo {
	if !t.IsValid() {
		return typeInfo{blockSize: 1}
	}
	return typeTable[t]
}

// String returns ggml's name of the type ("f32", "q4_0", …). C: ggml_type_name.
func (t Type) String() string {
	if !t.IsValid() {
		return fmt.Sprintf("Type(%d)", int32(t))
	}
	return t.info().name
}

// BlockSize returns the number of elements in a block: 1 unless quantised. C: ggml_blck_size.
func (t Type) BlockSize() int64 { return t.info().blockSize }

// BlockBytes returns the size in bytes of a block, or of an element if the type has no blocks. C:
// ggml_type_size, ggml_element_size of a tensor of the type.
func (t Type) BlockBytes() int64 { return t.info().size }

// RowSize returns the size in bytes of a row of n elements; n must be a multiple of the block size.
// C: ggml_row_size.
func (t Type) RowSize(n int64) int64 { return n / t.BlockSize() * t.BlockBytes() }

// IsQuantized reports whether elements are stored in blocks with shared scales.
// C: ggml_is_quantized.
func (t Type) IsQuantized() bool { return t.info().quantized }

// IsNumeric reports whether elements of the type represent real numbers, as weights do: floats, and
// quantised types except the types of intermediate results (Q8_1, Q8_K).
func (t Type) IsNumeric() bool {
	switch t {
	case F32, F16, BF16, F8E4M3:
		return true
	}
	return t.IsQuantized() && t != Q8_1 && t != Q8_K
}

// ParseType returns the type with a name, case-insensitively.
func ParseType(name string) (Type, error) {
	for _, t := range Types() {
		if strings.EqualFold(t.String(), name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("ggml: no type is named %q; the types are %v", name, Types())
}

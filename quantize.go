package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"
)

// A Float16 is an IEEE 754 half, the element of F16. C: ggml_fp16_t.
type Float16 uint16

// A BFloat16 is the upper half of a float32, the element of BF16.
// C: ggml_bf16_t.
type BFloat16 uint16

// ToFloat16 rounds to the nearest half, ties to even; values too large become infinite. C:
// ggml_fp32_to_fp16.
func ToFloat16(x float32) Float16 {
	bits := math.Float32bits(x)
	sign, magnitude := Float16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7e00 // NaN
	case magnitude >= 0x47800000:
		return sign | 0x7c00 // ≥ 65536
	case magnitude < 0x38800000:
		// Below 2⁻¹⁴ a half is a multiple of 2⁻²⁴. That is the last place of a float in [0.5, 1),
		// so adding 0.5 rounds.
		f := math.Float32frombits(magnitude) + 0.5
		return sign | Float16(math.Float32bits(f)-math.Float32bits(0.5))
	}
	// Change the exponent's bias from 127 to 15, and round off 13 bits.
	rounded := magnitude - 112<<23 + 0xfff + magnitude>>13&1
	return sign | Float16(rounded>>13)
}

// Float32 converts without loss. C: ggml_fp16_to_fp32.
func (h Float16) Float32() float32 {
	sign, exponent, mantissa := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0:
		f := float32(mantissa) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | mantissa<<13)
}

// ToBFloat16 rounds to the nearest, ties to even. C: ggml_fp32_to_bf16.
func ToBFloat16(x float32) BFloat16 {
	bits := math.Float32bits(x)
	if bits&0x7fffffff > 0x7f800000 {
		return BFloat16(bits>>16 | 0x40) // NaN stays NaN
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 converts without loss. C: ggml_bf16_to_fp32.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// quantizable lists the types that Quantize writes.
var quantizable = []Type{
	F32, F16, BF16, F8E4M3,
	Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
	Q2_K, Q3_K, Q4_K, Q5_K, Q6_K,
	IQ2XXS, IQ2XS, IQ2S, IQ3XXS, IQ3S, IQ1S, IQ1M, IQ4NL, IQ4XS,
	TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0,
}

// CanQuantize reports whether [Quantize] converts to the type.
func (t Type) CanQuantize() bool { return slices.Contains(quantizable, t) }

// CanDequantize reports whether [Dequantize] converts from the type.
func (t Type) CanDequantize() bool {
	return t == F32 || t.IsValid() && C.ggml_get_type_traits(C.enum_ggml_type(t)).to_float != nil
}

// NeedsImportance reports whether [Quantize] requires the importance of the values for this type.
// C: ggml_quantize_requires_imatrix.
func (t Type) NeedsImportance() bool {
	return t.IsValid() && bool(C.ggml_quantize_requires_imatrix(C.enum_ggml_type(t)))
}

// QuantizeOptions are the settings of [Quantize].
type QuantizeOptions struct {
	RowLen     int       // values per row; 0 means one row
	Importance []float32 // weight ≥ 0 of each column: errors count by it, so only ratios matter; nil: all count the same
}

// Quantize converts rows to a float or quantised type. src contains whole rows of finite values;
// the size of dst is exactly their number times [Type.RowSize]. Values that would not read back
// finite are an error: floats, and the scales of blocks, have a limited range.
//
// It is safe for concurrent use on different dst. C: ggml_quantize_chunk.
func Quantize(dst []byte, t Type, src []float32, o QuantizeOptions) error {
	o.RowLen = cmp.Or(o.RowLen, len(src))
	if err := checkQuantize(dst, t, src, o); err != nil {
		return fmt.Errorf("ggml: quantize to %v: %w", t, err)
	}
	if len(src) == 0 {
		return nil
	}
	quantizeTables.RLock()
	defer quantizeTables.RUnlock()
	r := C.goggml_quantize(C.enum_ggml_type(t), (*C.float)(&src[0]), unsafe.Pointer(&dst[0]),
		C.int64_t(len(src)/o.RowLen), C.int64_t(o.RowLen), (*C.float)(unsafe.SliceData(normalized(o.Importance))))
	if err := guardError(r.error); err != nil {
		return fmt.Errorf("ggml: quantize to %v: ggml cannot quantize these values, because some are too large beside others; use f32 or bf16 (%w)", t, err)
	}
	if int(r.value) != len(dst) {
		return fmt.Errorf("ggml: quantize to %v: it wrote %d bytes instead of %d", t, int64(r.value), len(dst))
	}
	if err := checkReadsBack(dst, t, src, o.RowLen); err != nil {
		return fmt.Errorf("ggml: quantize to %v: %w", t, err)
	}
	return nil
}

// largest returns a bound of the values that blocks of a type can hold. Beyond it sums of their
// powers overflow, and ggml stops or writes zeros.
func (t Type) largest() float64 {
	const (
		largestF16  = 65504
		largestE4M3 = 448
	)
	switch t {
	case F32, F16, BF16, MXFP4: // these have no such sums
		return math.MaxFloat32
	case F8E4M3: // ggml rounds larger values to this
		return largestE4M3
	case NVFP4:
		return largestE4M3 * 6
	}
	return largestF16 * 4096 // no type has levels beyond 2¹² times the scale of a block
}

// normalized scales importances by a power of two to at most 2: only their ratios matter, and
// squares of large ones overflow.
func normalized(importance []float32) []float32 {
	if len(importance) == 0 {
		return nil
	}
	_, exponent := math.Frexp(float64(slices.Max(importance)))
	out := make([]float32, len(importance))
	for i, x := range importance {
		out[i] = float32(math.Ldexp(float64(x), -exponent))
	}
	return out
}

// checkReadsBack requires that quantised data dequantises to finite values.
func checkReadsBack(data []byte, t Type, src []float32, rowLen int) error {
	if t == F32 {
		return nil
	}
	chunk := max(1, 1<<14/int(t.BlockSize())) * int(t.BlockSize())
	values := make([]float32, min(chunk, len(src)))
	for at := 0; at < len(src); at += chunk {
		n := min(chunk, len(src)-at)
		size := t.RowSize(int64(n))
		if err := Dequantize(values[:n], t, data[:size]); err != nil {
			return err
		}
		data = data[size:]
		for i, x := range values[:n] {
			if !finite(x) {
				return beyondRange(t, src, rowLen, at+i)
			}
		}
	}
	return nil
}

// beyondRange names the largest value of the row of value i: the rounding of a block may depend on
// the whole row.
func beyondRange(t Type, src []float32, rowLen, i int) error {
	first := i / rowLen * rowLen
	for k, x := range src[first : first+rowLen] {
		if math.Abs(float64(x)) > math.Abs(float64(src[i])) {
			i = first + k
		}
	}
	remedy := "f32 or bf16"
	if t == BF16 {
		remedy = "f32"
	}
	return fmt.Errorf("value %d of row %d is %v, which is too large for %v; use %s", i%rowLen, i/rowLen, src[i], t, remedy)
}

// quantizeTables guards the tables that ggml makes for some types and keeps; quantising reads them.
var quantizeTables sync.RWMutex

// PrepareQuantize makes the tables that [Quantize] needs for the type, which takes some seconds for
// the smallest types; otherwise the first Quantize makes them. It is safe for concurrent use.
// Plumbing: programs rarely need it. C: ggml_quantize_init.
func (t Type) PrepareQuantize() error {
	if !t.CanQuantize() {
		return fmt.Errorf("ggml: quantize to %v: there is no conversion to this type; use one of %v", t, quantizable)
	}
	quantizeTables.RLock()
	defer quantizeTables.RUnlock()
	return guardError(C.goggml_quantize_init(C.enum_ggml_type(t)))
}

// FreeQuantizeTables frees the tables that [Quantize] made; the next Quantize makes them again. It
// waits until they are unused. Plumbing: programs rarely need it. C: ggml_quantize_free.
func FreeQuantizeTables() {
	quantizeTables.Lock()
	defer quantizeTables.Unlock()
	C.ggml_quantize_free()
}

// ValidateRows validates the data of a tensor of the type, any number of whole blocks: scales and
// values that are infinite or NaN, as in a damaged file, are an error. ggml also prints their
// positions to standard error. Integers are always valid.
//
// It is safe for concurrent use. C: ggml_validate_row_data.
func ValidateRows(t Type, data []byte) error {
	switch {
	case !t.IsValid():
		return fmt.Errorf("ggml: validate rows: there is no type %d", int32(t))
	case int64(len(data))%t.BlockBytes() != 0:
		return fmt.Errorf("ggml: validate rows: %d bytes are not whole blocks of %v, which have %d", len(data), t, t.BlockBytes())
	case len(data) == 0:
		return nil
	}
	r := C.goggml_validate_rows(C.enum_ggml_type(t), unsafe.Pointer(&data[0]), C.size_t(len(data)))
	if err := guardError(r.error); err != nil {
		return fmt.Errorf("ggml: validate rows of %v: %w", t, err)
	}
	if r.value == 0 {
		return fmt.Errorf("ggml: validate rows of %v: a block holds an infinite value or NaN", t)
	}
	return nil
}

func checkQuantize(dst []byte, t Type, src []float32, o QuantizeOptions) error {
	rowLen, importance := o.RowLen, o.Importance
	switch {
	case !t.CanQuantize():
		return fmt.Errorf("there is no conversion to this type; use one of %v", quantizable)
	case rowLen < 0 || int64(rowLen)%t.BlockSize() != 0:
		return fmt.Errorf("rows have %d values; they must have a multiple of %d", rowLen, t.BlockSize())
	case rowLen > 0 && len(src)%rowLen != 0:
		return fmt.Errorf("%d values are not whole rows of %d", len(src), rowLen)
	case int64(len(dst)) != t.RowSize(int64(len(src))):
		return fmt.Errorf("%d values take %d bytes, the destination has %d", len(src), t.RowSize(int64(len(src))), len(dst))
	case importance == nil && t.NeedsImportance():
		return fmt.Errorf("this type needs the importance of the %d columns", rowLen)
	case importance != nil && len(importance) != rowLen:
		return fmt.Errorf("there are %d importances for rows of %d values", len(importance), rowLen)
	}
	largest := t.largest()
	for i, x := range src {
		if !finite(x) {
			return fmt.Errorf("value %d of row %d is %v; values must be finite", i%rowLen, i/rowLen, x)
		}
		if math.Abs(float64(x)) > largest {
			return beyondRange(t, src, rowLen, i)
		}
	}
	for i, x := range importance {
		if !finite(x) || x < 0 {
			return fmt.Errorf("importance %d is %v; it must be finite and at least 0", i, x)
		}
	}
	return nil
}

func finite(x float32) bool { return x-x == 0 }

// Dequantize converts to float32: dst has the number of values in src. It fails for types without a
// conversion, such as the integers.
//
// It is safe for concurrent use on different dst. C: ggml_get_type_traits.
func Dequantize(dst []float32, t Type, src []byte) error {
	switch n := int64(len(dst)); {
	case !t.CanDequantize():
		return fmt.Errorf("ggml: dequantize from %v: there is no conversion from this type", t)
	case n%t.BlockSize() != 0 || int64(len(src)) != t.RowSize(n):
		return fmt.Errorf("ggml: dequantize from %v: %d bytes are not %d values; a block has %d bytes and %d values",
			t, len(src), n, t.BlockBytes(), t.BlockSize())
	case n == 0:
		return nil
	case t == F32:
		copy(asBytes(dst), src)
		return nil
	}
	err := guardError(C.goggml_dequantize(C.enum_ggml_type(t), unsafe.Pointer(&src[0]), (*C.float)(&dst[0]), C.int64_t(len(dst))))
	if err != nil {
		return fmt.Errorf("ggml: dequantize from %v: %w", t, err)
	}
	return nil
}

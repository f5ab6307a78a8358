package fuzz

import (
	"encoding/binary"
	"iter"
	"math"
	"regexp"
	"slices"

	"github.com/goggml/ggml"
)

// blocks iterates over the offsets of a tensor's blocks in any layout. It reads strides once, because each call
// passes through the abort guard.
func blocks(t *ggml.Tensor) iter.Seq[int64] {
	var stride [4]int64
	for i := range stride {
		stride[i] = t.Stride(i)
	}
	return func(yield func(int64) bool) {
		for i3 := range t.Dim(3) {
			for i2 := range t.Dim(2) {
				for i1 := range t.Dim(1) {
					for i0 := range t.Dim(0) / t.Type().BlockSize() {
						if !yield(i0*stride[0] + i1*stride[1] + i2*stride[2] + i3*stride[3]) {
							return
						}
					}
				}
			}
		}
	}
}

// writeInOrder writes the elements of a tensor in any layout.
func writeInOrder(t *ggml.Tensor, data []byte) error {
	size := t.Type().BlockBytes()
	raw := make([]byte, t.NumBytes())
	for offset := range blocks(t) {
		copy(raw[offset:], data[:size])
		data = data[size:]
	}
	_, err := t.WriteAt(raw, 0)
	return err
}

func numbers(t *ggml.Tensor) ([]float32, error) {
	raw := make([]byte, t.NumBytes())
	if _, err := t.ReadAt(raw, 0); err != nil {
		return nil, err
	}
	if t.Dim(0)%t.Type().BlockSize() != 0 { // transposed
		return nil, errUnreadable
	}
	if !t.IsContiguous() {
		packed := make([]byte, 0, t.NumElements()*t.Type().BlockBytes())
		for offset := range blocks(t) {
			packed = append(packed, raw[offset:offset+t.Type().BlockBytes()]...)
		}
		raw = packed
	}
	v, ok := decode(t.Type(), raw)
	if !ok {
		return nil, errUnreadable
	}
	return v, nil
}

// decode returns the numbers that data of a type encodes.
func decode(t ggml.Type, data []byte) ([]float32, bool) {
	n := int64(len(data)) / t.BlockBytes() * t.BlockSize()
	v := make([]float32, n)
	for i := range v {
		switch t {
		case ggml.I8:
			v[i] = float32(int8(data[i]))
		case ggml.I16:
			v[i] = float32(int16(binary.NativeEndian.Uint16(data[2*i:])))
		case ggml.I32:
			v[i] = float32(int32(binary.NativeEndian.Uint32(data[4*i:])))
		case ggml.I64:
			v[i] = float32(int64(binary.NativeEndian.Uint64(data[8*i:])))
		case ggml.F64:
			v[i] = float32(math.Float64frombits(binary.NativeEndian.Uint64(data[8*i:])))
		default:
			return v, ggml.Dequantize(v, t, data) == nil
		}
	}
	return v, true
}

// encode returns numbers in a type; arbitrary data for a type to which ggml quantises slowly or not at all.
func encode(t ggml.Type, v []float32, row int64) ([]byte, bool) {
	n := int64(len(v))
	if n%t.BlockSize() != 0 || row%t.BlockSize() != 0 {
		return nil, false
	}
	data := make([]byte, t.RowSize(n))
	for i, x := range v {
		switch t {
		case ggml.I8:
			data[i] = byte(int8(x))
		case ggml.I16:
			binary.NativeEndian.PutUint16(data[2*i:], uint16(int16(x)))
		case ggml.I32:
			binary.NativeEndian.PutUint32(data[4*i:], uint32(int32(x)))
		case ggml.I64:
			binary.NativeEndian.PutUint64(data[8*i:], uint64(int64(x)))
		case ggml.F64:
			binary.NativeEndian.PutUint64(data[8*i:], math.Float64bits(float64(x)))
		default:
			if fast(t) {
				return data, ggml.Quantize(data, t, v, ggml.QuantizeOptions{RowLen: int(row)}) == nil
			}
			valid := quantisedRow(t)
			for at := 0; at < len(data) && len(valid) > 0; at += len(valid) {
				copy(data[at:], valid)
			}
			return data, len(valid) > 0
		}
	}
	return data, true
}

// whole reports whether a type holds only integers.
func whole(t ggml.Type) bool {
	return slices.Contains([]ggml.Type{ggml.I8, ggml.I16, ggml.I32, ggml.I64}, t)
}

var slowNames = regexp.MustCompile("^iq[123]")

// fast reports whether ggml quantises to a type without tables, which it takes seconds to make in each process.
func fast(t ggml.Type) bool {
	return t.CanQuantize() && !slowNames.MatchString(t.String())
}

func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return x == y || x != x && y != y || math.Abs(float64(x-y)) < 1e-5*math.Abs(float64(x))
	})
}

// difference is the normalised mean squared error.
func difference(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var e, n float64
	for i, w := range want {
		g := float64(got[i])
		if g == float64(w) || g != g && w != w {
			continue
		}
		e += (g - float64(w)) * (g - float64(w))
		n += float64(w) * float64(w)
	}
	if e == 0 {
		return 0
	}
	return e / max(n, 1e-12)
}

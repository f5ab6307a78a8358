package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"math"
)

// Float32At returns one element as a float32: element i in the order of all elements, or the
// element at indices [i0, i1, …]. The type must be F32, F16, BF16 or an integer. Each call costs
// about a microsecond, and more on a GPU: for all elements use [Read]. C: ggml_get_f32_1d,
// ggml_get_f32_nd.
func (t *Tensor) Float32At(i ...int64) (float32, error) {
	x, err := t.elementAt(i)
	return float32(x), err
}

// SetFloat32At writes one element; see [Tensor.Float32At]. Integers truncate the value. C:
// ggml_set_f32_1d, ggml_set_f32_nd.
func (t *Tensor) SetFloat32At(x float32, i ...int64) error {
	return t.setElementAt(float64(x), i)
}

// Int32At is [Tensor.Float32At] truncated to an int32; a value out of its range is an error. C:
// ggml_get_i32_1d, ggml_get_i32_nd.
func (t *Tensor) Int32At(i ...int64) (int32, error) {
	x, err := t.elementAt(i)
	if err != nil {
		return 0, err
	}
	if x = math.Trunc(x); !(x >= math.MinInt32 && x <= math.MaxInt32) {
		return 0, t.errorf(nil, "element %v is %v, which an int32 cannot hold", i, x)
	}
	return int32(x), nil
}

// SetInt32At writes one element; see [Tensor.Float32At].
// C: ggml_set_i32_1d, ggml_set_i32_nd.
func (t *Tensor) SetInt32At(x int32, i ...int64) error {
	return t.setElementAt(float64(x), i)
}

// Fill sets every element to x; see [Tensor.Float32At]. [Context.Fill] is the op.
// C: ggml_set_f32.
func (t *Tensor) Fill(x float32) error {
	return t.setElements(float64(x))
}

// FillInt32 sets every element to x; see [Tensor.Float32At]. C: ggml_set_i32.
func (t *Tensor) FillInt32(x int32) error {
	return t.setElements(float64(x))
}

// A codec decodes and encodes elements of a type. An error reports that an element cannot hold the
// value.
type codec struct {
	get func(p []byte) float64
	set func(p []byte, x float64) error
}

var codecs = map[Type]codec{
	F32:  floatCodec(func(x float32) float64 { return float64(x) }, func(x float64) float32 { return float32(x) }),
	F64:  floatCodec(func(x float64) float64 { return x }, func(x float64) float64 { return x }),
	F16:  floatCodec(func(x Float16) float64 { return float64(x.Float32()) }, func(x float64) Float16 { return ToFloat16(float32(x)) }),
	BF16: floatCodec(func(x BFloat16) float64 { return float64(x.Float32()) }, func(x float64) BFloat16 { return ToBFloat16(float32(x)) }),
	I8:   intCodec[int8](math.MinInt8, math.MaxInt8),
	I16:  intCodec[int16](math.MinInt16, math.MaxInt16),
	I32:  intCodec[int32](math.MinInt32, math.MaxInt32),
	// The largest float64 below 2⁶³.
	I64: intCodec[int64](math.MinInt64, 1<<63-1<<10),
}

func floatCodec[T Element](get func(T) float64, set func(float64) T) codec {
	return codec{
		get: func(p []byte) float64 {
			var x [1]T
			copy(asBytes(x[:]), p)
			return get(x[0])
		},
		set: func(p []byte, x float64) error {
			copy(p, asBytes([]T{set(x)}))
			return nil
		},
	}
}

func intCodec[T int8 | int16 | int32 | int64](low, high float64) codec {
	c := floatCodec(func(x T) float64 { return float64(x) }, func(x float64) T { return T(x) })
	set := c.set
	c.set = func(p []byte, x float64) error {
		if x = math.Trunc(x); !(x >= low && x <= high) {
			return fmt.Errorf("%v does not fit", x)
		}
		return set(p, x)
	}
	return c
}

// codec returns the codec of the tensor's elements.
func (t *Tensor) codec() (codec, error) {
	if err := t.missing(); err != nil {
		return codec{}, err
	}
	c, ok := codecs[t.typ]
	if !ok {
		return c, t.errorf(nil, "the elements of %v cannot be used one by one; use Float32s and SetFloat32s", t.typ)
	}
	return c, nil
}

// offsetOf returns the offset in bytes of an element from the start of the data.
func (t *Tensor) offsetOf(i []int64) (int64, error) {
	var at [MaxDims]int64
	switch {
	case len(i) == 1:
		var err error
		if at, err = t.Coordinates(i[0]); err != nil {
			return 0, t.errorf(nil, "there is no element %d: there are %d", i[0], t.NumElements())
		}
	case len(i) == 0 || len(i) > MaxDims:
		return 0, t.errorf(nil, "there are %d indices; give one in the order of all elements, or 2 to 4 of the dimensions", len(i))
	default:
		copy(at[:], i)
	}
	var offset int64
	for d, n := range at {
		if n < 0 || n >= t.ne[d] {
			return 0, t.errorf(nil, "index %d of dimension %d is out of range: its size is %d", n, d, t.ne[d])
		}
		offset += n * t.Stride(d)
	}
	return offset, nil
}

func (t *Tensor) elementAt(i []int64) (float64, error) {
	c, err := t.codec()
	if err != nil {
		return 0, err
	}
	offset, err := t.offsetOf(i)
	if err != nil {
		return 0, err
	}
	p := make([]byte, t.typ.BlockBytes())
	if err := t.read(p, offset); err != nil {
		return 0, err
	}
	return c.get(p), nil
}

func (t *Tensor) setElementAt(x float64, i []int64) error {
	p, err := t.encoded(x)
	if err != nil {
		return err
	}
	offset, err := t.offsetOf(i)
	if err != nil {
		return err
	}
	return t.write(p, offset)
}

func (t *Tensor) setElements(x float64) error {
	p, err := t.encoded(x)
	if err != nil {
		return err
	}
	if err := t.writable(); err != nil {
		return err
	}
	all := make([]byte, 0, t.packedSize())
	for range t.NumElements() {
		all = append(all, p...)
	}
	return t.scatter(all)
}

// encoded returns the bytes of an element with that value.
func (t *Tensor) encoded(x float64) ([]byte, error) {
	c, err := t.codec()
	if err != nil {
		return nil, err
	}
	p := make([]byte, t.typ.BlockBytes())
	if err := c.set(p, x); err != nil {
		return nil, t.errorf(nil, "%v into %v", err, t.typ)
	}
	return p, nil
}

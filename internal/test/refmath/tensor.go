// Package refmath holds float64 reference versions of ggml's operations, in plain loops over contiguous
// tensors. Tests compare ggml, the graph builders and the trainer with it, so every function documents its
// formula and shapes, and none is optimised.
//
// Shapes are [ne0, ne1, ne2, ne3], ne0 fastest, as in ggml. Indices (token ids, row numbers, positions) are
// ordinary tensors of integers. Tensor{} stands for an absent optional operand. Scalar parameters are used
// unrounded: ggml stores them as float32, so a test that compares the last digits passes float64(float32(eps)).
//
// Operands that do not fit are mistakes of the calling test, and panic with a message that names the function
// and the shapes. Dequantize, whose bytes may come from a file, returns an error instead.
//
// Functions do not change their operands, and are safe for concurrent use. Some (Reshape, Cont) may share data
// with their operand.
//
// Most loops over elements are marked go:norace: they read operands and write new memory, so the race detector
// has nothing to find in them, and would make the tests several times slower.
package refmath

import (
	"fmt"
	"math/rand/v2"
)

// Tensor is a dense tensor of up to four dimensions; element (i0, i1, i2, i3) is Data[i0 + Ne[0]*(i1 +
// Ne[1]*(i2 + Ne[2]*i3))]. The zero Tensor stands for an absent operand.
type Tensor struct {
	Ne   [4]int64
	Data []float64
}

// New returns a tensor of zeros; missing dimensions are 1.
func New(ne ...int64) Tensor {
	shape := shapeOf("New", ne)
	return Tensor{Ne: shape, Data: make([]float64, count(shape))}
}

// Number is an element type that converts to float64.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~float32 | ~float64
}

// From returns a tensor with a copy of data, converted to float64. Without
// dimensions it is a vector of len(data).
func From[T Number](data []T, ne ...int64) Tensor {
	if len(ne) == 0 {
		ne = []int64{int64(len(data))}
	}
	t := New(ne...)
	check(len(data) == len(t.Data), "From: %d values for shape %v, want %d", len(data), t.Ne, len(t.Data))
	convert(t.Data, data)
	return t
}

//go:norace
func convert[A, B Number](dst []A, src []B) {
	for i, v := range src {
		dst[i] = A(v)
	}
}

// Uniform returns a tensor of random values in [lo, hi), each rounded to float32 so that ggml can store it
// exactly.
func Uniform(rng *rand.Rand, lo, hi float64, ne ...int64) Tensor {
	t := New(ne...)
	for i := range t.Data {
		t.Data[i] = float64(float32(lo + (hi-lo)*rng.Float64()))
	}
	return t
}

// Normal returns normally distributed values of mean 0, rounded as in Uniform.
func Normal(rng *rand.Rand, stddev float64, ne ...int64) Tensor {
	t := New(ne...)
	for i := range t.Data {
		t.Data[i] = float64(float32(stddev * rng.NormFloat64()))
	}
	return t
}

// At returns element (i0, i1, i2, i3).
func (t Tensor) At(i0, i1, i2, i3 int64) float64 { return t.Data[t.index(i0, i1, i2, i3)] }

// Set changes element (i0, i1, i2, i3).
func (t Tensor) Set(v float64, i0, i1, i2, i3 int64) { t.Data[t.index(i0, i1, i2, i3)] = v }

// Len returns the number of elements.
func (t Tensor) Len() int { return len(t.Data) }

// Rows returns the number of rows, ne1·ne2·ne3.
func (t Tensor) Rows() int64 { return t.Ne[1] * t.Ne[2] * t.Ne[3] }

// Row returns row r of Rows, sharing its data with t.
func (t Tensor) Row(r int64) []float64 { return t.Data[r*t.Ne[0] : (r+1)*t.Ne[0]] }

// Clone returns a copy with data of its own.
func (t Tensor) Clone() Tensor {
	return Tensor{Ne: t.Ne, Data: append([]float64(nil), t.Data...)}
}

// Float32 returns the elements rounded to float32, as ggml stores them.
func (t Tensor) Float32() []float32 {
	out := make([]float32, len(t.Data))
	convert(out, t.Data)
	return out
}

// Int32 returns the elements as int32, discarding fractions.
func (t Tensor) Int32() []int32 {
	out := make([]int32, len(t.Data))
	convert(out, t.Data)
	return out
}

// Int64 returns the elements as int64, discarding fractions.
func (t Tensor) Int64() []int64 {
	out := make([]int64, len(t.Data))
	convert(out, t.Data)
	return out
}

func (t Tensor) absent() bool { return t.Data == nil }

func (t Tensor) index(i0, i1, i2, i3 int64) int64 {
	return i0 + t.Ne[0]*(i1+t.Ne[1]*(i2+t.Ne[2]*i3))
}

// generate returns a tensor whose element (i0, i1, i2, i3) is f(i0, i1, i2, i3).
func generate(ne [4]int64, f func(i0, i1, i2, i3 int64) float64) Tensor {
	t := Tensor{Ne: ne, Data: make([]float64, 0, count(ne))}
	for i3 := range ne[3] {
		for i2 := range ne[2] {
			for i1 := range ne[1] {
				for i0 := range ne[0] {
					t.Data = append(t.Data, f(i0, i1, i2, i3))
				}
			}
		}
	}
	return t
}

// eachRow calls f with the indices of every row of a tensor of shape ne.
func eachRow(ne [4]int64, f func(i1, i2, i3 int64)) {
	for i3 := range ne[3] {
		for i2 := range ne[2] {
			for i1 := range ne[1] {
				f(i1, i2, i3)
			}
		}
	}
}

// row returns row (i1, i2, i3), sharing its data with t.
func (t Tensor) row(i1, i2, i3 int64) []float64 {
	start := t.index(0, i1, i2, i3)
	return t.Data[start : start+t.Ne[0]]
}

func count(ne [4]int64) int64 { return ne[0] * ne[1] * ne[2] * ne[3] }

func shapeOf(op string, ne []int64) [4]int64 {
	check(len(ne) <= 4, "%s: %d dimensions, at most 4 are possible", op, len(ne))
	shape := [4]int64{1, 1, 1, 1}
	for i, n := range ne {
		check(n >= 0, "%s: negative dimension in shape %v", op, ne)
		shape[i] = n
	}
	return shape
}

func check(ok bool, format string, args ...any) {
	if !ok {
		panic("refmath: " + fmt.Sprintf(format, args...))
	}
}

func sameShape(op string, a, b Tensor) {
	check(a.Ne == b.Ne, "%s: shapes %v and %v differ", op, a.Ne, b.Ne)
}

// repeats reports whether a tensor of shape small fills shape big by repetition.
func repeats(small, big [4]int64) bool {
	for i := range small {
		if small[i] == 0 || big[i]%small[i] != 0 {
			return false
		}
	}
	return true
}

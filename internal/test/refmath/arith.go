package refmath

import "math"

// zip applies f element by element; b is repeated to a's shape.
func zip(op string, a, b Tensor, f func(x, y float64) float64) Tensor {
	check(repeats(b.Ne, a.Ne), "%s: shape %v does not repeat to %v", op, b.Ne, a.Ne)
	out := New(a.Ne[:]...)
	eachRow(a.Ne, func(i1, i2, i3 int64) {
		zipRow(out.row(i1, i2, i3), a.row(i1, i2, i3), b.row(i1%b.Ne[1], i2%b.Ne[2], i3%b.Ne[3]), f)
	})
	return out
}

// zipRow repeats ys to the length of xs.
//
//go:norace
func zipRow(dst, xs, ys []float64, f func(x, y float64) float64) {
	for i, x := range xs {
		dst[i] = f(x, ys[i%len(ys)])
	}
}

// Map applies f to every element.
//
//go:norace
func Map(a Tensor, f func(x float64) float64) Tensor {
	out := Tensor{Ne: a.Ne, Data: make([]float64, len(a.Data))}
	for i, v := range a.Data {
		out.Data[i] = f(v)
	}
	return out
}

// Add returns a + b. b is repeated to a's shape; the result has a's shape.
func Add(a, b Tensor) Tensor {
	return zip("Add", a, b, func(x, y float64) float64 { return x + y })
}

// Sub returns a − b, b repeated as in Add.
func Sub(a, b Tensor) Tensor {
	return zip("Sub", a, b, func(x, y float64) float64 { return x - y })
}

// Mul returns a · b element by element, b repeated as in Add.
func Mul(a, b Tensor) Tensor {
	return zip("Mul", a, b, func(x, y float64) float64 { return x * y })
}

// Div returns a / b element by element, b repeated as in Add.
func Div(a, b Tensor) Tensor {
	return zip("Div", a, b, func(x, y float64) float64 { return x / y })
}

// AddID returns a[i0, i1, i2] + b[i0, ids[i1, i2]] for a [n, used, tokens],
// b [n, experts] and ids [used, tokens].
func AddID(a, b, ids Tensor) Tensor {
	check(a.Ne[0] == b.Ne[0] && ids.Ne[0] == a.Ne[1] && ids.Ne[1] == a.Ne[2],
		"AddID: shapes %v, %v, ids %v", a.Ne, b.Ne, ids.Ne)
	return generate(a.Ne, func(i0, i1, i2, i3 int64) float64 {
		return a.At(i0, i1, i2, i3) + b.At(i0, int64(ids.At(i1, i2, 0, 0)), 0, 0)
	})
}

// Scale returns s·a.
func Scale(a Tensor, s float64) Tensor { return ScaleBias(a, s, 0) }

// ScaleBias returns s·a + b.
func ScaleBias(a Tensor, s, b float64) Tensor {
	return Map(a, func(x float64) float64 { return s*x + b })
}

// Clamp returns min(max(a, lo), hi).
func Clamp(a Tensor, lo, hi float64) Tensor {
	return Map(a, func(x float64) float64 { return min(max(x, lo), hi) })
}

// Fill returns a tensor of a's shape whose elements are all c.
func Fill(a Tensor, c float64) Tensor { return Map(a, func(float64) float64 { return c }) }

// Sqr returns a².
func Sqr(a Tensor) Tensor { return Map(a, func(x float64) float64 { return x * x }) }

// Sqrt returns √a.
func Sqrt(a Tensor) Tensor { return Map(a, math.Sqrt) }

// Log returns the natural logarithm of a.
func Log(a Tensor) Tensor { return Map(a, math.Log) }

// Sin returns sin a, in radians.
func Sin(a Tensor) Tensor { return Map(a, math.Sin) }

// Cos returns cos a, in radians.
func Cos(a Tensor) Tensor { return Map(a, math.Cos) }

// Exp returns eᵃ.
func Exp(a Tensor) Tensor { return Map(a, math.Exp) }

// Expm1 returns eᵃ − 1.
func Expm1(a Tensor) Tensor { return Map(a, math.Expm1) }

// Abs returns |a|.
func Abs(a Tensor) Tensor { return Map(a, math.Abs) }

// Neg returns −a.
func Neg(a Tensor) Tensor { return Map(a, func(x float64) float64 { return -x }) }

// Sgn returns −1, 0 or 1, the sign of a.
func Sgn(a Tensor) Tensor {
	return Map(a, func(x float64) float64 { return step(x) - step(-x) })
}

// Step returns 1 where a > 0, else 0.
func Step(a Tensor) Tensor { return Map(a, step) }

// Floor rounds down.
func Floor(a Tensor) Tensor { return Map(a, math.Floor) }

// Ceil rounds up.
func Ceil(a Tensor) Tensor { return Map(a, math.Ceil) }

// Round rounds to the nearest whole number, halves away from zero.
func Round(a Tensor) Tensor { return Map(a, math.Round) }

// Trunc rounds towards zero.
func Trunc(a Tensor) Tensor { return Map(a, math.Trunc) }

func step(x float64) float64 {
	if x > 0 {
		return 1
	}
	return 0
}

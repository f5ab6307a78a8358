package refmath

import "math"

// MaxAbsDiff returns the largest |got − want|. NaN in either counts as +Inf, equal infinities as no difference.
//
//go:norace
func MaxAbsDiff[A, B ~float32 | ~float64](got []A, want []B) float64 {
	check(len(got) == len(want), "MaxAbsDiff: %d and %d values", len(got), len(want))
	worst := 0.0
	for i := range got {
		worst = max(worst, distance(float64(got[i]), float64(want[i])))
	}
	return worst
}

func distance(g, w float64) float64 {
	d := math.Abs(g - w)
	switch {
	case g == w:
		return 0
	case math.IsNaN(d):
		return math.Inf(1)
	}
	return d
}

// NMSE returns the normalised mean squared error Σ(got−want)² / Σ want², or
// Σ(got−want)² when want is all zero.
//
//go:norace
func NMSE[A, B ~float32 | ~float64](got []A, want []B) float64 {
	check(len(got) == len(want), "NMSE: %d and %d values", len(got), len(want))
	var diff, norm float64
	for i := range got {
		d := distance(float64(got[i]), float64(want[i]))
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	if norm == 0 {
		return diff
	}
	return diff / norm
}

// RelativeError returns ‖got − want‖ / ‖want‖, the square root of NMSE.
func RelativeError[A, B ~float32 | ~float64](got []A, want []B) float64 {
	return math.Sqrt(NMSE(got, want))
}

// Cosine returns the cosine of the angle between two vectors, 0 when one is
// all zero.
//
//go:norace
func Cosine[A, B ~float32 | ~float64](a []A, b []B) float64 {
	check(len(a) == len(b), "Cosine: %d and %d values", len(a), len(b))
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// NumericGradient returns df/dx by central differences, element by element:
// (f(x+h) − f(x−h)) / 2h. f is called with a changed copy of x, which it must
// not keep. h = 1e-5 suits a smooth f with values around 1.
func NumericGradient(x Tensor, h float64, f func(x Tensor) float64) Tensor {
	probe := x.Clone()
	grad := New(x.Ne[:]...)
	for i, v := range x.Data {
		probe.Data[i] = v + h
		up := f(probe)
		probe.Data[i] = v - h
		down := f(probe)
		probe.Data[i] = v
		grad.Data[i] = (up - down) / (2 * h)
	}
	return grad
}

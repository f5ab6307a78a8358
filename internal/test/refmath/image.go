package refmath

import "math"

// source maps position i of n to a place among n0 elements: centres match, or with align the outermost
// elements.
func source(i, n, n0 int64, align bool) float64 {
	if align && n > 1 && n0 > 1 {
		return float64(i) * float64(n0-1) / float64(n-1)
	}
	if align {
		return float64(i) * float64(n0) / float64(n)
	}
	return (float64(i)+0.5)*float64(n0)/float64(n) - 0.5
}

// nearest returns the element of n0 that covers position i of n.
func nearest(i, n, n0 int64) int64 { return i * n0 / n }

// ScaleNearest scales a to a shape by repeating or leaving out elements.
func ScaleNearest(a Tensor, ne [4]int64) Tensor {
	return generate(ne, func(i0, i1, i2, i3 int64) float64 {
		return a.At(nearest(i0, ne[0], a.Ne[0]), nearest(i1, ne[1], a.Ne[1]), nearest(i2, ne[2], a.Ne[2]), nearest(i3, ne[3], a.Ne[3]))
	})
}

// separable scales dimensions 0 and 1 of a. taps returns the elements that contribute to a place, with their
// weights; elements outside repeat the border.
func separable(a Tensor, ne [4]int64, taps func(i, n, n0 int64) (first int64, weights []float64)) Tensor {
	return generate(ne, func(i0, i1, i2, i3 int64) float64 {
		x, wx := taps(i0, ne[0], a.Ne[0])
		y, wy := taps(i1, ne[1], a.Ne[1])
		i2, i3 = nearest(i2, ne[2], a.Ne[2]), nearest(i3, ne[3], a.Ne[3])
		total := 0.0
		for dy, vy := range wy {
			for dx, vx := range wx {
				at0 := min(max(x+int64(dx), 0), a.Ne[0]-1)
				at1 := min(max(y+int64(dy), 0), a.Ne[1]-1)
				total += vx * vy * a.At(at0, at1, i2, i3)
			}
		}
		return total
	})
}

// ScaleBilinear interpolates linearly between neighbours.
func ScaleBilinear(a Tensor, ne [4]int64, align bool) Tensor {
	return separable(a, ne, func(i, n, n0 int64) (int64, []float64) {
		at := source(i, n, n0, align)
		first := math.Floor(at)
		return int64(first), []float64{1 - (at - first), at - first}
	})
}

// ScaleBicubic interpolates by the cubic convolution with a = −0.75.
func ScaleBicubic(a Tensor, ne [4]int64, align bool) Tensor {
	weight := func(x float64) float64 {
		const a = -0.75
		if x = math.Abs(x); x <= 1 {
			return (a+2)*x*x*x - (a+3)*x*x + 1
		}
		return a*x*x*x - 5*a*x*x + 8*a*x - 4*a
	}
	return separable(a, ne, func(i, n, n0 int64) (int64, []float64) {
		at := source(i, n, n0, align)
		first := math.Floor(at)
		x := at - first
		return int64(first) - 1, []float64{weight(x + 1), weight(x), weight(1 - x), weight(2 - x)}
	})
}

// ScaleAntialias interpolates linearly, with a triangle that is widened by the factor if it shrinks a.
func ScaleAntialias(a Tensor, ne [4]int64) Tensor {
	return separable(a, ne, func(i, n, n0 int64) (int64, []float64) {
		centre := source(i, n, n0, false)
		width := max(1, float64(n0)/float64(n))
		weights, total := make([]float64, n0), 0.0
		for j := range weights {
			weights[j] = max(0, 1-math.Abs(float64(j)-centre)/width)
			total += weights[j]
		}
		for j := range weights {
			weights[j] /= total
		}
		return 0, weights
	})
}

// PadCircular repeats a before and after itself.
func PadCircular(a Tensor, before, after [4]int64) Tensor {
	var ne [4]int64
	for i := range ne {
		ne[i] = before[i] + a.Ne[i] + after[i]
	}
	wrap := func(i, dim int64) int64 { return ((i-before[dim])%a.Ne[dim] + a.Ne[dim]) % a.Ne[dim] }
	return generate(ne, func(i0, i1, i2, i3 int64) float64 {
		return a.At(wrap(i0, 0), wrap(i1, 1), wrap(i2, 2), wrap(i3, 3))
	})
}

// PadReflect1D reflects rows at their ends.
func PadReflect1D(a Tensor, before, after int64) Tensor {
	ne := a.Ne
	ne[0] += before + after
	return generate(ne, func(i0, i1, i2, i3 int64) float64 {
		i := i0 - before
		if i < 0 {
			i = -i
		}
		if last := a.Ne[0] - 1; i > last {
			i = 2*last - i
		}
		return a.At(i, i1, i2, i3)
	})
}

// WinPart splits dimensions 1 and 2 of a [n, x, y] into windows of w × w, padded with zeros.
func WinPart(a Tensor, w int64) Tensor {
	across, down := (a.Ne[1]+w-1)/w, (a.Ne[2]+w-1)/w
	return generate([4]int64{a.Ne[0], w, w, across * down}, func(i0, i1, i2, i3 int64) float64 {
		return a.or0(i0, i3%across*w+i1, i3/across*w+i2, 0)
	})
}

// GetRelPos returns [d, n, n] with row i − j + n − 1 of a at (j, i).
func GetRelPos(a Tensor, n int64) Tensor {
	return generate([4]int64{a.Ne[0], n, n, 1}, func(i0, j, i, _ int64) float64 { return a.At(i0, i-j+n-1, 0, 0) })
}

// AddRelPos adds pw[x, q] + ph[y, q] to a[x + n·y, q].
func AddRelPos(a, pw, ph Tensor) Tensor {
	n := pw.Ne[0]
	out := a.Clone()
	for i := range out.Data {
		q, at := int64(i)/(n*n), int64(i)%(n*n)
		out.Data[i] += pw.Data[q*n+at%n] + ph.Data[q*n+at/n]
	}
	return out
}

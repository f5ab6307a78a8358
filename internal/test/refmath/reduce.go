package refmath

import (
	"cmp"
	"slices"
)

// perRow returns f of each row, [1, ne1, ne2, ne3].
func perRow(a Tensor, f func(row []float64) float64) Tensor {
	out := New(1, a.Ne[1], a.Ne[2], a.Ne[3])
	for r := range a.Rows() {
		out.Data[r] = f(a.Row(r))
	}
	return out
}

// Sum returns the sum of all elements, [1].
func Sum(a Tensor) Tensor { return From([]float64{sum(a.Data)}) }

// SumRows returns the sum of each row, [1, ne1, ne2, ne3].
func SumRows(a Tensor) Tensor { return perRow(a, sum) }

// Mean returns the mean of each row, [1, ne1, ne2, ne3].
func Mean(a Tensor) Tensor {
	return perRow(a, func(row []float64) float64 { return sum(row) / float64(len(row)) })
}

// CumSum returns the running sum along each row, inclusive; a's shape.
func CumSum(a Tensor) Tensor {
	out := a.Clone()
	for r := range out.Rows() {
		row := out.Row(r)
		for i := 1; i < len(row); i++ {
			row[i] += row[i-1]
		}
	}
	return out
}

// ArgMax returns the index of the largest element of each row of a matrix
// [ne0, ne1], as [ne1]. Of equal elements the last wins, as on ggml's CPU
// backend.
func ArgMax(a Tensor) Tensor {
	check(a.Ne[2] == 1 && a.Ne[3] == 1, "ArgMax: %v is not a matrix", a.Ne)
	out := New(a.Ne[1])
	for r := range a.Rows() {
		row := a.Row(r)
		best := 0
		for i, v := range row {
			if v >= row[best] {
				best = i
			}
		}
		out.Data[r] = float64(best)
	}
	return out
}

// CountEqual returns how many elements of a and b are equal, [1].
func CountEqual(a, b Tensor) Tensor {
	sameShape("CountEqual", a, b)
	n := 0
	for i := range a.Data {
		if a.Data[i] == b.Data[i] {
			n++
		}
	}
	return From([]int{n})
}

// ArgSort returns the indices that sort each row, in rising or falling order;
// a's shape. Equal elements keep their order here; ggml promises none.
func ArgSort(a Tensor, descending bool) Tensor {
	out := New(a.Ne[:]...)
	for r := range a.Rows() {
		row, order := a.Row(r), out.Row(r)
		for i := range order {
			order[i] = float64(i)
		}
		slices.SortStableFunc(order, func(i, j float64) int {
			if descending {
				i, j = j, i
			}
			return cmp.Compare(row[int(i)], row[int(j)])
		})
	}
	return out
}

// TopK returns the indices of the k largest elements of each row, largest
// first, [k, ne1, ne2, ne3]. ggml_top_k gives the same set in any order.
func TopK(a Tensor, k int64) Tensor {
	check(k >= 1 && k <= a.Ne[0], "TopK: k = %d of rows of %d", k, a.Ne[0])
	order := ArgSort(a, true)
	out := New(k, a.Ne[1], a.Ne[2], a.Ne[3])
	for r := range a.Rows() {
		copy(out.Row(r), order.Row(r)[:k])
	}
	return out
}

//go:norace
func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

//go:norace
func dot(a, b []float64) float64 {
	var s, t, u, v float64 // four sums, since an addition waits for the one before it; an array of them would be memory
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s += x[0] * y[0]
		t += x[1] * y[1]
		u += x[2] * y[2]
		v += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s += a[i] * b[i]
	}
	return s + t + u + v
}

package refmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// counting returns 0, 1, 2, … in shape ne.
func counting(ne ...int64) Tensor {
	t := New(ne...)
	for i := range t.Data {
		t.Data[i] = float64(i)
	}
	return t
}

func TestReductions(t *testing.T) {
	a := From([]float64{1, 5, 5, 2, -1, 0}, 3, 2)
	near(t, Sum(a), []float64{12}, 1)
	near(t, SumRows(a), []float64{11, 1}, 1, 2)
	near(t, Mean(a), []float64{11.0 / 3, 1.0 / 3}, 1, 2)
	near(t, CumSum(a), []float64{1, 6, 11, 2, 1, 1}, 3, 2)
	near(t, ArgMax(a), []float64{2, 0}, 2)
	near(t, ArgSort(a, false), []float64{0, 1, 2, 1, 2, 0}, 3, 2)
	near(t, ArgSort(a, true), []float64{1, 2, 0, 0, 2, 1}, 3, 2)
	near(t, TopK(a, 2), []float64{1, 2, 0, 2}, 2, 2)
	near(t, CountEqual(a, From([]float64{1, 5, 0, 2, 1, 0}, 3, 2)), []float64{4}, 1)
}

func TestViews(t *testing.T) {
	a := counting(4, 3)
	near(t, Reshape(a, 2, 6), a.Data, 2, 6)
	near(t, Cont(a), a.Data, 4, 3)
	near(t, View(a, [4]int64{2, 2, 1, 1}, [3]int64{8, 0, 0}, 1), []float64{1, 2, 9, 10}, 2, 2)
	near(t, Transpose(counting(3, 2)), []float64{0, 3, 1, 4, 2, 5}, 2, 3)
	// Dimension 0 (size 2) moves to place 2, 1 (size 3) to 0, 2 (size 1) to 1.
	near(t, Permute(counting(2, 3), 2, 0, 1, 3), []float64{0, 2, 4, 1, 3, 5}, 3, 1, 2)
	b := From([]float64{100, 200}, 1, 2)
	near(t, Set(counting(3, 2), b, [3]int64{3, 0, 0}, 1), []float64{0, 100, 2, 3, 200, 5}, 3, 2)
	near(t, Acc(counting(3, 2), b, [3]int64{3, 0, 0}, 1), []float64{0, 101, 2, 3, 204, 5}, 3, 2)
	require.Panics(t, func() { View(a, [4]int64{4, 1, 1, 1}, [3]int64{}, 9) })
	require.Panics(t, func() { Permute(a, 0, 0, 1, 2) })
}

func TestRearranging(t *testing.T) {
	a := counting(2, 2)
	near(t, Repeat(a, 4, 2), []float64{0, 1, 0, 1, 2, 3, 2, 3}, 4, 2)
	near(t, RepeatBack(counting(4, 2), 2, 1), []float64{0 + 2 + 4 + 6, 1 + 3 + 5 + 7}, 2)
	near(t, Concat(a, Scale(a, 10), 0), []float64{0, 1, 0, 10, 2, 3, 20, 30}, 4, 2)
	near(t, Concat(a, Scale(a, 10), 1), []float64{0, 1, 2, 3, 0, 10, 20, 30}, 2, 4)
	near(t, Pad(a, 1, 1, 0, 0), []float64{0, 1, 0, 2, 3, 0, 0, 0, 0}, 3, 3)
	near(t, PadExt(a, [4]int64{1}, [4]int64{}), []float64{0, 0, 1, 0, 2, 3}, 3, 2)
	near(t, Roll(counting(3, 2), 1, 0, 0, 0), []float64{2, 0, 1, 5, 3, 4}, 3, 2)
	near(t, Roll(counting(3, 2), -1, 1, 0, 0), []float64{4, 5, 3, 1, 2, 0}, 3, 2)
	near(t, Arange(1, 2.5, 0.5), []float64{1, 1.5, 2}, 3)
}

func TestRows(t *testing.T) {
	a := counting(2, 3)
	ids := From([]int32{2, 0, 2})
	near(t, GetRows(a, ids), []float64{4, 5, 0, 1, 4, 5}, 2, 3)
	near(t, GetRowsBack(counting(2, 3), ids, 4), []float64{2, 3, 0, 0, 0 + 4, 1 + 5, 0, 0}, 2, 4)
	near(t, SetRows(a, From([]float64{7, 8}, 2, 1), From([]int64{1})), []float64{0, 1, 7, 8, 4, 5}, 2, 3)
	near(t, Diag(From([]float64{3, 4}, 2)), []float64{3, 0, 0, 4}, 2, 2)
	inf := math.Inf(-1)
	near(t, DiagMaskInf(counting(3, 2), 0), []float64{0, inf, inf, 3, 4, inf}, 3, 2)
	near(t, CausalMask(3, 2, 1), []float64{0, 0, inf, 0, 0, 0}, 3, 2)
	m := counting(2, 2)
	near(t, Triangle(m, UpperDiag), []float64{0, 1, 0, 3}, 2, 2)
	near(t, Triangle(m, Upper), []float64{0, 1, 0, 0}, 2, 2)
	near(t, Triangle(m, LowerDiag), []float64{0, 0, 2, 3}, 2, 2)
	near(t, Triangle(m, Lower), []float64{0, 0, 2, 0}, 2, 2)
	require.PanicsWithValue(t, "refmath: GetRows: row 3 of 3", func() { GetRows(a, From([]int{3})) })
}

func TestMatrixProducts(t *testing.T) {
	a := From([]float64{1, 2, 3, 4, 5, 6}, 2, 3) // three rows of two
	b := From([]float64{1, 10, 0, 1}, 2, 2)      // two rows of two
	near(t, MulMat(a, b), []float64{21, 43, 65, 2, 4, 6}, 3, 2)
	c := From([]float64{1, 2, 3, 4}, 2, 2)
	near(t, OutProd(c, b), []float64{1, 2, 10 + 3, 20 + 4}, 2, 2)
	near(t, MulMatID(Reshape(a, 2, 1, 3), Reshape(b, 2, 1, 2), From([]int{2, 0, 1, 1}, 2, 2)),
		[]float64{65, 21, 4, 4}, 1, 2, 2)
}

// draw returns a random tensor whose dimensions are 1…4.
func draw(t *rapid.T, label string) Tensor {
	dim := rapid.Int64Range(1, 4)
	return drawShape(t, label, dim.Draw(t, "ne0"), dim.Draw(t, "ne1"), dim.Draw(t, "ne2"), dim.Draw(t, "ne3"))
}

func drawShape(t *rapid.T, label string, ne ...int64) Tensor {
	a := New(ne...)
	for i := range a.Data {
		a.Data[i] = rapid.Float64Range(-3, 3).Draw(t, label)
	}
	return a
}

func TestShapeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := draw(t, "a")
		require.Equal(t, a, Transpose(Transpose(a)))
		p := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "axes")
		var q [4]int
		for i, to := range p {
			q[to] = i
		}
		moved := Permute(a, p[0], p[1], p[2], p[3])
		require.Equal(t, a, Permute(moved, q[0], q[1], q[2], q[3]))
		require.Equal(t, a, Roll(Roll(a, 1, 2, 3, 4), -1, -2, -3, -4))
	})
}

// A backward of a linear map f is its adjoint: ⟨f(x), y⟩ = ⟨x, back(y)⟩.
func TestAdjoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := draw(t, "x")
		r := rapid.Int64Range(1, 3)
		big := []int64{x.Ne[0] * r.Draw(t, "r0"), x.Ne[1] * r.Draw(t, "r1"), x.Ne[2] * r.Draw(t, "r2"), x.Ne[3] * r.Draw(t, "r3")}
		y := drawShape(t, "y", big...)
		require.InDelta(t, dot(Repeat(x, big...).Data, y.Data), dot(x.Data, RepeatBack(y, x.Ne[:]...).Data), 1e-9)

		m := drawShape(t, "m", 3, 5)
		ids := From(rapid.SliceOfN(rapid.Int64Range(0, 4), 4, 4).Draw(t, "ids"))
		d := drawShape(t, "d", 3, 4)
		require.InDelta(t, dot(GetRows(m, ids).Data, d.Data), dot(m.Data, GetRowsBack(d, ids, 5).Data), 1e-9)
	})
}

func TestProductProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.Int64Range(1, 4)
		k, m, n, a2, a3 := dim.Draw(t, "k"), dim.Draw(t, "m"), dim.Draw(t, "n"), dim.Draw(t, "a2"), dim.Draw(t, "a3")
		b2, b3 := a2*dim.Draw(t, "g2"), a3*dim.Draw(t, "g3")
		a, b := drawShape(t, "a", m, k, a2, a3), drawShape(t, "b", n, k, b2, b3)
		require.Less(t, MaxAbsDiff(OutProd(a, b).Data, MulMat(Transpose(a), Transpose(b)).Data), 1e-12)

		x, y := drawShape(t, "x", k, m), drawShape(t, "y", k, n)
		require.Less(t, MaxAbsDiff(MulMat(x, y).Data, Transpose(MulMat(y, x)).Data), 1e-12)
	})
}

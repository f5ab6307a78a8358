package kernels_test

import (
	"flag"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

var scanAll = flag.Bool("scan", false, "let TestScan multiply matrices of every width up to 300, and of larger ones, which takes minutes")

// TestScan compares every GEMM and GEMV with float64 for matrices of many shapes: the kernels, and
// the libraries they use, have separate code for the remainders of dimensions.
func TestScan(t *testing.T) {
	m, counts := optest.Devices(t)[0], map[string]int{}
	for i, shape := range scanShapes() {
		for _, compute := range computeTypes() {
			for _, weight := range optest.FloatTypes {
				s := newScan(uint64(i), shape, compute, weight)
				for _, p := range s.products() {
					p.check(t, m, s)
					counts[p.name]++
				}
			}
		}
		require.False(t, t.Failed(), "the scan ends with the first shape that fails")
	}
	t.Logf("products that agree with float64: %v", counts)
}

// A gemmShape is the shape of a product: w [k, m], x [k, n] and y [m, n].
type gemmShape struct{ m, k, n int64 }

// scanShapes uses each width as each of the dimensions, with small and large other dimensions.
func scanShapes() []gemmShape {
	widths := []int64{1, 2, 31, 33, 97, 257}
	others := [][2]int64{{1, 1}, {5, 9}, {33, 65}}
	if *scanAll {
		widths = []int64{2049, 32001}
		for width := range int64(300) {
			widths = append(widths, width+1)
		}
		others = append(others, [][2]int64{{1, 2}, {3, 70}, {8, 1}, {33, 1}, {64, 130}, {97, 33}, {257, 3}, {513, 66}, {1025, 2}}...)
	}
	var shapes []gemmShape
	for _, width := range widths {
		for _, o := range others {
			shapes = append(shapes, gemmShape{width, o[0], o[1]}, gemmShape{o[0], width, o[1]}, gemmShape{o[0], o[1], width})
		}
	}
	if *scanAll { // so deep and wide that the GEMM multiplies the transposed result
		shapes = append(shapes, gemmShape{2049, 2049, 66}, gemmShape{2081, 2050, 131})
	}
	return shapes
}

// computeTypes returns the types in which products are computed or accumulated.
func computeTypes() []ggml.Type {
	if kernels.HasF16Accumulation() {
		return append(productTypes(), ggml.F16)
	}
	return productTypes()
}

// A scan is the operands of the products of one shape.
type scan struct {
	draw
	gemmShape
	compute, input ggml.Type // with compute F16, input is F32
	w, x, y        operand
}

func newScan(seed uint64, shape gemmShape, compute, weight ggml.Type) *scan {
	s := &scan{draw: *optest.NewDraw(seed, weight), gemmShape: shape, compute: compute, input: compute}
	if compute == ggml.F16 {
		s.input = ggml.F32
	}
	s.w, s.x, s.y = s.Normal(s.k, s.m), s.multiplied(s.k, s.n), s.multiplied(s.m, s.n)
	return s
}

// multiplied draws the operand X of a weight.
func (s *scan) multiplied(ne ...int64) operand { return s.F32(ne...).As(s.input) }

// lowRankPairs draws b and h for rows of the given numbers.
func (s *scan) lowRankPairs(h func(ne ...int64) operand, rows ...int64) []operand {
	var pairs []operand
	for i, m := range rows {
		if rank := 1 + (s.k+int64(i))%40; m > 0 {
			pairs = append(pairs, s.Normal(m, rank), h(rank, s.n))
		}
	}
	return pairs
}

// A scanProduct is one op on operands of a scan.
type scanProduct struct {
	name  string
	args  []operand
	build func(c *ctx, x tensors) *ggml.Tensor
	want  refmath.Tensor
	error float64 // relative error of the product of two numbers
}

func (s *scan) products() []scanProduct {
	list := s.gemms()
	if s.compute == ggml.F32 {
		list = append(list, s.inF32()...)
	}
	if s.Type == ggml.F32 && s.compute != ggml.F16 {
		list = append(list, s.weightGradients()...)
	}
	return list
}

// gemms returns the products of a weight of any type, with one pair and with more.
func (s *scan) gemms() []scanProduct {
	forward := []operand{s.w, s.x, s.Normal(5, s.m), s.multiplied(5, s.n)}
	backward := []operand{s.w, s.y, s.Normal(s.k, 3), s.multiplied(3, s.n)}
	one := append([]operand{s.w, s.x}, s.lowRankPairs(s.multiplied, s.m)...)
	several := append([]operand{s.w, s.x}, s.lowRankPairs(s.multiplied, 1, (s.m-1)/2, s.m-1-(s.m-1)/2)...)
	w := func(a operand) refmath.Tensor { return optest.Rounded(a.Values, s.input) }
	wx := refmath.MulMat(w(s.w), s.x.Values)
	wy := refmath.OutProd(w(s.w), refmath.Transpose(s.y.Values))
	lowRank := func(args []operand) refmath.Tensor { return refmath.Add(wx, lowRank(values(args[2:]), s.input)) }
	e, acc := 1e-5, exact
	if s.compute == ggml.F16 {
		e, acc = 5e-2, ggml.PrecisionF16
	}
	gemm := func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, acc, pairs(x...)...) }
	gradInput := func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInput(c, acc, pairs(x...)...) }
	gemmLoRA := func(c *ctx, x tensors) *ggml.Tensor {
		return kernels.GEMMLoRA(c, acc, pair(x[0], x[1]), loraPairs(x[2:]...)...)
	}
	return []scanProduct{
		{"GEMM", forward[:2], gemm, wx, e},
		{"GEMM of pairs", forward, gemm, refmath.Add(wx, refmath.MulMat(w(forward[2]), forward[3].Values)), e},
		{"GEMMGradInput", backward[:2], gradInput, wy, e},
		{"GEMMGradInput of pairs", backward, gradInput, refmath.Add(wy, refmath.OutProd(w(backward[2]), refmath.Transpose(backward[3].Values))), e},
		{"GEMMLoRA", one, gemmLoRA, lowRank(one), e},
		{"GEMMLoRA of pairs", several, gemmLoRA, lowRank(several), e},
	}
}

// inF32 returns the products of a weight of any type that compute only in F32.
func (s *scan) inF32() []scanProduct {
	one := append([]operand{s.y}, s.lowRankPairs(s.F32, s.m)...)
	several := append([]operand{s.y}, s.lowRankPairs(s.F32, 1, (s.m-1)/2, s.m-1-(s.m-1)/2)...)
	more := s.Normal(s.k, 7)
	x := optest.Rounded(s.x.Values, s.Type) // rounded as the dot products of the type require
	wx := refmath.MulMat(s.w.Values, x)
	e := 1e-5
	if s.Type == ggml.F16 {
		e = 1e-2 // on Arm, dot products of F16 accumulate in F16
	}
	gemv := func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMV(c, x[0], x[1:]...) }
	addLoRA := func(c *ctx, x tensors) *ggml.Tensor { return kernels.AddLoRA(c, x[0], loraPairs(x[1:]...)...) }
	lowRank := func(args []operand) refmath.Tensor {
		return refmath.Add(s.y.Values, lowRank(values(args[1:]), ggml.F32))
	}
	return []scanProduct{
		{"AddLoRA", one, addLoRA, lowRank(one), 1e-5},
		{"AddLoRA of pairs", several, addLoRA, lowRank(several), 1e-5},
		{"GEMV", []operand{s.x, s.w}, gemv, wx, e},
		{"GEMV of more", []operand{s.x, s.w, more}, gemv, refmath.Concat(wx, refmath.MulMat(more.Values, x), 0), e},
	}
}

func (s *scan) weightGradients() []scanProduct {
	dw, want := s.F32(s.k, s.m), refmath.OutProd(s.x.Values, s.y.Values)
	return []scanProduct{{
		"GEMMGradWeight", []operand{s.x, s.y},
		func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradWeight(c, x[0], x[1]) }, want, 1e-5,
	}, {
		"AccumulateGradWeight", []operand{dw, s.x, s.y},
		func(c *ctx, x tensors) *ggml.Tensor { return kernels.AccumulateGradWeight(c, x[0], x[1], x[2]) }, refmath.Add(dw.Values, want), 1e-5,
	}}
}

func values(args []operand) refs {
	var x refs
	for _, a := range args {
		x = append(x, a.Values)
	}
	return x
}

// check compares every element. Elements have the size of a random walk with as many steps as
// summed products, at most the largest dimension: the operands have size 1. Rounding each step in
// F32 makes an error that grows with the number of steps.
func (p *scanProduct) check(t *testing.T, m *optest.Device, s *scan) {
	t.Helper()
	got, ok := m.Eval(t, p.args, p.build)
	require.True(t, ok)
	require.Equal(t, p.want.Ne, got.Shape, p.name)
	steps := float64(max(s.m, s.k, s.n, 40))
	limit := p.error*math.Sqrt(steps) + 2e-7*steps
	wrong := func(i int) bool { return !(math.Abs(float64(got.Values[i])-p.want.Data[i]) <= limit) }
	indices := slices.Collect(func(yield func(int) bool) {
		for i := range p.want.Data {
			if wrong(i) && !yield(i) {
				return
			}
		}
	})
	if len(indices) > 0 {
		i := indices[0]
		t.Errorf("%s in %v of %+v: %d of %d elements are wrong; the first is %d, %v instead of %v; the weight is %v",
			p.name, s.compute, s.gemmShape, len(indices), len(p.want.Data), i, got.Values[i], p.want.Data[i], s.Type)
	}
}

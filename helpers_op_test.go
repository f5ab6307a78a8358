package ggml_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// Short names for the tables of ops.
type (
	ctx     = ggml.Context
	tensors = []*ggml.Tensor
	refs    = []refmath.Tensor

	opCase   = optest.Case
	gradCase = optest.GradCase
	draw     = optest.Draw
	operand  = optest.Operand
)

// opCases lists all cases.
func opCases() []opCase {
	return slices.Concat(
		binaryCases(), unaryCases(), scalarCases(), gluCases(), addCases(), gatedCases(), argSortTopKCases(), topKMaskCases(), sinkCases(),
		copyCases(), shapeCases(), concatCases(), partCases(), rowCases(), matrixCases(),
		reductionCases(), normCases(), softMaxCases(), ropeCases(), numberedCases(), attentionCases(), backwardCases(), optimizerCases(),
		convolutionCases(), poolCases(), interpolationCases(), imageCases(), recurrentCases(), hyperConnectCases(),
		partInPlaceCases(), rowsInPlaceCases(),
	)
}

func TestOps(t *testing.T) { optest.Run(t, opCases()) }

// one draws a single operand of any shape.
func one(d *draw) []operand { ne := d.Shape(); return []operand{d.Normal(ne[:]...)} }

// pair draws two operands of one shape.
func pair(d *draw) []operand {
	ne := d.Shape()
	return []operand{d.Normal(ne[:]...), d.Normal(ne[:]...)}
}

// pair32 is pair with an F32 second operand.
func pair32(d *draw) []operand {
	ne := d.Shape()
	return []operand{d.Normal(ne[:]...), d.F32(ne[:]...)}
}

// float32 arithmetic with a small epsilon differs from float64.
const eps = 1e-5

var eps64 = float64(float32(eps))

// misuse are the operands of the tests of wrong calls.
type misuse struct {
	c                 *ggml.Context
	a, b, ids, q, row *ggml.Tensor
}

func (m *misuse) kernel() *ggml.Tensor { return m.c.NewTensor(ggml.F32, 3, 3, 2, 4).SetName("k") }

func (m *misuse) image() *ggml.Tensor { return m.c.NewTensor(ggml.F32, 8, 8, 2).SetName("x") }

func (m *misuse) vector(n int64) *ggml.Tensor { return m.c.NewTensor(ggml.F32, n).SetName("v") }

func newMisuse() *misuse {
	c := ggml.NewContext()
	return &misuse{
		c:   c,
		a:   c.NewTensor(ggml.F32, 4, 3).SetName("a"),
		b:   c.NewTensor(ggml.F32, 5, 2).SetName("b"),
		ids: c.NewTensor(ggml.I32, 2).SetName("ids"),
		q:   c.NewTensor(ggml.Q8_0, 32, 2).SetName("q"),
		row: c.NewTensor(ggml.F32, 4, 1, 6).SetName("row"),
	}
}

// An opError is an op on bad operands, and its error without the caller.
type opError struct {
	build func(m *misuse)
	want  string
}

func requireOpErrors(t *testing.T, cases []opError) {
	t.Helper()
	for _, k := range cases {
		m := newMisuse()
		k.build(m)
		assert.EqualError(t, m.c.Err(), fmt.Sprintf("ggml: %s (at %s)", k.want, callerOf(k.build)), k.want)
		var e *ggml.OpError
		assert.ErrorAs(t, m.c.Err(), &e)
		m.c.Close()
	}
}

// storedTypes lists the quantised types to which the CPU converts.
func storedTypes() []ggml.Type {
	none := append([]ggml.Type{ggml.IQ3XXS, ggml.IQ3S}, optest.SlowTypes...)
	return slices.DeleteFunc(quantizedTypes(), func(t ggml.Type) bool { return slices.Contains(none, t) })
}

func quantizedTypes() []ggml.Type {
	return slices.DeleteFunc(optest.WeightTypes(), func(t ggml.Type) bool { return !t.IsQuantized() })
}

// repeated draws a shape that can be repeated to ne.
func repeated(d *draw, ne [4]int64) [4]int64 {
	for i, n := range ne {
		switch d.IntN(3) {
		case 0:
			ne[i] = 1
		case 1:
			if n%2 == 0 {
				ne[i] = n / 2
			}
		}
	}
	return ne
}

// rowsOf turns a function of float32 rows into a CustomFunc.
func rowsOf(f func(y []float32, x ...[]float32)) ggml.CustomFunc {
	return func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		for i, to := w.Share(dst.NumRows()); i < to; i++ {
			var x [][]float32
			for _, s := range src {
				x = append(x, ggml.CustomRow[float32](s, i))
			}
			f(ggml.CustomRow[float32](dst, i), x...)
		}
		return nil
	}
}

// sum sums its operands and adds their number.
var sum = rowsOf(func(y []float32, x ...[]float32) {
	for i := range y {
		total := float32(len(x))
		for _, v := range x {
			total += v[i]
		}
		y[i] = total
	}
})

package kernels_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// A convKind is a kind of convolution; the operands are X, Kernel, and those that it has.
type convKind struct {
	suffix          string
	bias, positions bool
	before, step    int
	silu            bool
}

func (k convKind) of(x tensors) kernels.ShortConv {
	s := kernels.ShortConv{X: x[0], Kernel: x[1], Step: k.step, SiLU: k.silu}
	x = x[2:]
	if k.before > 0 {
		s.Before, x = x[0], x[1:]
	}
	if k.bias {
		s.Bias, x = x[0], x[1:]
	}
	if k.positions {
		s.Positions = x[0]
	}
	return s
}

func (k convKind) ref(x refs) refmath.ShortConv {
	s := refmath.ShortConv{X: x[0], Kernel: x[1], Step: int64(k.step), SiLU: k.silu}
	x = x[2:]
	if k.before > 0 {
		s.Before, x = x[0], x[1:]
	}
	if k.bias {
		s.Bias, x = x[0], x[1:]
	}
	if k.positions {
		s.Positions = x[0]
	}
	return s
}

// operands have several blocks of channels and of tokens. Most tokens follow one of their sample; some positions are negative, and
// some beyond the row.
func (k convKind) operands(d *draw) (args []operand, result []int64) {
	m, n, rows, taps := d.Size(1100), d.Size(150), d.Size(2), d.Size(5)
	args = []operand{d.Normal(m, n, rows), d.Normal(taps, m).As(ggml.F32)}
	if k.before > 0 {
		args = append(args, d.Normal(m, int64(k.before), rows))
	}
	if k.bias {
		args = append(args, d.Normal(m).As(ggml.F32))
	}
	if k.positions {
		positions := operand{Type: ggml.I32, Values: refmath.New(n, rows)}
		for i := range positions.Values.Data {
			positions.Values.Data[i] = float64(d.Int64N(200) - 1)
			if d.IntN(20) > 0 && int64(i)%n > 0 {
				positions.Values.Data[i] = positions.Values.Data[i-1] + 1
			} else if d.IntN(2) > 0 {
				positions.Values.Data[i] = 0
			}
		}
		args = append(args, positions)
	}
	return args, []int64{m, n, rows}
}

func convCases() []opCase {
	var cases []opCase
	for _, k := range []convKind{ // types are probed with the first, which has all operands
		{"", true, true, 0, 1, true}, {"_packed", false, true, 0, 1, false}, {"_after", true, false, 4, 1, true},
		{"_steps", false, true, 5, 3, true}, {"_few_after", false, false, 1, 2, false}, {"_plain", false, false, 0, 1, false},
	} {
		cases = append(cases, opCase{
			Name: "short_convolution" + k.suffix, Layouts: optest.ContiguousRows, Bound: optest.FewRoundings, Runs: 12,
			Operands: func(d *draw) []operand {
				args, _ := k.operands(d)
				return args
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.ShortConvolution(c, k.of(x)) },
			Want:  func(x refs) refmath.Tensor { return refmath.ShortConvolution(k.ref(x)) },
		}, opCase{
			Name: "short_convolution_grad" + k.suffix, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 12,
			Operands: func(d *draw) []operand {
				args, result := k.operands(d)
				return append([]operand{d.Normal(result...)}, args...)
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.ShortConvolutionGrad(c, x[0], k.of(x[1:])) },
			Want:  func(x refs) refmath.Tensor { return refmath.ShortConvolutionBack(x[0], k.ref(x[1:])) },
		})
	}
	return cases
}

// With any number of threads no bit differs.
func TestShortConvolutionThreads(t *testing.T) {
	const m, n = 700, 200
	w := optest.NewWorkbench(t)
	leaf := func(seed uint64, ne ...int64) *ggml.Tensor {
		return w.Reshape(w.Leaf(optest.Normal(seed, int(ne[0]*ne[1]))...), ne...)
	}
	s := kernels.ShortConv{X: leaf(1, m, n), Kernel: leaf(2, 4, m), Step: 1, SiLU: true}
	y := kernels.ShortConvolution(w.Context, s).SetOutput()
	dx := kernels.ShortConvolutionGrad(w.Context, leaf(3, m, n), s).SetOutput()
	g := w.NewGraph(y, dx)
	w.Compute(g)
	want := [][]float32{optest.Values(t, y), optest.Values(t, dx)}
	for _, threads := range []int{1, 3} {
		require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
		require.Equal(t, want, [][]float32{optest.Values(t, y), optest.Values(t, dx)}, "%d threads", threads)
	}
}

func TestShortConvolutionErrors(t *testing.T) {
	conv := func(change func(c *ggml.Context, s *kernels.ShortConv)) func(c *ggml.Context) {
		return func(c *ggml.Context) {
			s := kernels.ShortConv{X: c.NewTensor(ggml.F32, 6, 5), Kernel: c.NewTensor(ggml.F32, 4, 6), Step: 1}
			change(c, &s)
			kernels.ShortConvolution(c, s)
		}
	}
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"X has type f16; it must have f32":                          conv(func(c *ggml.Context, s *kernels.ShortConv) { s.X = c.NewTensor(ggml.F16, 6, 5) }),
		"X must have at most three dimensions":                      conv(func(c *ggml.Context, s *kernels.ShortConv) { s.X = c.NewTensor(ggml.F32, 6, 5, 1, 2) }),
		"Kernel must be [taps, m] for X [m, …], which has m = 6":    conv(func(c *ggml.Context, s *kernels.ShortConv) { s.Kernel = c.NewTensor(ggml.F32, 6, 4) }),
		"Bias must be [6]":                                          conv(func(c *ggml.Context, s *kernels.ShortConv) { s.Bias = c.NewTensor(ggml.F32, 5) }),
		"Positions has type f32; it must have i32":                  conv(func(c *ggml.Context, s *kernels.ShortConv) { s.Positions = c.NewTensor(ggml.F32, 5) }),
		"Positions must be [n, rows], [5, 1]":                       conv(func(c *ggml.Context, s *kernels.ShortConv) { s.Positions = c.NewTensor(ggml.I32, 4) }),
		"Before has type f16; it must have f32":                     conv(func(c *ggml.Context, s *kernels.ShortConv) { s.Before = c.NewTensor(ggml.F16, 6, 3) }),
		"Before must be [m, b, rows] for X [m, n, rows], [6, b, 1]": conv(func(c *ggml.Context, s *kernels.ShortConv) { s.Before = c.NewTensor(ggml.F32, 6, 3, 2) }),
		"Step is 0; it must be from 1 to 2147483647":                conv(func(_ *ggml.Context, s *kernels.ShortConv) { s.Step = 0 }),
		"operand 1 is nil":                                          conv(func(_ *ggml.Context, s *kernels.ShortConv) { s.Kernel = nil }),
		"dY must have the shape of X, [6 5 1 1]": func(c *ggml.Context) {
			s := kernels.ShortConv{X: c.NewTensor(ggml.F32, 6, 5), Kernel: c.NewTensor(ggml.F32, 4, 6), Step: 1}
			kernels.ShortConvolutionGrad(c, c.NewTensor(ggml.F32, 6, 4), s)
		},
	})
}

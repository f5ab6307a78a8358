package oracle_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/oracle"
	"github.com/goggml/ggml/internal/test/refmath"
)

// operands are the inputs of the programs below: values of both signs, none near 0.
type operands struct {
	c                *ggml.Context
	a, b, w, m, mask *ggml.Tensor // [8, 6, 4], the same, [8, 5], [6, 5, 4], [8, 6]
	rows, positions  *ggml.Tensor // I32 [3], [4]
}

// programs have each op with a formula, and views.
var programs = map[string]func(o operands) *ggml.Tensor{
	"arithmetic": func(o operands) *ggml.Tensor {
		return o.c.Div(o.c.Mul(o.c.Add(o.a, o.b), o.c.Sub(o.a, o.b)), o.c.Sqr(o.b))
	},
	"repeated": func(o operands) *ggml.Tensor { return o.c.Add(o.c.Repeat(o.w, 8, 5, 4), o.w) },
	"unary": func(o operands) *ggml.Tensor {
		x := o.c.Abs(o.a)
		return o.c.Add(o.c.Log(o.c.Sqrt(x)), o.c.Exp(o.c.Neg(o.c.Sin(o.c.Cos(x)))))
	},
	"activations": func(o operands) *ggml.Tensor {
		return o.c.Add(o.c.Add(o.c.Tanh(o.a), o.c.Sigmoid(o.a)), o.c.Add(o.c.Silu(o.a), o.c.Add(o.c.Relu(o.a), o.c.Softplus(o.a))))
	},
	"reductions": func(o operands) *ggml.Tensor {
		return o.c.Add(o.c.Add(o.c.SumRows(o.a), o.c.Mean(o.a)), o.c.Sum(o.c.CumSum(o.a)))
	},
	"argmax": func(o operands) *ggml.Tensor { return o.c.ArgMax(o.w) },
	"products": func(o operands) *ggml.Tensor {
		return o.c.Add(o.c.MulMat(o.w, o.a), o.c.OutProd(o.c.Cont(o.c.Transpose(o.w)), o.c.Cont(o.c.Transpose(o.a))))
	},
	"rows": func(o operands) *ggml.Tensor { return o.c.GetRows(o.w, o.rows) },
	"set rows": func(o operands) *ggml.Tensor {
		return o.c.SetRows(o.c.Cont(o.w), o.c.Scale(o.c.GetRows(o.w, o.rows), 2), o.c.Reshape(o.rows, 3))
	},
	"gated": func(o operands) *ggml.Tensor {
		return o.c.Concat(o.c.GLUSplit(ggml.SwiGLU, o.a, o.b), o.c.GLU(ggml.SwiGLU, o.a, true), 0)
	},
	"scales": func(o operands) *ggml.Tensor { return o.c.Clamp(o.c.ScaleBias(o.a, 2, -0.25), -1, 1.5) },
	"made":   func(o operands) *ggml.Tensor { return o.c.Add(o.c.Fill(o.c.Cont(o.m), 3), o.c.Arange(1, 7, 1)) },
	"norms": func(o operands) *ggml.Tensor {
		return o.c.Add(o.c.RMSNorm(o.a, 0.1), o.c.Add(o.c.Norm(o.a, 0.2), o.c.L2Norm(o.a, 0.3)))
	},
	"softmax": func(o operands) *ggml.Tensor {
		return o.c.SoftMaxExt(o.a, ggml.SoftMaxOptions{Mask: o.mask, Scale: 0.7})
	},
	"attention": func(o operands) *ggml.Tensor {
		mask := o.c.Cast(o.c.Cont(o.c.View(o.mask, []int64{6, 6}, []int64{o.mask.Stride(1)}, 0)), ggml.F16)
		sinks := o.c.Cont(o.c.View(o.w, []int64{4}, nil, 0))
		return o.c.FlashAttention(o.b, o.a, o.b, ggml.AttentionOptions{Mask: mask, Sinks: sinks, Scale: 0.7, MaxBias: 2, Softcap: 3})
	},
	"AdamW": func(o operands) *ggml.Tensor {
		settings := o.c.Abs(o.c.Cont(o.c.View(o.w, []int64{7}, nil, 0)))
		return o.c.OptStepAdamW(ggml.AdamWOperands{Param: o.a.SetParam(), Grad: o.b, M: o.c.Scale(o.b, 0.5), V: o.c.Sqr(o.a), Settings: settings})
	},
	"rope": func(o operands) *ggml.Tensor {
		r := ggml.RoPE{Dims: 6, Mode: ggml.RoPENeoX, FreqBase: 100, FreqScale: 0.5, TrainedCtx: 16, ExtFactor: 1, AttnFactor: 1.1, BetaFast: 8, BetaSlow: 1}
		return o.c.Add(o.c.RoPE(o.a, o.positions, nil, r), o.c.RoPE(o.a, o.positions, o.c.View(o.w, []int64{3}, nil, 4), ggml.RoPE{Dims: 6, FreqBase: 50, FreqScale: 1, AttnFactor: 1}))
	},
	"gradients": func(o operands) *ggml.Tensor {
		r := ggml.RoPE{Dims: 6, Mode: ggml.RoPENeoX, FreqBase: 100, FreqScale: 0.5, AttnFactor: 1.1}
		return o.c.Add(o.c.Add(o.c.SiluBack(o.a, o.b), o.c.RMSNormBack(o.a, o.b, 0.1)),
			o.c.Add(o.c.SoftMaxBack(o.a, o.b, 0.5), o.c.RoPEBack(o.a, o.positions, nil, r)))
	},
	"parts": func(o operands) *ggml.Tensor {
		x := o.c.Cont(o.a)
		part := o.c.View(o.b, []int64{4, 3, 2}, []int64{o.b.Stride(1), o.b.Stride(2)}, o.b.Stride(1))
		at := [3]int64{x.Stride(1), x.Stride(2), x.Stride(3)}
		x = o.c.SetInPlace(x, o.c.Cont(part), at, 8)
		return o.c.AccInPlace(x, o.c.Cont(part), at, 40)
	},
	"permuted": func(o operands) *ggml.Tensor {
		return o.c.Cont(o.c.Permute(o.c.AddInPlace(o.c.Cont(o.a), o.b), [4]int{2, 0, 1, 3}))
	},
	"copies": func(o operands) *ggml.Tensor {
		y := o.c.Cont(o.b)
		return o.c.Add(o.c.Copy(o.c.Cast(o.c.Cast(o.a, ggml.F16), ggml.F32), y), o.c.Reshape(y, 8, 6, 4))
	},
}

// Each formula gives the results of ggml's CPU backend, also for views and in place.
func TestProgramsAgainstCPU(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			c := ggml.NewContext()
			defer c.Close()
			o := operands{
				c: c, a: c.NewTensor(ggml.F32, 8, 6, 4), b: c.NewTensor(ggml.F32, 8, 6, 4), w: c.NewTensor(ggml.F32, 8, 5),
				m: c.NewTensor(ggml.F32, 6, 5, 4), mask: c.NewTensor(ggml.F32, 8, 6), rows: c.NewTensor(ggml.I32, 3), positions: c.NewTensor(ggml.I32, 4),
			}
			g := c.NewGraph(programs[name](o))
			require.NoError(t, c.Err())
			backend := need.Value(ggml.NewCPUBackend(1))(t)
			defer backend.Close()
			buffers := need.Value(c.Allocate(backend.BufferType()))(t)
			defer buffers.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			for _, x := range []*ggml.Tensor{o.a, o.b, o.w, o.m, o.mask} {
				values := make([]float32, x.NumElements())
				for i := range values {
					values[i] = float32(0.25+rng.Float64()) * float32(1-2*rng.IntN(2))
				}
				require.NoError(t, ggml.Write(x, values))
			}
			require.NoError(t, ggml.Write(o.rows, []int32{4, 0, 2}))
			require.NoError(t, ggml.Write(o.positions, []int32{0, 3, 9, 20}))

			p := need.Value(oracle.Compile(g, nil))(t)
			require.NoError(t, backend.Compute(context.Background(), g))
			last := lastOf(g)
			got := need.Value(p.Run().Of(last))(t)
			want := need.Value(values(last))(t)
			bound := 1e-6
			if name == "copies" || name == "attention" { // F16 rounds
				bound = 1e-3
			}
			require.Less(t, refmath.RelativeError(want, got.Data), bound)
		})
	}
}

func lastOf(g *ggml.Graph) (last *ggml.Tensor) {
	for t := range g.Nodes() {
		last = t
	}
	return last
}

func values(t *ggml.Tensor) ([]float32, error) {
	if t.Type() != ggml.I32 {
		return t.Float32s()
	}
	whole, err := ggml.Read[int32](t)
	return refmath.From(whole).Float32(), err
}

// Leaves can be changed before a run, and no run changes them.
func TestRunsAreIndependent(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 2).SetName("a"), c.NewTensor(ggml.F32, 2).SetName("b")
	sum := c.AddInPlace(a, b)
	g := c.NewGraph(sum)
	p := need.Value(oracle.Compile(g, oracle.Inputs{"a": {1, 2}, "b": {10, 20}}))(t)
	for range 2 {
		got := need.Value(p.Run().Of(sum))(t)
		require.Equal(t, []float64{11, 22}, got.Data)
	}
	p.Leaf(b)[1] = 1e-12
	got := need.Value(p.Run().Of(a))(t)
	require.Equal(t, []float64{11, 2 + 1e-12}, got.Data)
}

// The error names what cannot be computed.
func TestCompileErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.F32, 4, 4).SetName("a")
	_, err := oracle.Compile(c.NewGraph(c.Sqr(a)), nil)
	require.EqualError(t, err, "oracle: a f32[4, 4] has no memory, and no input has its name")
	_, err = oracle.Compile(c.NewGraph(c.Sqr(a)), oracle.Inputs{"a": {1}})
	require.EqualError(t, err, "oracle: 1 values for a f32[4, 4]")
	_, err = oracle.Compile(c.NewGraph(c.Expm1(a)), oracle.Inputs{"a": make([]float64, 16)})
	require.ErrorContains(t, err, "oracle: there is no formula of expm1")
}

package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func TestOpCodes(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.F32, 4, 4)
	for want, y := range map[string]*ggml.Tensor{
		"none": a, "add": c.Add(a, a), "mul_mat": c.MulMat(a, a), "unary": c.Silu(a), "glu": c.GLUSplit(ggml.GeGLU, a, a), "view": c.View(a, []int64{2}, nil, 0),
	} {
		require.Equal(t, want, y.OpCode().String())
	}
	require.Equal(t, "X*Y", c.MulMat(a, a).OpCode().Symbol())
	names := map[string]bool{}
	for _, o := range ggml.OpCodes() {
		require.NotEmpty(t, o.Symbol(), o)
		require.False(t, names[o.String()], o)
		names[o.String()] = true
	}
	require.True(t, names["flash_attn_ext"])
	past := ggml.OpCode(len(names))
	require.Empty(t, past.Symbol())
	require.Contains(t, past.String(), "OpCode(")
	require.Equal(t, "OpCode(-1)", ggml.OpCode(-1).String())

	g, is := c.GLU(ggml.GeGLUQuick, a, false).GLU()
	require.True(t, is)
	require.Equal(t, "geglu_quick", g.String())
	g, is = c.SwiGLUOAI(a, a, 1, 1).GLU()
	require.True(t, is)
	require.Equal(t, ggml.SwiGLUOAI, g)
	_, is = a.GLU()
	require.False(t, is)
	_, is = a.Unary()
	require.False(t, is)
	require.Equal(t, "GLU(99)", ggml.GLU(99).String())
	require.Equal(t, "Unary(-1)", ggml.Unary(-1).String())
}

func numberedCases() []opCase {
	args := func(d *draw) []operand { ne := d.Shape(); return []operand{d.Uniform(-3, 3, ne[:]...)} }
	want := func(x refs) refmath.Tensor { return refmath.Silu(x[0]) }
	return []opCase{
		{
			Name: "unary", Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.VectorExp, Operands: args, Want: want,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Unary(ggml.UnarySilu, x[0]) },
		},
		{
			Name: "unary_inplace", Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.VectorExp, Operands: args, Want: want, InPlace: true,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.UnaryInPlace(ggml.UnarySilu, x[0]) },
		},
	}
}

func numberedGradCases() []gradCase {
	return []gradCase{{
		Name: "unary", Params: []int{0},
		Operands: func(d *draw) []operand { return []operand{d.Uniform(-3, 3, 6, 3, 2)} },
		Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Unary(ggml.UnarySilu, x[0]) },
		Want:     func(x refs) refmath.Tensor { return refmath.Silu(x[0]) },
	}}
}

// Each op's number gives the op of that name.
func TestUnary(t *testing.T) {
	references := map[string]func(refmath.Tensor) refmath.Tensor{
		"abs": refmath.Abs, "sgn": refmath.Sgn, "neg": refmath.Neg, "step": refmath.Step, "tanh": refmath.Tanh, "elu": refmath.Elu,
		"relu": refmath.Relu, "sigmoid": refmath.Sigmoid, "gelu": refmath.Gelu, "gelu_quick": refmath.GeluQuick, "silu": refmath.Silu,
		"hardswish": refmath.HardSwish, "hardsigmoid": refmath.HardSigmoid, "exp": refmath.Exp, "expm1": refmath.Expm1,
		"softplus": refmath.Softplus, "gelu_erf": refmath.GeluErf, "floor": refmath.Floor, "ceil": refmath.Ceil, "round": refmath.Round, "trunc": refmath.Trunc,
	}
	for _, u := range ggml.Unaries() {
		if u == ggml.UnaryXIELU {
			continue
		}
		ref := references[u.String()]
		require.NotNil(t, ref, u)
		k := opCase{
			Name: "unary_" + u.String(), Layouts: optest.ContiguousRows, Bound: optest.F16Table, Runs: 3,
			Operands: func(d *draw) []operand { ne := d.Shape(); return []operand{d.Uniform(-3, 3, ne[:]...)} },
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				y := c.Unary(u, x[0])
				got, is := y.Unary()
				require.True(t, is)
				require.Equal(t, u, got)
				require.Equal(t, u.String(), y.Op())
				return y
			},
			Want: func(x refs) refmath.Tensor { return ref(x[0]) },
		}
		changed := k
		changed.Name += "_inplace"
		changed.InPlace = true
		changed.Build = func(c *ctx, x tensors) *ggml.Tensor { return c.UnaryInPlace(u, x[0]) }
		optest.Run(t, []opCase{k, changed})
	}
	for want, build := range map[string]func(c *ggml.Context, a *ggml.Tensor){
		"unary(leaf f32[4]): xielu has parameters; use XIELU":                       func(c *ggml.Context, a *ggml.Tensor) { c.Unary(ggml.UnaryXIELU, a) },
		"unary_inplace(leaf f32[4]): there is no unary op 1000":                     func(c *ggml.Context, a *ggml.Tensor) { c.UnaryInPlace(1000, a) },
		"unary(leaf f32[4]): there is no unary op -1":                               func(c *ggml.Context, a *ggml.Tensor) { c.Unary(-1, a) },
		"glu(leaf f32[4]): swiglu_oai has parameters; use SwiGLUOAI or SwiGLUClamp": func(c *ggml.Context, a *ggml.Tensor) { c.GLU(ggml.SwiGLUOAI, a, false) },
		"glu_split(leaf f32[4], leaf f32[4]): there is no gated linear unit 1000":   func(c *ggml.Context, a *ggml.Tensor) { c.GLUSplit(1000, a, a) },
	} {
		c := ggml.NewContext()
		build(c, c.NewTensor(ggml.F32, 4))
		require.ErrorContains(t, c.Err(), want)
		c.Close()
	}
}

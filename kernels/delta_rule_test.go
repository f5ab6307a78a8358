package kernels_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// deltaCases have heads that share keys, several blocks of tokens, and more columns than a panel.
func deltaCases() []opCase {
	var cases []opCase
	suffixes := []string{"", "_alone", "_one_key", "_channels", "_channels_alone", "_state", "_channels_state"} // types are probed with the first, which has all operands
	if _, err := kernels.GEMMLibrary(); err == nil {
		suffixes = append(suffixes, "_unit_one_key")
	}
	if kernels.HasBF16() {
		suffixes = append(suffixes, "_bf16", "_bf16_alone")
	}
	for _, suffix := range suffixes {
		least, unit := int64(0), float32(0)
		if strings.HasPrefix(suffix, "_unit") {
			least, unit = 31, 0.1 // only chunks normalise
		}
		bf16, bound := strings.HasPrefix(suffix, "_bf16"), optest.LongSum
		if bf16 {
			bound = optest.AttentionBF16
		}
		packed, state := !strings.HasSuffix(suffix, "_alone"), strings.HasSuffix(suffix, "_state")
		reads := packed && !strings.HasSuffix(suffix, "_one_key")
		operands := func(d *draw) []operand {
			size, keys, n, rows := least+d.Size(70), d.Size(3), least+d.Size(150), d.Size(2)
			heads := keys * d.Size(3)
			key := func() operand {
				if unit > 0 {
					return d.Normal(size, keys, n, rows).As(ggml.F32)
				}
				return operand{Type: ggml.F32, Values: refmath.L2Norm(d.Normal(size, keys, n, rows).Values, 1e-6)}
			}
			rates := []int64{heads, n, rows}
			if strings.HasPrefix(suffix, "_channels") {
				rates = []int64{size, heads, n, rows}
			}
			args := []operand{
				key(), key(), d.Normal(size, heads, n, rows).As(ggml.F32),
				d.Uniform(-1, 0, rates...).As(ggml.F32), d.Uniform(0, 1, heads, n, rows).As(ggml.F32),
			}
			if packed {
				starts := operand{Type: ggml.I32, Values: refmath.New(n, rows)}
				for row := range rows {
					copy(starts.Values.Data[row*n:], drawVisible(d, n))
				}
				args = append(args, starts)
			}
			if reads {
				args = append(args, key())
			}
			if state {
				args = append(args, d.Normal(size, size, heads, rows).As(ggml.F32))
			}
			return args
		}
		cases = append(cases, opCase{
			Name: "gated_delta_rule" + suffix, Layouts: optest.ContiguousOnly, Bound: bound, Runs: 12, Operands: operands,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GatedDeltaRule(c, deltaRule(c, x, bf16, unit)) },
			Want: func(x refs) refmath.Tensor {
				if state {
					return refmath.GatedDeltaRuleStates(deltaRef(x, unit))
				}
				return refmath.GatedDeltaRule(deltaRef(x, unit))
			},
		})
		if state {
			continue // it has no gradients
		}
		for i, name := range []string{"q", "k", "v", "g", "beta", "read"} {
			if name == "read" && !reads {
				continue
			}
			cases = append(cases, opCase{
				Name: "gated_delta_rule_grad_" + name + suffix, Layouts: optest.ContiguousOnly, Bound: bound, Runs: 8,
				Operands: func(d *draw) []operand {
					args := operands(d)
					ne := args[2].Values.Ne
					return append([]operand{d.Normal(ne[:]...).As(ggml.F32)}, args...)
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor {
					dq, dk, dv, dg, dbeta, dread := kernels.GatedDeltaRuleGrad(c, x[0], deltaRule(c, x[1:], bf16, unit))
					return []*ggml.Tensor{dq, dk, dv, dg, dbeta, dread}[i]
				},
				Want: func(x refs) refmath.Tensor {
					grad := refmath.GatedDeltaRuleBack(x[0], deltaRef(x[1:], unit))[i]
					if unit > 0 && i < 2 {
						n := float64(grad.Ne[0])
						return refmath.RMSNormBack(refmath.Scale(grad, 1/math.Sqrt(n)), x[1+i], float64(unit)/n)
					}
					return grad
				},
			})
		}
	}
	return cases
}

// deltaRule makes a rule of operands. With a unit its queries, keys and values lie side by side.
func deltaRule(c *ctx, x tensors, bf16 bool, unit float32) kernels.DeltaRule {
	d := kernels.DeltaRule{Q: x[0], K: x[1], V: x[2], G: x[3], Beta: x[4], BF16: bf16, Unit: unit}
	if unit > 0 {
		flat := func(x *ggml.Tensor) *ggml.Tensor { return c.Reshape(x, x.Dim(0)*x.Dim(1), x.Dim(2), x.Dim(3)) }
		all := c.Concat(c.Concat(flat(d.Q), flat(d.K), 0), flat(d.V), 0)
		at := int64(0)
		for _, x := range []**ggml.Tensor{&d.Q, &d.K, &d.V} {
			like := *x
			*x = c.View(all, like.Shape(), []int64{like.Stride(1), all.Stride(1), all.Stride(2)}, at)
			at += like.Stride(2)
		}
	}
	if len(x) > 5 {
		d.Starts = x[5]
	}
	if len(x) > 6 {
		d.Read = x[6]
	}
	if len(x) > 7 {
		d.State = x[7]
	}
	return d
}

func deltaRef(x refs, unit float32) refmath.DeltaRule {
	if unit > 0 {
		n := float64(x[0].Ne[0])
		normalise := func(x refmath.Tensor) refmath.Tensor {
			return refmath.Scale(refmath.RMSNorm(x, float64(unit)/n), 1/math.Sqrt(n))
		}
		x = append(refs{normalise(x[0]), normalise(x[1])}, x[2:]...)
	}
	d := refmath.DeltaRule{Q: x[0], K: x[1], V: x[2], G: x[3], Beta: x[4]}
	if len(x) > 5 {
		d.Starts = x[5]
	}
	if len(x) > 6 {
		d.Read = x[6]
	}
	if len(x) > 7 {
		d.State = x[7]
	}
	return d
}

// With any number of threads no bit differs.
func TestGatedDeltaRuleThreads(t *testing.T) {
	const size, keys, heads, n = 66, 2, 6, 130
	w := optest.NewWorkbench(t)
	leaf := func(seed uint64, ne ...int64) *ggml.Tensor {
		count := int64(1)
		for _, n := range ne {
			count *= n
		}
		return w.Reshape(w.Leaf(optest.Normal(seed, int(count))...), ne...)
	}
	var results []*ggml.Tensor
	for _, way := range []struct {
		rates []int64
		bf16  bool
	}{{rates: []int64{heads, n}}, {rates: []int64{heads, n}, bf16: kernels.HasBF16()}, {rates: []int64{size, heads, n}}} {
		d := kernels.DeltaRule{
			BF16: way.bf16,
			Q:    w.L2Norm(leaf(1, size, keys, n), 1e-6), K: w.L2Norm(leaf(2, size, keys, n), 1e-6), V: leaf(3, size, heads, n),
			G: w.Neg(w.Sigmoid(leaf(4, way.rates...))), Beta: w.Sigmoid(leaf(5, heads, n)),
		}
		dq, dk, dv, dg, dbeta, _ := kernels.GatedDeltaRuleGrad(w.Context, leaf(6, size, heads, n), d)
		results = append(results, kernels.GatedDeltaRule(w.Context, d), dq, dk, dv, dg, dbeta)
	}
	for _, y := range results {
		y.SetOutput()
	}
	g := w.NewGraph(results...)
	w.Compute(g)
	var want [][]float32
	for _, y := range results {
		want = append(want, optest.Values(t, y))
	}
	for _, threads := range []int{1, 3} {
		require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
		for i, y := range results {
			require.Equal(t, want[i], optest.Values(t, y), "%d threads", threads)
		}
	}
}

func TestGatedDeltaRuleErrors(t *testing.T) {
	if !kernels.HasBF16() {
		optest.RequireErrors(t, map[string]func(c *ggml.Context){"BF16 needs a GEMM library and a processor that multiply in BF16": func(c *ggml.Context) {
			x := func(ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
			kernels.GatedDeltaRule(c, kernels.DeltaRule{Q: x(8, 2, 5), K: x(8, 2, 5), V: x(8, 4, 5), G: x(4, 5), Beta: x(4, 5), BF16: true})
		}})
	}
	rule := func(change func(c *ggml.Context, d *kernels.DeltaRule)) func(c *ggml.Context) {
		return func(c *ggml.Context) {
			x := func(ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
			d := kernels.DeltaRule{Q: x(8, 2, 5), K: x(8, 2, 5), V: x(8, 4, 5), G: x(4, 5), Beta: x(4, 5)}
			change(c, &d)
			kernels.GatedDeltaRule(c, d)
		}
	}
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"K has type f16; it must have f32":              rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.K = c.NewTensor(ggml.F16, 8, 2, 5) }),
		"the rows of V must be contiguous":              rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.V = c.Transpose(c.NewTensor(ggml.F32, 4, 8, 5)) }),
		"Unit is -1; it must be 0 or a positive number": rule(func(_ *ggml.Context, d *kernels.DeltaRule) { d.Unit = -1 }),
		"Unit is NaN": rule(func(_ *ggml.Context, d *kernels.DeltaRule) { d.Unit = float32(math.NaN()) }),
		"a rule with Unit must be computed by chunks":               rule(func(_ *ggml.Context, d *kernels.DeltaRule) { d.Unit = 1e-6 }),
		"the shapes must be equal":                                  rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.Q = c.NewTensor(ggml.F32, 8, 1, 5) }),
		"K and V must be equal but in ne1":                          rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.V = c.NewTensor(ggml.F32, 7, 4, 5) }),
		"ne1 of V must be a multiple of ne1 of K: they are 3 and 2": rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.V = c.NewTensor(ggml.F32, 8, 3, 5) }),
		"Beta must be [heads, n, rows] of V":                        rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.Beta = c.NewTensor(ggml.F32, 4, 4) }),
		"Starts has type f32; it must have i32":                     rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.Starts = c.NewTensor(ggml.F32, 5) }),
		"Starts must be [n, rows] of V, [5, 1]":                     rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.Starts = c.NewTensor(ggml.I32, 4) }),
		"Read has type f16; it must have f32":                       rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.Read = c.NewTensor(ggml.F16, 8, 2, 5) }),
		"State must be [size, size, heads, rows] of V":              rule(func(c *ggml.Context, d *kernels.DeltaRule) { d.State = c.NewTensor(ggml.F32, 8, 8, 2) }),
		"a rule with State has no gradients": func(c *ggml.Context) {
			x := func(ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
			d := kernels.DeltaRule{Q: x(8, 2, 5), K: x(8, 2, 5), V: x(8, 2, 5), G: x(2, 5), Beta: x(2, 5), State: x(8, 8, 2)}
			kernels.GatedDeltaRuleGrad(c, x(8, 2, 5), d)
		},
		"operand 3 is nil": rule(func(_ *ggml.Context, d *kernels.DeltaRule) { d.G = nil }),
		"dY has type f16": func(c *ggml.Context) {
			x := func(ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
			kernels.GatedDeltaRuleGrad(c, c.NewTensor(ggml.F16, 8, 2, 5), kernels.DeltaRule{Q: x(8, 2, 5), K: x(8, 2, 5), V: x(8, 2, 5), G: x(2, 5), Beta: x(2, 5)})
		},
	})
}

package ggml_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// The operands of recurrences, in the order of C's parameters.

func rwkv6(x tensors) ggml.RWKV6Operands {
	return ggml.RWKV6Operands{K: x[0], V: x[1], R: x[2], TimeFirst: x[3], TimeDecay: x[4], State: x[5]}
}

func rwkv7(x tensors) ggml.RWKV7Operands {
	return ggml.RWKV7Operands{R: x[0], W: x[1], K: x[2], V: x[3], A: x[4], B: x[5], State: x[6]}
}

func linearAttention(x tensors, scale float32) ggml.GatedLinearAttentionOperands {
	return ggml.GatedLinearAttentionOperands{K: x[0], V: x[1], Q: x[2], G: x[3], State: x[4], Scale: scale}
}

func ssmScan(x tensors) ggml.SSMScanOperands {
	return ggml.SSMScanOperands{State: x[0], X: x[1], DT: x[2], A: x[3], B: x[4], C: x[5], IDs: x[6]}
}

func deltaNet(x tensors) ggml.GatedDeltaNetOperands {
	return ggml.GatedDeltaNetOperands{Q: x[0], K: x[1], V: x[2], G: x[3], Beta: x[4], State: x[5]}
}

func recurrentCases() []opCase {
	// several draws operands [n, heads, tokens], and a state.
	several := func(count int, sizes ...int64) func(d *draw) []operand {
		return func(d *draw) []operand {
			n, heads, sequences := sizes[d.IntN(len(sizes))], d.Size(4), d.Size(3)
			tokens := sequences * d.Size(4)
			var args []operand
			for range count {
				args = append(args, d.Uniform(-0.2, 0.2, n, heads, tokens))
			}
			return append(args, d.Normal(n*n*heads, sequences))
		}
	}
	delta := func(gate bool) opCase {
		return opCase{
			Name: fmt.Sprintf("gated_delta_net_%v", gate), Layouts: optest.ContiguousOnly, Bound: optest.Recurrence,
			Operands: func(d *draw) []operand {
				n, groups, tokens, sequences := []int64{1, 4, 8, 16, 20, 32}[d.IntN(6)], d.Size(2), d.Size(5), d.Size(3)
				heads, gates := groups*d.Size(2), int64(1)
				if gate {
					gates = n
				}
				return []operand{
					d.Uniform(-0.5, 0.5, n, groups, tokens, sequences), d.Uniform(-0.5, 0.5, n, groups, tokens, sequences),
					d.Normal(n, heads, tokens, sequences), d.Uniform(-2, 0, gates, heads, tokens, sequences),
					d.Uniform(0, 1, 1, heads, tokens, sequences), d.Normal(n, n, heads, sequences),
				}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.GatedDeltaNet(deltaNet(x)) },
			Want:  func(x refs) refmath.Tensor { return refmath.GatedDeltaNet(x[0], x[1], x[2], x[3], x[4], x[5]) },
		}
	}
	scan := func(scalar bool) opCase {
		return opCase{
			Name: fmt.Sprintf("ssm_scan_%v", scalar), Layouts: optest.ContiguousOnly, Bound: optest.Recurrence,
			Operands: func(d *draw) []operand {
				size, n, groups, tokens, sequences := []int64{1, 4, 16, 20, 64}[d.IntN(5)], d.Size(5), d.Size(3), d.Size(5), d.Size(3)
				heads, rows, states := groups*d.Size(2), size, sequences+d.Size(3)-1
				if scalar {
					rows = 1
				}
				return []operand{
					d.Normal(size, n, heads, states), d.Normal(n, heads, tokens, sequences), d.Normal(heads, tokens, sequences),
					d.Uniform(-2, 0, rows, heads), d.Normal(size, groups, tokens, sequences), d.Normal(size, groups, tokens, sequences),
					d.Indices(states, sequences),
				}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SSMScan(ssmScan(x)) },
			Want:  func(x refs) refmath.Tensor { return refmath.SSMScan(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
		}
	}
	// states makes a case of a variant that returns the states after each token.
	states := func(k opCase, build func(c *ctx, x tensors) *ggml.Tensor, want func(x refs) refmath.Tensor) opCase {
		k.Name += "_states"
		k.Build, k.Want = build, want
		return k
	}
	deltaStates := func(gate bool) opCase {
		return states(delta(gate),
			func(c *ctx, x tensors) *ggml.Tensor { return c.GatedDeltaNetStates(deltaNet(x)) },
			func(x refs) refmath.Tensor { return refmath.GatedDeltaNetStates(x[0], x[1], x[2], x[3], x[4], x[5]) })
	}
	scanStates := states(scan(true),
		func(c *ctx, x tensors) *ggml.Tensor { return c.SSMScanStates(ssmScan(x)) },
		func(x refs) refmath.Tensor { return refmath.SSMScanStates(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) })
	return []opCase{
		delta(false), delta(true), scan(false), scan(true),
		deltaStates(false), deltaStates(true), scanStates,
		{
			Name: "rwkv_wkv6", Layouts: optest.ContiguousOnly, Bound: optest.Recurrence,
			Operands: func(d *draw) []operand {
				x := several(4, 1, 4, 8, 16, 20, 32)(d)
				ne := x[0].Values.Ne
				return slices.Insert(x, 3, d.Normal(ne[0], ne[1]))
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RWKV6(rwkv6(x)) },
			Want:  func(x refs) refmath.Tensor { return refmath.RWKV6(x[0], x[1], x[2], x[3], x[4], x[5]) },
		},
		{
			Name: "rwkv_wkv7", Layouts: optest.ContiguousOnly, Bound: optest.Recurrence, Operands: several(6, 64, 128),
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.RWKV7(rwkv7(x)) },
			Want:  func(x refs) refmath.Tensor { return refmath.RWKV7(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
		},
		{
			Name: "gated_linear_attn", Layouts: optest.ContiguousOnly, Bound: optest.Recurrence, Operands: several(4, 1, 4, 8, 16, 20, 32),
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.GatedLinearAttention(linearAttention(x, 0.25))
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.GatedLinearAttention(x[0], x[1], x[2], x[3], x[4], 0.25)
			},
		},
		{
			Name: "ssm_conv", Layouts: optest.ContiguousOnly, Bound: optest.LongSum,
			Operands: func(d *draw) []operand {
				k, channels := d.Size(5), d.Size(20)
				return []operand{d.Normal(k-1+d.Size(6), channels, d.Size(3)), d.Normal(k, channels)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SSMConv(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.SSMConv(x[0], x[1]) },
		},
		{
			Name: "solve_tri", Layouts: optest.ContiguousOnly, Bound: optest.Recurrence,
			Operands: func(d *draw) []operand {
				n, p, q := d.Size(12), d.Size(3), d.Size(2)
				a := d.Uniform(-0.5, 0.5, n, n, p, q)
				for i := range a.Values.Data {
					if i0, i1 := int64(i)%n, int64(i)/n%n; i0 == i1 {
						a.Values.Data[i] += 1.5
					}
				}
				return []operand{a, d.Normal(d.Size(40), n, p, q)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SolveTri(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.SolveTri(x[0], x[1]) },
		},
	}
}

// More threads than heads.
func TestRecurrentOpsThreads(t *testing.T) {
	backend, alloc := optest.NewCPUBackend(t, 4), optest.NewGraphAllocator(t)
	for range 20 {
		c := ggml.NewContext()
		x := c.Fill(c.NewTensor(ggml.F32, 64, 1, 4), 0.1)
		first, state := c.Fill(c.NewTensor(ggml.F32, 64), 1), c.Fill(c.NewTensor(ggml.F32, 64*64, 2), 1)
		g := c.NewGraph(c.RWKV6(rwkv6(tensors{x, x, x, first, x, state})), c.RWKV7(rwkv7(tensors{x, x, x, x, x, x, state})), c.GatedLinearAttention(linearAttention(tensors{x, x, x, x, state}, 1)))
		require.NoError(t, alloc.Allocate(g))
		require.NoError(t, backend.Compute(t.Context(), g))
		c.Close()
	}
}

func (m *misuse) transposedQueries() ggml.GatedDeltaNetOperands {
	x, row := m.c.NewTensor(ggml.F32, 4, 4), m.c.NewTensor(ggml.F32, 1, 4)
	return ggml.GatedDeltaNetOperands{Q: m.c.Transpose(x), K: x, V: x, G: row, Beta: row, State: m.c.NewTensor(ggml.F32, 4, 4, 4)}
}

func (m *misuse) linearAttention(state *ggml.Tensor) ggml.GatedLinearAttentionOperands {
	return linearAttention(tensors{m.a, m.a, m.a, m.a, state}, 1)
}

func TestRecurrentErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.RWKV7(rwkv7(tensors{m.a, m.a, m.a, m.a, m.a, m.a, m.vector(48)})) }, "rwkv_wkv7(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], v f32[48]): ne0 is 4; it must be a multiple of 64"},
		{func(m *misuse) { m.c.GatedLinearAttention(m.linearAttention(m.vector(47))) }, "gated_linear_attn(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], v f32[47]): the state must be [n·n·heads, sequences], which is [48, …]"},
		{func(m *misuse) { m.c.GatedLinearAttention(m.linearAttention(m.c.NewTensor(ggml.F32, 48, 2))) }, "gated_linear_attn(a f32[4, 3], a f32[4, 3], a f32[4, 3], a f32[4, 3], leaf f32[48, 2]): the 1 tokens are not a multiple of the 2 sequences"},
		{func(m *misuse) { m.c.GatedDeltaNet(m.transposedQueries()) }, "gated_delta_net(transpose() f32[4, 4], leaf f32[4, 4], leaf f32[4, 4], leaf f32[1, 4], leaf f32[1, 4], leaf f32[4, 4, 4]): the rows of q must be contiguous; call Cont"},
		{func(m *misuse) { m.c.SSMConv(m.a, m.b) }, "ssm_conv(a f32[4, 3], b f32[5, 2]): the channels differ: ne1 of x is 3, of the kernel 2"},
	})
}

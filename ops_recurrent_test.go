package ggml_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestRecurrentOps(t *testing.T) { runOps(t, recurrentCases()) }

func recurrentCases() []opCase {
	// several operands [n, heads, tokens], and a state.
	several := func(count int, sizes ...int64) func(d *draw) []arg {
		return func(d *draw) []arg {
			n, heads, sequences := sizes[d.IntN(len(sizes))], d.size(4), d.size(3)
			tokens := sequences * d.size(4)
			var args []arg
			for range count {
				args = append(args, d.uniform(-0.2, 0.2, n, heads, tokens))
			}
			return append(args, d.normal(n*n*heads, sequences))
		}
	}
	delta := func(gate bool) opCase {
		return opCase{
			name: fmt.Sprintf("gated_delta_net_%v", gate), layouts: denseOnly, bound: fed,
			args: func(d *draw) []arg {
				n, groups, tokens, sequences := []int64{1, 4, 8, 16, 20, 32}[d.IntN(6)], d.size(2), d.size(5), d.size(3)
				heads, gates := groups*d.size(2), int64(1)
				if gate {
					gates = n
				}
				return []arg{
					d.uniform(-0.5, 0.5, n, groups, tokens, sequences), d.uniform(-0.5, 0.5, n, groups, tokens, sequences),
					d.normal(n, heads, tokens, sequences), d.uniform(-2, 0, gates, heads, tokens, sequences),
					d.uniform(0, 1, 1, heads, tokens, sequences), d.normal(n, n, heads, sequences),
				}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.GatedDeltaNet(x[0], x[1], x[2], x[3], x[4], x[5]) },
			want:  func(x refs) refmath.Tensor { return refmath.GatedDeltaNet(x[0], x[1], x[2], x[3], x[4], x[5]) },
		}
	}
	scan := func(scalar bool) opCase {
		return opCase{
			name: fmt.Sprintf("ssm_scan_%v", scalar), layouts: denseOnly, bound: fed,
			args: func(d *draw) []arg {
				size, n, groups, tokens, sequences := []int64{1, 4, 16, 20, 64}[d.IntN(5)], d.size(5), d.size(3), d.size(5), d.size(3)
				heads, rows, states := groups*d.size(2), size, sequences+d.size(3)-1
				if scalar {
					rows = 1
				}
				return []arg{
					d.normal(size, n, heads, states), d.normal(n, heads, tokens, sequences), d.normal(heads, tokens, sequences),
					d.uniform(-2, 0, rows, heads), d.normal(size, groups, tokens, sequences), d.normal(size, groups, tokens, sequences),
					d.ids(states, sequences),
				}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SSMScan(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
			want:  func(x refs) refmath.Tensor { return refmath.SSMScan(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
		}
	}
	// states makes a case of a variant that returns the states after each token.
	states := func(k opCase, build func(c *ctx, x tensors) *ggml.Tensor, want func(x refs) refmath.Tensor) opCase {
		k.name += "_states"
		k.build, k.want = build, want
		return k
	}
	deltaStates := func(gate bool) opCase {
		return states(delta(gate),
			func(c *ctx, x tensors) *ggml.Tensor { return c.GatedDeltaNetStates(x[0], x[1], x[2], x[3], x[4], x[5]) },
			func(x refs) refmath.Tensor { return refmath.GatedDeltaNetStates(x[0], x[1], x[2], x[3], x[4], x[5]) })
	}
	scanStates := states(scan(true),
		func(c *ctx, x tensors) *ggml.Tensor { return c.SSMScanStates(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
		func(x refs) refmath.Tensor { return refmath.SSMScanStates(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) })
	return []opCase{
		delta(false), delta(true), scan(false), scan(true),
		deltaStates(false), deltaStates(true), scanStates,
		{
			name: "rwkv_wkv6", layouts: denseOnly, bound: fed,
			args: func(d *draw) []arg {
				x := several(4, 1, 4, 8, 16, 20, 32)(d)
				ne := x[0].values.Ne
				return append(x, d.normal(ne[0], ne[1]))
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RWKV6(x[0], x[1], x[2], x[5], x[3], x[4]) },
			want:  func(x refs) refmath.Tensor { return refmath.RWKV6(x[0], x[1], x[2], x[5], x[3], x[4]) },
		},
		{
			name: "rwkv_wkv7", layouts: denseOnly, bound: fed, args: several(6, 64, 128),
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.RWKV7(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
			want:  func(x refs) refmath.Tensor { return refmath.RWKV7(x[0], x[1], x[2], x[3], x[4], x[5], x[6]) },
		},
		{
			name: "gated_linear_attn", layouts: denseOnly, bound: fed, args: several(4, 1, 4, 8, 16, 20, 32),
			build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.GatedLinearAttention(x[0], x[1], x[2], x[3], x[4], 0.25)
			},
			want: func(x refs) refmath.Tensor {
				return refmath.GatedLinearAttention(x[0], x[1], x[2], x[3], x[4], 0.25)
			},
		},
		{
			name: "ssm_conv", layouts: denseOnly, bound: sums,
			args: func(d *draw) []arg {
				k, channels := d.size(5), d.size(20)
				return []arg{d.normal(k-1+d.size(6), channels, d.size(3)), d.normal(k, channels)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SSMConv(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.SSMConv(x[0], x[1]) },
		},
		{
			name: "solve_tri", layouts: denseOnly, bound: fed,
			args: func(d *draw) []arg {
				n, p, q := d.size(12), d.size(3), d.size(2)
				a := d.uniform(-0.5, 0.5, n, n, p, q)
				for i := range a.values.Data {
					if i0, i1 := int64(i)%n, int64(i)/n%n; i0 == i1 {
						a.values.Data[i] += 1.5
					}
				}
				return []arg{a, d.normal(d.size(40), n, p, q)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SolveTri(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.SolveTri(x[0], x[1]) },
		},
	}
}

// More threads than heads.
func TestRecurrentOpsThreads(t *testing.T) {
	backend, alloc := cpuBackend(t, 4), graphAllocator(t)
	for range 20 {
		c := ggml.NewContext()
		x := c.Fill(c.NewTensor(ggml.F32, 64, 1, 4), 0.1)
		first, state := c.Fill(c.NewTensor(ggml.F32, 64), 1), c.Fill(c.NewTensor(ggml.F32, 64*64, 2), 1)
		g := c.NewGraph(c.RWKV6(x, x, x, first, x, state), c.RWKV7(x, x, x, x, x, x, state), c.GatedLinearAttention(x, x, x, x, state, 1))
		require.NoError(t, alloc.Alloc(g))
		require.NoError(t, backend.Compute(t.Context(), g))
		c.Close()
	}
}

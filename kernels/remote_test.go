package kernels_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/kernels"
)

// A server rebuilds ops as they were, and reserves at least the scratch memory that they take.
func TestRemoteOps(t *testing.T) {
	need.Time(t, "builds each op on a server")
	if library(t) == "" {
		t.Skip("there is no GEMM library")
	}
	f32 := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	attend := func(c *ggml.Context, n int64) kernels.Attention {
		a := attention(f32(c, 64, 4, n), f32(c, 64, 2, n), f32(c, 64, 2, n), 0.1)
		a.FirstVisible, a.HiddenFrom, a.HiddenTo = c.NewTensor(ggml.I32, n), c.NewTensor(ggml.I32, n), c.NewTensor(ggml.I32, n)
		a.Scores = kernels.ScoreOptions{Softcap: 30, MaxBias: 8, Sinks: f32(c, 4)}
		return a
	}
	delta := func(c *ggml.Context, n int64) kernels.DeltaRule {
		return kernels.DeltaRule{
			Q: f32(c, 128, 2, n), K: f32(c, 128, 2, n), Read: f32(c, 128, 2, n), V: f32(c, 128, 4, n), G: f32(c, 128, 4, n), Beta: f32(c, 4, n),
			Starts: c.NewTensor(ggml.I32, n),
		}
	}
	chunks := func(c *ggml.Context, n int64) kernels.DeltaRule {
		d := delta(c, n)
		d.G, d.BF16 = f32(c, 4, n), kernels.HasBF16()
		return d
	}
	conv := func(c *ggml.Context) kernels.ShortConv {
		return kernels.ShortConv{
			X: f32(c, 6000, 3000), Kernel: f32(c, 8, 6000), Before: f32(c, 6000, 100), Bias: f32(c, 6000), Positions: c.NewTensor(ggml.I32, 3000), Step: 2000, SiLU: true,
		}
	}
	for name, build := range map[string]func(c *ggml.Context) *ggml.Tensor{
		"gemm": func(c *ggml.Context) *ggml.Tensor {
			return kernels.GEMM(c, exact, pair(c.NewTensor(ggml.Q4_K, 2048, 1000), f32(c, 2048, 600)))
		},
		"gemm_grad_input": func(c *ggml.Context) *ggml.Tensor {
			return kernels.GEMMGradInput(c, exact, pair(c.NewTensor(ggml.Q8_0, 2048, 1000), f32(c, 1000, 600)))
		},
		"accumulate_grad_weight": func(c *ggml.Context) *ggml.Tensor {
			return kernels.AccumulateGradWeight(c, f32(c, 2048, 600), f32(c, 2048, 300), f32(c, 600, 300))
		},
		"grouped_gemm": func(c *ggml.Context) *ggml.Tensor {
			return kernels.GroupedGEMM(c, c.NewTensor(ggml.Q8_0, 4096, 512, 4), f32(c, 4096, 1, 900), c.NewTensor(ggml.I32, 2, 900))
		},
		"grouped_gemm_grad_input": func(c *ggml.Context) *ggml.Tensor {
			return kernels.GroupedGEMMGradInput(c, c.NewTensor(ggml.Q8_0, 512, 4096, 4), f32(c, 4096, 2, 900), c.NewTensor(ggml.I32, 2, 900))
		},
		"accumulate_grouped_grad_weight": func(c *ggml.Context) *ggml.Tensor {
			return kernels.AccumulateGroupedGradWeight(c, f32(c, 1024, 512, 4), f32(c, 1024, 1, 900), f32(c, 512, 2, 900), c.NewTensor(ggml.I32, 2, 900))
		},
		"causal_attention": func(c *ggml.Context) *ggml.Tensor { return kernels.CausalAttention(c, attend(c, 8000)) },
		"causal_attention_grad": func(c *ggml.Context) *ggml.Tensor {
			dq, _, _, _ := kernels.CausalAttentionGrad(c, f32(c, 64, 4, 8000), attend(c, 8000))
			return dq
		},
		"causal_attention_bf16_grad": func(c *ggml.Context) *ggml.Tensor {
			if !kernels.HasBF16Attention() {
				return nil
			}
			a := attend(c, 8000)
			_, saved := kernels.CausalAttentionBF16(c, a)
			dq, _, _, _ := kernels.CausalAttentionBF16Grad(c, f32(c, 64, 4, 8000), saved, a)
			return dq
		},
		"gated_delta_rule": func(c *ggml.Context) *ggml.Tensor { return kernels.GatedDeltaRule(c, delta(c, 3000)) },
		"gated_delta_rule, by chunks": func(c *ggml.Context) *ggml.Tensor {
			d := chunks(c, 3000)
			d.State = f32(c, 128, 128, 4)
			return kernels.GatedDeltaRule(c, d)
		},
		"gated_delta_rule_grad, by chunks": func(c *ggml.Context) *ggml.Tensor {
			dq, _, _, _, _, _ := kernels.GatedDeltaRuleGrad(c, f32(c, 128, 4, 3000), chunks(c, 3000))
			return dq
		},
		"gated_delta_rule_grad": func(c *ggml.Context) *ggml.Tensor {
			dq, _, _, _, _, _ := kernels.GatedDeltaRuleGrad(c, f32(c, 128, 4, 3000), delta(c, 3000))
			return dq
		},
		"short_convolution": func(c *ggml.Context) *ggml.Tensor { return kernels.ShortConvolution(c, conv(c)) },
		"short_convolution_grad": func(c *ggml.Context) *ggml.Tensor {
			return kernels.ShortConvolutionGrad(c, f32(c, 6000, 3000), conv(c))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := ggml.NewContext()
			defer c.Close()
			y := build(c)
			if y == nil {
				t.Skip("this processor does not have it")
			}
			require.NoError(t, c.Err())
			if root, isView := y.ViewSource(); isView && y.OpCode().String() == "view" {
				y = root
			}
			ops := ggml.RemoteOps()
			op := ops[slices.IndexFunc(ops, func(op ggml.RemoteOp) bool { return op.Name == y.Op() })]
			node := ggml.NativeNode{Operands: y.Sources()}
			all := y.OpParams()
			for i := range node.Params {
				node.Params[i] = byte(uint32(all[ggml.NativeParamsOffset/4+i/4]) >> (8 * (i % 4)))
			}
			again := op.Rebuild(c, node)
			require.NoError(t, c.Err())
			require.Equal(t, all, again.OpParams())
			require.Equal(t, y.Layout(), again.Layout())

			before := computeMemory(t)
			b, a := need.Value(need.Value(ggml.DeviceByType(ggml.CPU))(t).NewBackend())(t), optest.NewGraphAllocator(t)
			defer b.Close()
			require.NoError(t, b.SetThreads(1))
			g := c.NewGraph(y)
			require.NoError(t, a.Allocate(g))
			require.NoError(t, b.Compute(t.Context(), g))
			took := computeMemory(t) - before - a.Size()
			t.Logf("%d of %d KiB, beside what other ops have left to the thread", took>>10, op.Scratch(node)>>10)
			require.LessOrEqual(t, took, op.Scratch(node))
		})
	}
}

package nn_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
)

// Attention with its gradients by the CPU's lowering, by stock's, and by the CPU's where nothing
// becomes of scores, in turn.
func BenchmarkAttention(b *testing.B) {
	const heads, groups = 16, 4
	for _, size := range []int64{64, 128} {
		for _, n := range []int64{512, 2048} {
			for _, k := range []struct {
				name  string
				o     nn.ScoreOptions
				sinks bool
			}{{name: "softcap", o: nn.ScoreOptions{Softcap: 50}}, {name: "alibi", o: nn.ScoreOptions{MaxBias: 8}}, {name: "sinks", sinks: true}} {
				b.Run(fmt.Sprintf("size=%d/n=%d/%s", size, n, k.name), func(b *testing.B) {
					attend := func(l *nn.Lowering, o nn.ScoreOptions, sinks bool) func() time.Duration {
						return timedGraph(b, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
							a := nn.AttentionOperands{Q: leaf(size, heads, n), K: leaf(size, groups, n), V: leaf(size, groups, n), Scale: 0.125, Scores: o}
							if sinks {
								a.Scores.Sinks = leaf(heads)
							}
							y := nn.Attention.Build(&nn.Tape{C: c, Lowering: l, Inputs: nn.NewInputs(c)}, a)
							d := y.Grad(leaf(size, heads, n))
							results := []*ggml.Tensor{y.Y, d.Q, d.K, d.V}
							if sinks {
								results = append(results, d.Sinks)
							}
							return results
						})
					}
					by := lowerings(b)
					besideOthers(b, attend(by[0], k.o, k.sinks), attend(by[1], k.o, k.sinks), attend(by[0], nn.ScoreOptions{}, false))
				})
			}
		}
	}
}

// Attention with its gradients on one thread, in F32 and in BF16, in turn: the share of the peak of GEMM in the same type
// that the products of visible keys reach.
func BenchmarkAttentionPeak(b *testing.B) {
	if !kernels.HasBF16Attention() {
		b.Skip("no attention in BF16 on this processor")
	}
	for _, k := range []struct {
		name                          string
		size, heads, groups, n, first int64
		o                             nn.ScoreOptions
		sinks                         bool
	}{
		{"size=64/n=512", 64, 32, 4, 512, 0, nn.ScoreOptions{}, false},
		{"size=64/n=4096", 64, 8, 1, 4096, 0, nn.ScoreOptions{}, false},
		{"size=64/n=4096/heads-of-their-own", 64, 4, 4, 4096, 0, nn.ScoreOptions{}, false},
		{"size=64/n=4096/window=512", 64, 8, 1, 4096, 512, nn.ScoreOptions{}, false},
		{"size=64/n=4096/sinks", 64, 8, 1, 4096, 0, nn.ScoreOptions{}, true},
		{"size=128/n=4096", 128, 4, 1, 4096, 0, nn.ScoreOptions{}, false},
		{"size=256/n=4096", 256, 2, 1, 4096, 0, nn.ScoreOptions{}, false},
		{"size=256/n=4096/softcap", 256, 2, 1, 4096, 0, nn.ScoreOptions{Softcap: 50}, false},
	} {
		b.Run(k.name, func(b *testing.B) {
			var flops float64
			first := make([]int32, k.n)
			for i := range k.n {
				if k.first > 0 {
					first[i] = int32(max(0, i-k.first+1))
				}
				flops += 2 * float64(k.size*k.heads) * float64(i-int64(first[i])+1)
			}
			attend := func(typ ggml.Type, back bool) func() time.Duration {
				l := need.Value(nn.CPU(typ))(b)
				return timedGraphOn(b, 1, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
					a := nn.AttentionOperands{Q: leaf(k.size, k.heads, k.n), K: leaf(k.size, k.groups, k.n), V: leaf(k.size, k.groups, k.n), Scale: 0.125, Scores: k.o}
					if k.sinks {
						a.Scores.Sinks = leaf(k.heads)
					}
					if k.first > 0 {
						x := visibleKeys(b, first)
						a.FirstVisible = func(ggml.Type) *ggml.Tensor { return x }
					}
					y := nn.Attention.Build(&nn.Tape{C: c, Lowering: l, Inputs: nn.NewInputs(c)}, a)
					if !back {
						return []*ggml.Tensor{y.Y}
					}
					d := y.Grad(leaf(k.size, k.heads, k.n))
					return []*ggml.Tensor{y.Y, d.Q, d.K, d.V}
				})
			}
			const m = 1024
			multiply := func(typ ggml.Type) func() time.Duration {
				return timedGraphOn(b, 1, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
					w, x := leaf(m, m), leaf(m, m)
					if typ == ggml.BF16 {
						w, x = kernels.CastBF16(c, w), kernels.CastBF16(c, x)
					}
					return []*ggml.Tensor{kernels.GEMM(c, ggml.PrecisionF32, kernels.Pair{W: w, X: x})}
				})
			}
			rounds, budget := testutil.BenchTime(b)
			testutil.Once(b, func() {
				turns := testutil.InTurn(rounds, budget, attend(ggml.F32, false), attend(ggml.F32, true), attend(ggml.BF16, false), attend(ggml.BF16, true),
					multiply(ggml.F32), multiply(ggml.BF16))
				rate := func(i int, flops float64) float64 { return flops / turns.Median(i).Seconds() }
				peaks := []float64{rate(4, 2*m*m*m), rate(5, 2*m*m*m)}
				for i, name := range []string{"f32", "bf16"} {
					b.ReportMetric(100*rate(2*i, 2*flops)/peaks[i], "%-"+name+"-forward")
					b.ReportMetric(100*rate(2*i+1, 7*flops)/peaks[i], "%-"+name+"-both")
				}
				b.ReportMetric(peaks[0]/1e9, "GFLOPS-f32")
				b.ReportMetric(peaks[1]/1e9, "GFLOPS-bf16")
				b.ReportMetric(turns.Ratio(1, 3), "×f32")
			})
		})
	}
}

// visibleKeys returns an input of the first visible key of each query.
func visibleKeys(b *testing.B, first []int32) *ggml.Tensor {
	c := ggml.NewContext()
	b.Cleanup(func() { c.Close() })
	x := c.NewTensor(ggml.I32, int64(len(first)))
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(b)
	b.Cleanup(func() { buffers.Close() })
	require.NoError(b, ggml.Write(x, first))
	return x
}

// LayerNorm with its gradient, likewise; the last one is the RMS norm.
func BenchmarkLayerNorm(b *testing.B) {
	for _, m := range []int64{2048, 4096} {
		b.Run(fmt.Sprintf("m=%d", m), func(b *testing.B) {
			const n = 512
			norm := func(l *nn.Lowering, layer bool) func() time.Duration {
				return timedGraph(b, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
					x, o := leaf(m, n), nn.Norm{Layer: layer, Weight: leaf(m), Eps: 1e-5}
					if layer {
						o.Bias = leaf(m)
					}
					y := nn.Normalization.Build(&nn.Tape{C: c, Lowering: l}, nn.NormOperands{X: x, Norm: o})
					return []*ggml.Tensor{y.Y, y.Grad(leaf(m, n))}
				})
			}
			by := lowerings(b)
			besideOthers(b, norm(by[0], true), norm(by[1], true), norm(by[0], false))
		})
	}
}

// The gated delta rule of Qwen3.5's small models, and the rule whose channels decay each at their rate, with gradients by the
// CPU's lowering and by stock's, and causal attention of that width, in turn. Of long samples stock's chunks take more memory
// than a test should: there the figure beside stock is left out.
func BenchmarkGatedDelta(b *testing.B) {
	const size, heads = 128, 16
	for _, of := range []struct {
		n, rates int64
	}{{512, 1}, {2048, 1}, {16384, 1}, {512, size}, {2048, size}} {
		n := of.n
		b.Run(fmt.Sprintf("n=%d/rates=%d", n, of.rates), func(b *testing.B) {
			delta := func(l *nn.Lowering) func() time.Duration {
				return timedGraph(b, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
					gate := func(rates int64) *ggml.Tensor { return c.Sigmoid(leaf(rates*heads, n)) }
					rates := c.Neg(gate(of.rates))
					if of.rates > 1 {
						rates = c.Reshape(rates, of.rates, heads, n)
					}
					tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: l, Inputs: nn.NewInputs(c), Grads: map[*ggml.Tensor]*ggml.Tensor{}}
					vectors := func() *nn.Value { return nn.Trained(leaf(size, heads, n)) }
					d := nn.DeltaRule{Q: vectors(), K: vectors(), V: vectors(), G: nn.Trained(rates), Beta: nn.Trained(gate(1)), Unit: 1e-6, Rows: 1}
					y := tape.GatedDelta(d)
					y.Seed(leaf(size, heads, n))
					tape.Backward()
					return []*ggml.Tensor{y.T, d.Q.Gradient(), d.K.Gradient(), d.V.Gradient(), d.G.Gradient(), d.Beta.Gradient()}
				})
			}
			by := lowerings(b)
			attention := timedGraph(b, func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor {
				a := nn.AttentionOperands{Q: leaf(size, heads, n), K: leaf(size, heads, n), V: leaf(size, heads, n), Scale: 0.1}
				y := nn.Attention.Build(&nn.Tape{C: c, Lowering: by[0], Inputs: nn.NewInputs(c)}, a)
				d := y.Grad(leaf(size, heads, n))
				return []*ggml.Tensor{y.Y, d.Q, d.K, d.V}
			})
			if n > 2048 {
				rounds, budget := testutil.BenchTime(b)
				testutil.Once(b, func() {
					turns := testutil.InTurn(rounds, budget, delta(by[0]), attention)
					b.ReportMetric(float64(turns.Median(0).Microseconds())/1e3, "ms")
					b.ReportMetric(turns.Ratio(1, 0), "×plain")
				})
				return
			}
			besideOthers(b, delta(by[0]), delta(by[1]), attention)
		})
	}
}

// besideOthers reports how many times as fast as stock's ops and as the plain kernel something is.
func besideOthers(b *testing.B, ours, stock, plain func() time.Duration) {
	rounds, budget := testutil.BenchTime(b)
	testutil.Once(b, func() {
		turns := testutil.InTurn(rounds, budget, ours, stock, plain)
		b.ReportMetric(float64(turns.Median(0).Microseconds())/1e3, "ms")
		b.ReportMetric(turns.Ratio(1, 0), "×stock")
		b.ReportMetric(turns.Ratio(2, 0), "×plain")
	})
}

// timedGraph computes what build makes of leaves of random numbers.
func timedGraph(b *testing.B, build func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor) func() time.Duration {
	return timedGraphOn(b, runtime.NumCPU(), build)
}

func timedGraphOn(b *testing.B, threads int, build func(c *ggml.Context, leaf func(ne ...int64) *ggml.Tensor) []*ggml.Tensor) func() time.Duration {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	b.Cleanup(func() { leaves.Close() })
	b.Cleanup(func() { c.Close() })
	var list []*ggml.Tensor
	results := build(c, func(ne ...int64) *ggml.Tensor {
		x := leaves.NewTensor(ggml.F32, ne...)
		list = append(list, x)
		return x
	})
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(b)
	b.Cleanup(func() { buffers.Close() })
	for i, x := range list {
		require.NoError(b, ggml.Write(x, optest.Normal(uint64(i), int(x.NumElements()))))
	}
	g := c.NewGraph()
	for _, y := range results {
		g.Expand(y.SetOutput())
	}
	require.NoError(b, optest.NewGraphAllocator(b).Allocate(g))
	backend := optest.NewCPUBackend(b, threads)
	return func() time.Duration {
		began := time.Now()
		require.NoError(b, backend.Compute(context.Background(), g))
		return time.Since(began)
	}
}

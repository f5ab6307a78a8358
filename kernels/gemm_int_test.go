package kernels_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/kernels"
)

// An integerGEMM is a product in integers beside its reference.
type integerGEMM struct {
	name  string
	build func(c *ctx, sum *ggml.Tensor, pairs ...kernels.Pair) *ggml.Tensor
	want  func(w, x refmath.Tensor) refmath.Tensor
	bound *optest.Bound
	back  bool // W's second dimension is contracted
}

func integerGEMMs() []integerGEMM {
	back := func(w, dy refmath.Tensor) refmath.Tensor { return refmath.OutProd(w, refmath.Transpose(dy)) }
	return []integerGEMM{
		{"gemm_int", kernels.GEMMInt, refmath.MulMat, optest.GEMMI16, false},
		{"gemm_grad_input_int", kernels.GEMMGradInputInt, back, optest.GEMMI16, true},
		{"gemm_grad_input_i8", kernels.GEMMGradInputI8, back, optest.GEMMI8, true},
	}
}

// draw draws W and its factor of a type, for a result of n columns; size is the dimension of W that has no blocks.
func (g integerGEMM) draw(d *draw, typ ggml.Type, k, size, n, p, q int64) []operand {
	depth := k
	if g.back {
		depth = size
	}
	return []operand{d.Normal(k, size, p, q), d.F32(depth, n, p, q).As(typ)}
}

// integerCases are products in integers.
func integerCases() []opCase {
	var cases []opCase
	for _, g := range integerGEMMs() {
		for _, typ := range productTypes() {
			cases = append(cases, opCase{
				Name: g.name + "_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: g.bound, Runs: 4,
				Operands: func(d *draw) []operand { return g.draw(d, typ, d.K(), d.Size(600), d.Size(40), d.Size(2), d.Size(2)) },
				Build:    func(c *ctx, x tensors) *ggml.Tensor { return g.build(c, nil, pair(x[0], x[1])) },
				Want:     func(x refs) refmath.Tensor { return g.want(x[0], x[1]) },
			}, opCase{
				Name: g.name + "_sum_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: g.bound, Runs: 1, InPlace: true,
				Operands: func(d *draw) []operand {
					k, m, n := d.K(), d.Size(300), d.Size(40)
					list := []operand{d.F32(m, n)}
					if g.back {
						list[0] = d.F32(k, n)
					}
					for range 4 { // more than one op takes
						if g.back {
							m = d.Size(300)
						} else {
							k = d.K()
						}
						list = append(list, g.draw(d, typ, k, m, n, 1, 1)...)
					}
					return list
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor { return g.build(c, x[0], pairs(x[1:]...)...) },
				Want: func(x refs) refmath.Tensor {
					y := x[0]
					for p := range slices.Chunk(x[1:], 2) {
						y = refmath.Add(y, g.want(p[0], p[1]))
					}
					return y
				},
			})
		}
	}
	return cases
}

// gradInputI8 computes W·dY of F32 values, [k, m] and [m, n].
func gradInputI8(t *testing.T, threads int, w, dy []float32, m int) []float32 {
	t.Helper()
	got, err := multiplyIn(kernels.GEMMGradInputI8, threads, w, dy, len(w)/m, m)
	require.NoError(t, err)
	return got
}

// multiplyIn computes a product of F32 values, W [k, m] and X of a depth.
func multiplyIn(build func(*ctx, *ggml.Tensor, ...kernels.Pair) *ggml.Tensor, threads int, w, x []float32, k, depth int) ([]float32, error) {
	c := ggml.NewContext()
	defer c.Close()
	in := []*ggml.Tensor{c.NewTensor(ggml.F32, int64(k), int64(len(w)/k)), c.NewTensor(ggml.F32, int64(depth), int64(len(x)/depth))}
	y := build(c, nil, pair(in[0], in[1]))
	graph := c.NewGraph(y)
	backend, err := ggml.NewCPUBackend(threads)
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	buffers, err := c.Allocate(backend.BufferType())
	if err != nil {
		return nil, err
	}
	defer buffers.Close()
	if err := errors.Join(ggml.Write(in[0], w), ggml.Write(in[1], x), backend.Compute(context.Background(), graph)); err != nil {
		return nil, err
	}
	return ggml.Read[float32](y)
}

// product is W·dY in float64.
func product(w, dy []float32, m int) []float64 {
	k, n := len(w)/m, len(dy)/m
	y := make([]float64, k*n)
	for j := range n {
		for r := range m {
			for i := range k {
				y[j*k+i] += float64(w[r*k+i]) * float64(dy[j*m+r])
			}
		}
	}
	return y
}

// hadamard is an element of the Hadamard matrix of any order.
func hadamard(i, j int) float32 { return float32(1 - 2*(bits.OnesCount(uint(i&j))%2)) }

// sign is an element of the Rudin–Shapiro sequence.
func sign(i int) float32 { return hadamard(i, i>>1) }

// Operands that are integers of 8 bits after the rotation are multiplied more exactly than others, at all depths. The
// weight's scales are multiples of 2⁻¹⁵, so its integers are seldom exact.
func TestGradInputI8Integers(t *testing.T) {
	for _, m := range []int{32, 64, 96, 256, 256 + 64, 2*256 + 192} {
		rng := optest.RNG(3)
		// integers draws columns whose blocks are rotated integers, of which one is the largest.
		integers := func(columns int) []float32 {
			x := make([]float32, columns*m)
			for j := range columns {
				for first := 0; first < m; first += 256 {
					block := min(256, m-first)
					order := block & -block
					for at := first; at < first+block; at += order {
						q := make([]float32, order)
						for i := range q {
							q[i] = float32(rng.IntN(255) - 127)
						}
						q[rng.IntN(order)] = 127
						for i := range order {
							for l := range order {
								x[j*m+at+i] += sign(at-first+i) * hadamard(i, l) * q[l] / float32(order)
							}
						}
					}
				}
			}
			return x
		}
		const k, n = 70, 29
		columns, dy, w := integers(k), integers(n), make([]float32, k*m)
		for i := range k {
			for r := range m {
				w[r*k+i] = columns[i*m+r]
			}
		}
		require.LessOrEqual(t, refmath.NMSE(gradInputI8(t, 1, w, dy, m), product(w, dy, m)), 1e-5, "m=%d", m)
	}
}

// Results of the instructions that ONEDNN_MAX_CPU_ISA allows, for the shapes below.
type integerResult struct {
	Instructions string
	Values       map[string][][]float32
}

var integerShapes = [][2]int{{1, 1}, {31, 5}, {32, 12}, {33, 13}, {257, 30}, {600, 100}} // of square weights, and columns

var multiplyIntegers = testutil.NewJob("multiplyIntegers", func(struct{}) (integerResult, error) {
	r := integerResult{Instructions: kernels.IntegerInstructions(), Values: map[string][][]float32{}}
	for _, g := range integerGEMMs() {
		for _, s := range integerShapes {
			y, err := multiplyIn(g.build, 1, optest.Normal(1, s[0]*s[0]), optest.Normal(2, s[0]*s[1]), s[0], s[0])
			if err != nil {
				return r, err
			}
			r.Values[g.name] = append(r.Values[g.name], y)
		}
	}
	return r, nil
})

// All instructions have the same results for integers of the same bits, and are near the exact results.
func TestIntegerInstructions(t *testing.T) {
	if !strings.HasPrefix(kernels.IntegerInstructions(), "AVX512-VNNI") {
		t.Skip("the processor has no AVX512-VNNI, or it is held back already")
	}
	want, _, err := multiplyIntegers.Run(struct{}{})
	require.NoError(t, err)
	for isa, name := range map[string]string{"AVX2": "AVX2", "avx512_core_bf16": "AVX512-VNNI"} {
		t.Setenv("ONEDNN_MAX_CPU_ISA", isa)
		got, _, err := multiplyIntegers.Run(struct{}{})
		require.NoError(t, err)
		values := maps.Clone(want.Values)
		if name == "AVX2" { // multiplies no 8 bits
			values["gemm_grad_input_i8"] = values["gemm_grad_input_int"]
		}
		require.Equal(t, integerResult{name, values}, got, isa)
	}
}

// The result does not depend on the number of threads.
func TestIntegerThreads(t *testing.T) {
	const k, n = 700, 100
	w, x := optest.Normal(1, k*k), optest.Normal(2, k*n)
	for _, g := range integerGEMMs() {
		want := need.Value(multiplyIn(g.build, 1, w, x, k, k))(t)
		for _, threads := range []int{2, 3, 5} {
			require.Equal(t, want, need.Value(multiplyIn(g.build, threads, w, x, k, k))(t), g.name)
		}
	}
}

// gemmInt computes Wᵀ·X of F32 values, [k, m] and [k, n].
func gemmInt(t *testing.T, w, x []float32, k int) []float32 {
	t.Helper()
	return need.Value(multiplyIn(kernels.GEMMInt, 2, w, x, k, k))(t)
}

// forwardProduct is Wᵀ·X in float64, with the product of the norms of each block added up.
func forwardProduct(w, x []float32, k int) (y, norms []float64) {
	m, n := len(w)/k, len(x)/k
	y, norms = make([]float64, m*n), make([]float64, m*n)
	for j := range n {
		for i := range m {
			for first := 0; first < k; first += 256 {
				var sum, ww, xx float64
				for d := first; d < min(k, first+256); d++ {
					a, b := float64(w[i*k+d]), float64(x[j*k+d])
					sum, ww, xx = sum+a*b, ww+a*a, xx+b*b
				}
				y[j*m+i] += sum
				norms[j*m+i] += math.Sqrt(ww * xx)
			}
		}
	}
	return y, norms
}

// Integers whose scale is 1 are multiplied exactly, at all depths: blocks have sums below 2³¹, and few outliers.
func TestGEMMIntIntegers(t *testing.T) {
	for _, k := range []int{1, 2, 15, 16, 31, 32, 33, 255, 256, 257, 2*256 + 100} {
		rng := optest.RNG(5)
		integers := func(columns int) []float32 {
			x := make([]float32, columns*k)
			for first := 0; first < len(x); first += k {
				for d := 0; d < k; d += 256 { // the largest element has the largest integer
					n := min(256, k-d)
					for i := range n {
						x[first+d+i] = float32(rng.IntN(1001) - 500)
					}
					x[first+d+rng.IntN(n)] = 32767
				}
			}
			return x
		}
		const m, n = 70, 29
		w, x := integers(m), integers(n)
		got := gemmInt(t, w, x, k)
		for j := range n {
			for i := range m {
				var want float32
				for first := 0; first < k; first += 256 {
					var sum int64
					for d := first; d < min(k, first+256); d++ {
						sum += int64(w[i*k+d]) * int64(x[j*k+d])
					}
					want += float32(sum)
				}
				require.Equal(t, want, got[j*m+i], "depth %d, row %d, column %d", k, i, j)
			}
		}
	}
}

// No outlier makes an error above the bound of the documentation: 1/4,000 of the norm of a block for each operand.
func TestGEMMIntOutliers(t *testing.T) {
	const k, m, n = 600, 70, 40
	for _, size := range []float32{1, 30, 1000, 1e6} {
		w, x := optest.Normal(1, k*m), optest.Normal(2, k*n)
		for j := range n {
			x[j*k+17] *= size
			x[j*k+300] *= size
		}
		w[40*k+9] *= size
		w[41*k+17] *= size
		for i := range k {
			x[3*k+i], w[7*k+i] = 0, 0
		}
		got := gemmInt(t, w, x, k)
		want, norms := forwardProduct(w, x, k)
		for i := range got {
			require.InDelta(t, want[i], got[i], norms[i]/2000, "outliers of %v: row %d of column %d", size, i%m, i/m)
			if i%m == 7 || i/m == 3 {
				require.Zero(t, got[i])
			}
		}
	}
}

// Tiny and huge blocks have no scale, and are multiplied in F32.
func TestGEMMIntFallback(t *testing.T) {
	const k, m, n = 256, 40, 14
	for _, size := range []float32{1e-36, 1e-20, 1e19, 1e36} {
		for _, of := range []string{"row", "column"} {
			w, x := optest.Normal(1, k*m), optest.Normal(2, k*n)
			for i := range k {
				if of == "row" {
					w[i] *= size
				} else {
					x[i] *= size
				}
			}
			got := gemmInt(t, w, x, k)
			want, norms := forwardProduct(w, x, k)
			for i := range got {
				require.InDelta(t, want[i]/norms[i], float64(got[i])/norms[i], 1e-3, "a %s of %v: element %d", of, size, i)
			}
		}
	}
}

// NaN and infinity reach the same elements as in F32.
func TestGEMMIntNonFinite(t *testing.T) {
	const k, m, n = 300, 40, 14
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		w, x := optest.Normal(1, k*m), optest.Normal(2, k*n)
		w[5*k+270], x[2*k+20] = bad, bad
		got := gemmInt(t, w, x, k)
		want, _ := forwardProduct(w, x, k)
		for i := range got {
			finite := want[i]-want[i] == 0
			require.Equal(t, finite, got[i]-got[i] == 0, "%v at row %d of column %d", bad, i%m, i/m)
			require.Equal(t, finite, i%m != 5 && i/m != 2)
		}
	}
}

// Columns whose elements are alike, and differ by little, keep the differences: as of the logits' gradient.
func TestGradInputI8Alike(t *testing.T) {
	const k, m, n = 100, 512, 40
	w, dy := optest.Normal(1, k*m), optest.Normal(2, m*n)
	for i := range dy {
		dy[i] = 1 + 0.1*dy[i]
	}
	require.LessOrEqual(t, refmath.RelativeError(gradInputI8(t, 2, w, dy, m), product(w, dy, m)), 0.012)
}

// Outliers do not spoil the other elements of their block; zeros give zeros.
func TestGradInputI8Outliers(t *testing.T) {
	const k, m, n = 100, 512, 40
	w, dy := optest.Normal(1, k*m), optest.Normal(2, m*n)
	for i := range m {
		dy[3*m+i] = 0
		w[i*k+7] = 0
	}
	for j := range n { // a feature that is large everywhere
		dy[j*m+17] *= 300
		dy[j*m+300] *= 1000
	}
	w[40*k+9], w[400*k+11] = 30, -100
	got, want := gradInputI8(t, 2, w, dy, m), product(w, dy, m)
	for j := range n {
		column := got[j*k : (j+1)*k]
		require.LessOrEqual(t, refmath.RelativeError(column, want[j*k:(j+1)*k]), 0.02, "column %d", j)
		require.Zero(t, column[7])
	}
	require.Equal(t, make([]float32, k), got[3*k:4*k])
}

// Blocks that integers cannot represent are multiplied in F32: uneven after the rotation to 8 bits, tiny, or huge.
func TestGradInputI8Fallback(t *testing.T) {
	const k, m, n = 40, 256, 14
	uneven := optest.Normal(3, m)
	for i := range uneven {
		uneven[i] = 0.5*uneven[i] + 1000*sign(i)*hadamard(i, 100)
	}
	for name, change := range map[string]func(w, dy []float32){
		"column": func(_, dy []float32) { copy(dy, uneven) },
		"row": func(w, _ []float32) {
			for i, x := range uneven {
				w[i*k] = x
			}
		},
		"tiny column": func(_, dy []float32) {
			for i := range m {
				dy[i] *= 1e-36
			}
		},
		"tiny row": func(w, _ []float32) {
			for i := range m {
				w[i*k] *= 1e-30
			}
		},
		"large column": func(w, dy []float32) {
			for i := range m {
				dy[i] *= 3e37
			}
			for i := range w {
				w[i] *= 1e-3
			}
		},
		"large row": func(w, _ []float32) {
			for i := range m {
				w[i*k] *= 1e36
			}
		},
	} {
		if !kernels.HasI8() && !strings.Contains(name, " ") {
			continue // 16 bits represent them, within the error of TestGEMMIntOutliers
		}
		w, dy := optest.Normal(1, k*m), optest.Normal(2, m*n)
		change(w, dy)
		got, want := gradInputI8(t, 1, w, dy, m), product(w, dy, m)
		for i := range got {
			if i == 0 || strings.HasSuffix(name, "column") && i < k {
				require.InEpsilon(t, want[i], got[i], 1e-3, "%s: element %d", name, i)
			}
		}
	}
}

// NaN and infinity reach the same elements as in F32.
func TestGradInputI8NonFinite(t *testing.T) {
	const k, m, n = 40, 300, 14
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		w, dy := optest.Normal(1, k*m), optest.Normal(2, m*n)
		w[270*k+5], dy[2*m+20] = bad, bad
		got, want := gradInputI8(t, 1, w, dy, m), product(w, dy, m)
		for i := range got {
			finite := want[i]-want[i] == 0
			require.Equal(t, finite, got[i]-got[i] == 0, "%v at row %d of column %d", bad, i%k, i/k)
			require.Equal(t, finite, i%k != 5 && i/k != 2)
			require.True(t, finite || math.IsNaN(want[i]) == math.IsNaN(float64(got[i])) && (math.IsNaN(want[i]) || want[i] == float64(got[i])))
		}
	}
}

// Products of the 1.1B model with 512 tokens in each arithmetic of the processor, in turn, in processor time of one thread;
// and micro-kernels of panels that stay in the cache.
func BenchmarkIntegers(b *testing.B) {
	for _, k := range testhook.MicroKernels() {
		if k.Emulated {
			continue
		}
		b.Run(fmt.Sprintf("micro-kernel/%s/bits=%d", k.Instructions, k.Bits), func(b *testing.B) {
			const depth, times = 256, 10_000
			steps := depth * k.Bits / 32
			panels := [2][]uint32{make([]uint32, steps*32), make([]uint32, steps*12)}
			for b.Loop() {
				began := testutil.ProcessorTime()
				k.Repeat(times, panels[0], panels[1])
				b.ReportMetric(2*depth*32*12*times/(testutil.ProcessorTime()-began).Seconds()/1e9, "GFLOP/s")
			}
		})
	}
	const n = 512
	for _, of := range [][2]int64{{2048, 256}, {2048, 2048}, {2048, 5632}, {5632, 2048}} {
		for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_K} {
			for _, back := range []bool{false, true} {
				b.Run(fmt.Sprintf("%v/k=%d/m=%d/back=%v", typ, of[0], of[1], back), func(b *testing.B) { benchmarkIntegers(b, typ, of[0], of[1], n, back) })
			}
		}
	}
}

func benchmarkIntegers(b *testing.B, typ ggml.Type, k, m, n int64, back bool) {
	c := ggml.NewContext()
	defer c.Close()
	depth, plain := k, kernels.GEMM
	if back {
		depth, plain = m, kernels.GEMMGradInput
	}
	w, x := c.NewTensor(typ, k, m).SetInput(), c.NewTensor(ggml.F32, depth, n).SetInput()
	names, graphs := []string{"f32"}, []*ggml.Graph{c.NewGraph(plain(c, exact, pair(w, x)))}
	if kernels.HasBF16() {
		names, graphs = append(names, "bf16"), append(graphs, c.NewGraph(plain(c, exact, pair(w, kernels.CastBF16(c, x)))))
	}
	for _, g := range integerGEMMs() {
		if g.back == back && (g.name != "gemm_grad_input_i8" || kernels.HasI8()) {
			names, graphs = append(names, g.name), append(graphs, c.NewGraph(g.build(c, nil, pair(w, x))))
		}
	}
	require.NoError(b, c.Err())
	backend := optest.NewCPUBackend(b, 1)
	buffers, err := c.Allocate(backend.BufferType())
	require.NoError(b, err)
	defer buffers.Close()
	require.NoError(b, w.SetFloat32s(optest.Normal(1, int(k*m))))
	require.NoError(b, ggml.Write(x, optest.Normal(2, int(depth*n))))
	samplers := make([]func() time.Duration, len(graphs))
	for i, g := range graphs {
		samplers[i] = func() time.Duration {
			began := testutil.ProcessorTime()
			require.NoError(b, backend.Compute(context.Background(), g))
			return testutil.ProcessorTime() - began
		}
	}
	rounds, budget := testutil.BenchTime(b)
	turns := testutil.InTurn(rounds, budget, samplers...)
	for i, name := range names {
		b.ReportMetric(2*float64(k*m*n)/turns.Median(i).Seconds()/1e9, name+"_GFLOP/s")
		b.ReportMetric(turns.Ratio(0, i), name+"_×f32")
	}
	b.ReportMetric(0, "ns/op")
}

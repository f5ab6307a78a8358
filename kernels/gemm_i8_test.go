package kernels_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
)

// integerCases are gradients of inputs in 8 bits.
func integerCases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		cases = append(cases, opCase{
			Name: "gemm_grad_input_i8_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMMI8, Runs: 4,
			Operands: func(d *draw) []operand {
				m, p, q := d.Size(600), d.Size(2), d.Size(2)
				return []operand{d.Normal(d.K(), m, p, q), d.F32(m, d.Size(40), p, q).As(typ)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInputI8(c, nil, pair(x[0], x[1])) },
			Want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], refmath.Transpose(x[1])) },
		}, opCase{
			Name: "gemm_grad_input_i8_sum_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMMI8, Runs: 1, InPlace: true,
			Operands: func(d *draw) []operand {
				k, n := d.K(), d.Size(40)
				list := []operand{d.F32(k, n)}
				for range 4 { // more than one op takes
					m := d.Size(300)
					list = append(list, d.Normal(k, m), d.F32(m, n).As(typ))
				}
				return list
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInputI8(c, x[0], pairs(x[1:]...)...) },
			Want: func(x refs) refmath.Tensor {
				y := x[0]
				for p := range slices.Chunk(x[1:], 2) {
					y = refmath.Add(y, refmath.OutProd(p[0], refmath.Transpose(p[1])))
				}
				return y
			},
		})
	}
	return cases
}

// gradInputI8 computes W·dY of F32 values, [k, m] and [m, n].
func gradInputI8(t *testing.T, threads int, w, dy []float32, m int) []float32 {
	t.Helper()
	got, err := computeI8(threads, w, dy, m)
	require.NoError(t, err)
	return got
}

func computeI8(threads int, w, dy []float32, m int) ([]float32, error) {
	c := ggml.NewContext()
	defer c.Close()
	x := []*ggml.Tensor{c.NewTensor(ggml.F32, int64(len(w)/m), int64(m)), c.NewTensor(ggml.F32, int64(m), int64(len(dy)/m))}
	y := kernels.GEMMGradInputI8(c, nil, pair(x[0], x[1]))
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
	if err := errors.Join(ggml.Write(x[0], w), ggml.Write(x[1], dy), backend.Compute(context.Background(), graph)); err != nil {
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

// Results of the instructions that ONEDNN_MAX_CPU_ISA allows.
type integerResult struct {
	Instructions string
	Values       []float32
}

var multiplyIntegers = testutil.NewJob("multiplyIntegers", func(struct{}) (r integerResult, err error) {
	const k, m, n = 100, 600, 30
	r.Instructions = kernels.InstructionsI8()
	r.Values, err = computeI8(1, optest.Normal(1, k*m), optest.Normal(2, m*n), m)
	return r, err
})

// All instructions have the same results, to the bit.
func TestGradInputI8Instructions(t *testing.T) {
	if kernels.InstructionsI8() != "AVX512-VNNI" {
		t.Skip("the processor has no AVX512-VNNI, or it is held back already")
	}
	want, _, err := multiplyIntegers.Run(struct{}{})
	require.NoError(t, err)
	require.Equal(t, "AVX512-VNNI", want.Instructions)
	for isa, name := range map[string]string{"AVX2": "AVX2", "avx512_core_bf16": "AVX512-VNNI"} {
		t.Setenv("ONEDNN_MAX_CPU_ISA", isa)
		got, _, err := multiplyIntegers.Run(struct{}{})
		require.NoError(t, err)
		require.Equal(t, integerResult{name, want.Values}, got, isa)
	}
}

// The result does not depend on the number of threads.
func TestGradInputI8Threads(t *testing.T) {
	const k, m, n = 300, 700, 100
	w, dy := optest.Normal(1, k*m), optest.Normal(2, m*n)
	want := gradInputI8(t, 1, w, dy, m)
	for _, threads := range []int{2, 3, 5} {
		require.Equal(t, want, gradInputI8(t, threads, w, dy, m))
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

// Blocks that 8 bits cannot represent are multiplied in F32: uneven after the rotation, tiny, or huge.
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

// What is not finite reaches the elements that it reaches in F32.
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

// The gradient of the input of products of the 1.1B model with 512 tokens: in F32, in BF16, and in 8 bits, in turn.
func BenchmarkGradInputI8(b *testing.B) {
	const n = 512
	for _, of := range [][2]int64{{2048, 2048}, {2048, 5632}, {5632, 2048}} {
		for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_K} {
			b.Run(fmt.Sprintf("%v/k=%d/m=%d", typ, of[0], of[1]), func(b *testing.B) {
				c := ggml.NewContext()
				defer c.Close()
				w, dy := c.NewTensor(typ, of[0], of[1]).SetInput(), c.NewTensor(ggml.F32, of[1], n).SetInput()
				low := dy
				if kernels.HasBF16() {
					low = kernels.CastBF16(c, dy)
				}
				graphs := []*ggml.Graph{
					c.NewGraph(kernels.GEMMGradInput(c, exact, pair(w, dy))),
					c.NewGraph(kernels.GEMMGradInput(c, exact, pair(w, low))),
					c.NewGraph(kernels.GEMMGradInputI8(c, nil, pair(w, dy))),
				}
				require.NoError(b, c.Err())
				backend := optest.NewCPUBackend(b, ggml.DefaultThreads())
				buffers, err := c.Allocate(backend.BufferType())
				require.NoError(b, err)
				defer buffers.Close()
				require.NoError(b, w.SetFloat32s(optest.Normal(1, int(of[0]*of[1]))))
				require.NoError(b, ggml.Write(dy, optest.Normal(2, int(of[1]*n))))
				samplers := make([]func() time.Duration, len(graphs))
				for i, g := range graphs {
					samplers[i] = func() time.Duration {
						began := time.Now()
						require.NoError(b, backend.Compute(context.Background(), g))
						return time.Since(began)
					}
				}
				rounds, budget := testutil.BenchTime(b)
				turns := testutil.InTurn(rounds, budget, samplers...)
				for i, name := range []string{"f32", "bf16", "i8"} {
					b.ReportMetric(2*float64(of[0]*of[1]*n)/turns.Median(i).Seconds()/1e9, name+"_GFLOP/s")
				}
				b.ReportMetric(turns.Ratio(1, 2), "×bf16")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

package kernels_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func scanOf(x tensors) kernels.ScanOperands {
	s := kernels.ScanOperands{X: x[0], DT: x[1], A: x[2], B: x[3], C: x[4], States: x[5], Read: x[6], Written: x[7]}
	if len(x) > 8 {
		s.D = x[8]
	}
	return s
}

// scanRef returns y and the states after the last tokens.
func scanRef(x refs) (y, after refmath.Tensor) {
	before := refmath.From(x[5].Data, x[3].Ne[0], x[0].Ne[0], x[0].Ne[1], x[5].Ne[1])
	all := refmath.SSMScan(before, x[0], x[1], refmath.From(x[2].Data, 1, x[2].Ne[0]), x[3], x[4], x[6]).Data
	n, size, heads := len(x[0].Data), int(x[0].Ne[0]), int(x[0].Ne[1])
	for i := range all[:n] {
		all[i] += x[8].Data[i/size%heads] * x[0].Data[i]
	}
	return refmath.From(all[:n], x[0].Ne[:]...), refmath.From(all[n:], x[5].Ne[0], x[6].Ne[0])
}

// scanOperands have rows that write the vector that they read, and rows that write another.
func scanOperands(d *draw) []operand {
	size, groups, rows, n, elements := d.Size(40), d.Size(3), d.Size(3), d.Size(23), d.Size(150)
	heads, vectors := groups*d.Size(4), 2*rows+d.Size(3)
	numbers := d.Perm(int(vectors))
	read, written := refmath.New(rows), refmath.New(rows)
	for i := range read.Data {
		read.Data[i], written.Data[i] = float64(numbers[2*i]), float64(numbers[2*i+d.IntN(2)])
	}
	return []operand{
		d.Normal(size, heads, n, rows), d.Normal(heads, n, rows), {Type: ggml.F32, Values: refmath.Uniform(d.Rand, -2, -0.1, heads)},
		d.Normal(elements, groups, n, rows), d.Normal(elements, groups, n, rows), d.Normal(elements*size*heads, vectors).As(ggml.F32),
		{Type: ggml.I32, Values: read}, {Type: ggml.I32, Values: written}, d.Normal(heads).As(ggml.F32),
	}
}

func scanCases() []opCase {
	return []opCase{{
		Name: "selective_scan", Layouts: optest.ContiguousRows, Bound: optest.Recurrence, Runs: 30, Operands: scanOperands,
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.SelectiveScan(c, scanOf(x)) },
		Want: func(x refs) refmath.Tensor {
			y, _ := scanRef(x)
			return y
		},
	}}
}

// The vectors that rows write are the states after their last tokens, and no other vector changes.
func TestSelectiveScanStates(t *testing.T) {
	for seed := range uint64(20) {
		operands := scanOperands(optest.NewDraw(seed, ggml.F32))
		for _, dev := range optest.Devices(t)[:2] { // one thread, and several
			got, _ := dev.Eval(t, operands, func(c *ctx, x tensors) *ggml.Tensor {
				y, states := kernels.SelectiveScan(c, scanOf(x)), x[5]
				return c.View(c.Concat(c.Reshape(y, y.NumElements()), c.Reshape(states, states.NumElements()), 0), states.Shape(), nil, y.NumElements()*y.Stride(0))
			})
			var x refs
			for _, o := range operands {
				x = append(x, o.Values)
			}
			_, after := scanRef(x)
			want, width := slices.Clone(x[5].Data), int(x[5].Ne[0])
			for row, vector := range x[7].Data {
				copy(want[int(vector)*width:], after.Data[row*width:(row+1)*width])
			}
			require.Less(t, refmath.NMSE(got.Values, want), 1e-12, "seed %d on %s", seed, dev.Name)
		}
	}
}

// Each kind of processor has its own kernel.
func TestSelectiveScanInstructions(t *testing.T) {
	need.Time(t, "runs tests for each instruction set")
	for _, isa := range []string{"SSE41", "AVX2"} {
		out, err := withLibrary("ONEDNN_MAX_CPU_ISA="+isa, "^(TestOps|TestSelectiveScanStates)$/selective_scan")
		require.NoError(t, err, "%s: %s", isa, out)
		require.Contains(t, out, "--- PASS: TestSelectiveScanStates", isa)
	}
}

// A row whose vectors do not exist gets NaN, and no state changes for it.
func TestSelectiveScanOfUnknownVectors(t *testing.T) {
	for _, numbers := range [][2]int32{{-1, 0}, {2, 0}, {0, -1}, {0, 2}, {math.MinInt32, math.MaxInt32}} {
		w := optest.NewWorkbench(t)
		vectors := w.Leaves.NewTensor(ggml.I32, 2, 2)
		x := tensors{
			w.Reshape(w.Leaf(1, 2, 3, 4), 2, 1, 1, 2), w.Reshape(w.Leaf(1, 1), 1, 1, 2), w.Leaf(-1), w.Reshape(w.Leaf(1, 1), 1, 1, 1, 2),
			w.Reshape(w.Leaf(1, 1), 1, 1, 1, 2), w.Reshape(w.Leaf(5, 6, 7, 8), 2, 2), w.View(vectors, []int64{2}, nil, 0), w.View(vectors, []int64{2}, nil, vectors.Stride(1)),
		}
		require.NoError(t, ggml.Write(vectors, []int32{numbers[0], 1, numbers[1], 1}))
		y := kernels.SelectiveScan(w.Context, scanOf(x))
		w.Compute(w.NewGraph(y))
		got := need.Value(ggml.Read[float32](y))(t)
		states := need.Value(ggml.Read[float32](x[5]))(t)
		for i := range 2 {
			require.True(t, math.IsNaN(float64(got[i])), numbers)
			require.False(t, math.IsNaN(float64(got[2+i])), numbers)
		}
		require.Equal(t, []float32{5, 6}, states[:2], numbers)
		require.NotEqual(t, []float32{7, 8}, states[2:], numbers)
	}
}

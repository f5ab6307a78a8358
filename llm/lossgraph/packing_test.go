package lossgraph_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

const packedLength = 24

// packedRows are samples that fill rows.
func packedRows() (lengths [][]int) { return [][]int{{1, 9, 14}, {packedLength}, {5, 19}} }

// packedBatch is one of random tokens.
func packedBatch(vocab int, rows [][]int) lossgraph.Batch {
	rng := rand.New(rand.NewPCG(8, 9))
	var b lossgraph.Batch
	for _, row := range rows {
		start := int32(0)
		for _, n := range row {
			for range n {
				b.Tokens = append(b.Tokens, int32(rng.IntN(vocab)))
				b.Targets = append(b.Targets, int32(rng.IntN(vocab)))
				b.LossWeights = append(b.LossWeights, float32(rng.IntN(3))/packedLength)
				b.Starts = append(b.Starts, start)
			}
			start += int32(n)
		}
	}
	return b
}

// Samples that share rows have the losses and the gradients of the samples alone, of each
// architecture, with windows and without.
func TestPackedSamples(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		b := packedBatch(m.Config().Vocab, packedRows())
		for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
			packed, alone := newLossSum(t, m, lowering), newLossSumOn(t, m, device.Options{OpSet: lowering, Threads: 1})
			packed.compute(b, lossgraph.Options{Length: packedLength, Packed: true})
			from := 0
			for _, n := range slices.Concat(packedRows()...) {
				to := from + n
				sample := lossgraph.Batch{Tokens: b.Tokens[from:to], Targets: b.Targets[from:to], LossWeights: b.LossWeights[from:to]}
				alone.compute(sample, lossgraph.Options{Length: n, Context: packedLength})
				from = to
			}
			bound := 1e-5
			if llmtest.LooksUpGELU(m.Config().Arch) {
				// ggml's GELU uses an F16 table: inputs that differ by a rounding of F32 may give results that
				// differ by one of F16.
				bound = 1e-4
			}
			if llmtest.DividesByLength(m) {
				bound = 1e-4 // with AVX2 a gradient of qwen4exp differs by 8.6e-5, with AVX-512 by at most 5e-5
			}
			if m.Config().Arch == "hy_v4" {
				bound = 2e-5 // with AVX2 the gradient of the scale of its hyper-connections differs by 1.06e-5
			}
			packed.requireNear(alone, bound)

			again := newLossSum(t, m, lowering) // from inputs of layers to 18 bits
			again.compute(b, lossgraph.Options{Length: packedLength, Packed: true, Checkpoint: true})
			again.requireNear(alone, 10*bound)
		}
	})
}

// A lossSum adds up the gradients of all weights over batches.
type lossSum struct {
	t      *testing.T
	m      *model.Model
	engine *device.Engine
	losses []float32
	grads  map[*ggml.Tensor]*ggml.Tensor
}

func newLossSum(t *testing.T, m *model.Model, lowering device.OpSet) *lossSum {
	return newLossSumOn(t, m, device.Options{OpSet: lowering})
}

func newLossSumOn(t *testing.T, m *model.Model, o device.Options) *lossSum {
	o.Threads = cmp.Or(o.Threads, 2)
	e := need.Value(device.New(o))(t)
	t.Cleanup(func() { e.Close() })
	return &lossSum{t: t, m: m, engine: e, grads: llmtest.ZeroGrads(t, m)}
}

func (s *lossSum) compute(b lossgraph.Batch, o lossgraph.Options) {
	s.t.Helper()
	o.Batch, o.Grads = len(b.Tokens)/o.Length, s.grads
	l := need.Value(lossgraph.New(s.m, s.engine, o))(s.t)
	defer l.Close()
	losses := need.Value(l.Compute(context.Background(), b))(s.t)
	s.losses = append(s.losses, losses...)
}

func (s *lossSum) requireNear(want *lossSum, bound float64) {
	s.t.Helper()
	require.Len(s.t, s.losses, len(want.losses))
	for i, loss := range want.losses {
		require.InEpsilon(s.t, loss, s.losses[i], bound, "token %d", i)
	}
	for w, grad := range want.grads {
		require.LessOrEqual(s.t, refmath.RelativeError(readValues(s.t, s.grads[w]), refmath.From(readValues(s.t, grad)).Data), bound, w.Name())
	}
}

func readValues(t *testing.T, x *ggml.Tensor) []float32 {
	return need.Value(ggml.Read[float32](x))(t)
}

// A graph has one input for each window that hides keys in its rows, and one for layers
// without only if samples share rows.
func TestFirstVisibleInputs(t *testing.T) {
	const window = 5 // of three layers of olmo2
	all, some := llmtest.ArchModel(t, "llama", ggml.F32), llmtest.ArchModel(t, "olmo2", ggml.F32)
	for _, k := range []struct {
		m      *model.Model
		length int
		packed bool
		want   []int // windows
	}{
		{all, packedLength, false, nil}, {all, packedLength, true, []int{0}},
		{some, window, false, nil}, {some, window, true, []int{0}},
		{some, window + 1, false, []int{window}}, {some, window + 1, true, []int{0, window}},
	} {
		l := need.Value(lossgraph.New(k.m, llmtest.NewEngine(t), lossgraph.Options{Length: k.length, Batch: 2, Packed: k.packed}))(t)
		var want []string
		for _, window := range k.want {
			want = append(want, fmt.Sprintf("first visible of window %d, i32", window))
		}
		require.Equal(t, want, l.VisibleInputs(), "%d tokens, packed %v", k.length, k.packed)
		l.Close()
	}
}

// A graph of packed samples takes rows of one sample each, too.
func TestPackedGraphTakesWholeRows(t *testing.T) {
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		packed, whole := newLossSum(t, m, device.Kernels), newLossSum(t, m, device.Kernels)
		b := packedBatch(m.Config().Vocab, packedRows())
		b.Starts = nil
		packed.compute(b, lossgraph.Options{Length: packedLength, Packed: true})
		whole.compute(b, lossgraph.Options{Length: packedLength})
		require.Equal(t, whole.losses, packed.losses)
	})
}

func TestPackedErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	for want, k := range map[string]struct {
		starts []int32
		packed bool
	}{
		"the batch packs several samples in a row; build the graph with Packed":                                                        {make([]int32, 6), false},
		"the batch has 5 sample starts; the graph takes 6":                                                                             {make([]int32, 5), true},
		"token 1 of row 1 belongs to a sample that starts at 2; it must start at 1, or where the sample of the previous token starts":  {[]int32{0, 1, 2, 0, 2, 2}, true},
		"token 0 of row 1 belongs to a sample that starts at 1; it must start at 0, or where the sample of the previous token starts":  {[]int32{0, 1, 1, 1, 1, 1}, true},
		"token 2 of row 0 belongs to a sample that starts at -1; it must start at 2, or where the sample of the previous token starts": {[]int32{0, 0, -1, 0, 0, 0}, true},
	} {
		l := need.Value(lossgraph.New(m, llmtest.NewEngine(t), lossgraph.Options{Length: 3, Batch: 2, Packed: k.packed}))(t)
		_, err := l.Compute(context.Background(), lossgraph.Batch{Tokens: make([]int32, 6), Targets: make([]int32, 6), Starts: k.starts})
		require.EqualError(t, err, want)
		l.Close()
	}
}

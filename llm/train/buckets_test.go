package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// There is a graph for every row length, and none is much too long.
func TestBucketLengths(t *testing.T) {
	require.Equal(t, []int{1024, 768, 512, 384, 256, 192, 128}, bucketLengths(1024, 1024))
	require.Equal(t, []int{104, 80, 56, 40, 32}, bucketLengths(1024, 100))
	require.Equal(t, []int{12}, bucketLengths(12, 12))
	require.Equal(t, []int{32}, bucketLengths(1024, 0))
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 2000).Draw(t, "length")
		longest := rapid.IntRange(0, length).Draw(t, "longest")
		g := bucketGraphs{lengths: bucketLengths(length, longest)}
		require.LessOrEqual(t, len(g.lengths), 7)
		require.LessOrEqual(t, g.lengths[0], length)
		for n := range longest + 1 {
			graph := g.lengths[g.bucket(n)]
			require.GreaterOrEqual(t, graph, n)
			require.LessOrEqual(t, graph, max(min(32, length), n*3/2+16, longest/8+16))
			require.True(t, g.bucket(n) == len(g.lengths)-1 || g.lengths[g.bucket(n)+1] < n, "a shorter graph would do")
		}
	})
}

const raggedLength = 96

// raggedSamples returns samples of all lengths up to raggedLength, mostly short ones, with weights.
func raggedSamples(n, vocab int) []data.Sample {
	rng := rand.New(rand.NewPCG(4, 2))
	var list []data.Sample
	for i := range n {
		length := 1 + int(float64(raggedLength)*rng.Float64()*rng.Float64())
		if i == 0 {
			length = raggedLength
		}
		s := data.Sample{Tokens: llmtest.RandomTokens(uint64(i), length+1, vocab)}
		if i%2 == 0 {
			for range length {
				s.LossWeights = append(s.LossWeights, []float32{0, 0.25, 1, 2.5}[rng.IntN(4)])
			}
			s.LossWeights[0] = 1
		}
		list = append(list, s)
	}
	return list
}

func newWeightsRun(t *testing.T, m *model.Model, d *data.Dataset, o Options) *Trainer {
	t.Helper()
	var list []*ggml.Tensor
	for w := range m.Weights() {
		if m.Architecture().Weight(w.Name()).IsTrainable() {
			list = append(list, w)
		}
	}
	tr, err := New(m, Trainables{ModelWeights: list}, d, o)
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// gradientsOf returns the loss and gradients of a step without updating the parameters.
func gradientsOf(t *testing.T, tr *Trainer) (loss float64, grads map[string][]float32) {
	t.Helper()
	s, err := tr.planStep(t.Context())
	require.NoError(t, err)
	require.NoError(t, tr.accumulate(context.Background(), s))
	grads = map[string][]float32{}
	for p, g := range tr.opt.grad {
		grads[p.Name()], err = ggml.Read[float32](g)
		require.NoError(t, err)
	}
	return s.metrics.Loss, grads
}

func requireSameStep(t *testing.T, want, got *Trainer) {
	t.Helper()
	bound := 1e-5
	if want.m.Config().Arch == "gemma3" {
		bound = 1e-4 // ggml's GELU table is F16, so it rounds like F16
	}
	wantLoss, wantGrads := gradientsOf(t, want)
	loss, grads := gradientsOf(t, got)
	require.InEpsilon(t, wantLoss, loss, bound)
	require.Len(t, grads, len(wantGrads))
	for name, grad := range wantGrads {
		require.LessOrEqual(t, refmath.RelativeError(grads[name], refmath.From(grad).Data), bound, name)
	}
}

// unbucketed makes the trainer compute all rows at full length.
func unbucketed(t testing.TB, tr *Trainer) *Trainer {
	t.Helper()
	o := tr.loss.options
	o.Length, o.Workspace = tr.data.Length, nil
	graph, err := lossgraph.New(tr.m, tr.engine, o)
	require.NoError(t, err)
	require.NoError(t, tr.loss.Close())
	tr.loss.workspace, err = tr.engine.NewWorkspace()
	require.NoError(t, err)
	tr.loss.lengths, tr.loss.graphs = []int{tr.data.Length}, []*lossgraph.Graph{graph}
	return tr
}

// Short graphs and packed rows have the losses and gradients of samples in full rows, with both
// lowerings, for models with windows, with scales by position, and with RoPE factors for long
// contexts.
func TestRowsComputeAlike(t *testing.T) {
	for _, arch := range []string{"llama", "gemma3", "mistral3", "olmo2", "phi3"} {
		t.Run(arch, func(t *testing.T) {
			if testing.Short() && arch != "olmo2" {
				t.Skip("one will do")
			}
			t.Parallel()
			m := llmtest.ArchModel(t, arch, ggml.F32)
			d := data.New(raggedLength, raggedSamples(8, m.Config().Vocab))
			packed, err := d.Packed(1)
			require.NoError(t, err)
			require.Less(t, packed.Len(), 8)
			for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
				e, err := device.New(device.Options{Threads: 1, OpSet: lowering})
				require.NoError(t, err)
				t.Cleanup(func() { e.Close() })
				o := runOptions()
				o.Engine, o.Batch, o.Accumulate = e, 2, 4
				full := unbucketed(t, newWeightsRun(t, m, d, o))
				short := newWeightsRun(t, m, d, o)
				requireSameStep(t, full, short)
				require.Greater(t, short.PaddingSaved(), 0.3)
				require.Zero(t, full.PaddingSaved())

				require.NoError(t, full.opt.grads.Clear(0))
				o.Batch, o.Accumulate = packed.Len(), 1
				requireSameStep(t, full, newWeightsRun(t, m, packed, o))
			}
		})
	}
}

// The result of a step does not depend on its batches: the mean is over the weights of all its tokens.
func TestAccumulatedBatchesAreOneBatch(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	ragged := data.New(raggedLength, raggedSamples(24, m.Config().Vocab))
	packed, err := ragged.Packed(3)
	require.NoError(t, err)
	require.Greater(t, packed.Len(), 4)
	for name, c := range map[string]struct {
		d      *data.Dataset
		shapes [][2]int // batch, accumulate
	}{
		"ragged": {ragged, [][2]int{{8, 1}, {1, 8}, {2, 4}, {3, 3}}},
		"packed": {packed, [][2]int{{4, 1}, {1, 4}, {2, 2}}},
	} {
		of := func(shape [2]int) *Trainer {
			o := runOptions()
			o.Batch, o.Accumulate = shape[0], shape[1]
			return newWeightsRun(t, m, c.d, o)
		}
		for _, shape := range c.shapes[1:] {
			t.Run(fmt.Sprint(name, shape), func(t *testing.T) {
				got, want := of(shape), of(c.shapes[0])
				if shape[0]*shape[1] != c.shapes[0][0] { // a step of nine rows
					o := want.options
					o.Batch = shape[0] * shape[1]
					want = newWeightsRun(t, m, c.d, o)
				}
				requireSameStep(t, want, got)
			})
		}
	}
}

// An interrupted and resumed run ends with the same bytes as an uninterrupted one, for short rows,
// rows grouped by length, and packed rows, in memory or in a file.
func TestResumedRows(t *testing.T) {
	const steps, stop = 7, 3
	samples := raggedSamples(22, 96)
	file, _, err := data.Prepare(context.Background(), func(yield func(data.Sample, error) bool) {
		for _, s := range samples {
			if !yield(s, nil) {
				return
			}
		}
	}, func(s data.Sample) (data.Sample, error) { return s, nil }, data.PrepareOptions{Length: raggedLength})
	require.NoError(t, err)
	defer file.Close()
	packed, err := file.Packed(1)
	require.NoError(t, err)
	memory := data.New(raggedLength, samples)
	for name, c := range map[string]struct {
		d, resumed *data.Dataset
		group      bool
	}{
		"ragged":      {memory, file, false},
		"grouped":     {memory, memory, true},
		"packed":      {packed, packed, false},
		"packed anew": {packed, repacked(t, memory), true},
	} {
		t.Run(name, func(t *testing.T) {
			m := tinyLoRAModel(t)
			start := func(d *data.Dataset) *loraRun {
				o := runOptions()
				o.Schedule.Steps, o.GroupByLength = steps, c.group
				return newLoRARun(t, m, d, o, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
			}
			path := filepath.Join(t.TempDir(), "run.gguf")
			run := func(r *loraRun, to int) {
				for r.Steps() < to {
					_, err := r.Step(context.Background())
					require.NoError(t, err)
				}
				require.NoError(t, r.SaveCheckpoint(path))
			}
			run(start(c.d), steps)
			want, err := os.ReadFile(path)
			require.NoError(t, err)

			run(start(c.d), stop)
			second := start(c.resumed)
			require.NoError(t, second.LoadCheckpoint(path))
			run(second, steps)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// Unreadable data fails a step, which can be repeated with readable data.
func TestStepOfUnreadableData(t *testing.T) {
	m := tinyLoRAModel(t)
	one := func(yield func(data.Sample, error) bool) { yield(raggedSamples(1, 96)[0], nil) }
	d, _, err := data.Prepare(context.Background(), one, func(s data.Sample) (data.Sample, error) { return s, nil }, data.PrepareOptions{Length: raggedLength})
	require.NoError(t, err)
	r := newLoRARun(t, m, d, runOptions(), lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
	_, err = r.Step(context.Background())
	require.NoError(t, err)
	require.NoError(t, d.Close())
	_, err = r.Step(context.Background())
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorContains(t, err, "the data set is closed: ")
	require.Equal(t, 1, r.Steps())
}

func repacked(t *testing.T, d *data.Dataset) *data.Dataset {
	p, err := d.Packed(1)
	require.NoError(t, err)
	return p
}

// Another packing seed, or another order, is a different run.
func TestRowsOfAnotherRun(t *testing.T) {
	m := tinyLoRAModel(t)
	d := data.New(raggedLength, raggedSamples(22, 96))
	path := filepath.Join(t.TempDir(), "run.gguf")
	first := newLoRARun(t, m, repacked(t, d), runOptions(), lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
	require.NoError(t, first.SaveCheckpoint(path))
	other, err := d.Packed(2)
	require.NoError(t, err)
	grouped := runOptions()
	grouped.GroupByLength = true
	for want, r := range map[string]*loraRun{
		"other data; ": newLoRARun(t, m, other, runOptions(), lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}}),
		"rows grouped by length was false, is true; use": newLoRARun(t, m, repacked(t, d), grouped, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}}),
	} {
		require.ErrorContains(t, r.LoadCheckpoint(path), path+" belongs to another run: "+want)
	}
}

// Grouping rows by length saves more padding than sorting the rows of each step.
func TestPaddingSaved(t *testing.T) {
	m := tinyLoRAModel(t)
	d := data.New(raggedLength, raggedSamples(64, 96))
	saved := func(group bool) float64 {
		o := runOptions()
		o.Batch, o.Accumulate, o.Schedule.Steps, o.GroupByLength = 8, 1, 8, group
		r := newLoRARun(t, m, d, o, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
		require.Zero(t, r.PaddingSaved())
		require.NoError(t, r.Run(context.Background(), RunOptions{}))
		return r.PaddingSaved()
	}
	sorted, grouped := saved(false), saved(true)
	t.Logf("padding is %.0f %% of full rows; %.0f %% of their tokens are saved by steps, %.0f %% by groups", 100*(1-d.Fill()), 100*sorted, 100*grouped)
	require.Less(t, sorted, grouped)
	require.Less(t, grouped, 1-d.Fill())
	require.Greater(t, grouped, 0.6*(1-d.Fill()))
}

// An evaluation of rows of different lengths is the mean over their tokens, and takes little
// additional memory.
func TestEvaluationOfRaggedRows(t *testing.T) {
	m := llmtest.ArchModel(t, "olmo2", ggml.F32)
	d := data.New(raggedLength, raggedSamples(13, m.Config().Vocab))
	packed := repacked(t, d)
	o := runOptions()
	tr := newWeightsRun(t, m, d, o)
	got, err := tr.Evaluate(context.Background(), d)
	require.NoError(t, err)
	inRows, err := tr.Evaluate(context.Background(), packed)
	require.NoError(t, err)
	require.InEpsilon(t, got.Loss, inRows.Loss, 1e-5)
	require.Equal(t, got.Tokens, inRows.Tokens)
	var sum, weights float64
	for i := range d.Len() {
		row, err := d.Row(i)
		require.NoError(t, err)
		one, err := tr.Evaluate(context.Background(), data.New(row.Predicted(), row))
		require.NoError(t, err)
		weight := 0.0
		for _, w := range row[0].LossWeights {
			weight += float64(w)
		}
		if row[0].LossWeights == nil {
			weight = float64(row.Predicted())
		}
		sum, weights = sum+weight*one.Loss, weights+weight
	}
	require.InEpsilon(t, sum/weights, got.Loss, 1e-5)
}

package train

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
)

// Losses identify the rows of steps, because the rate is nearly 0. From Reshuffle on, steps see all
// rows of the data set once, and then once more, in other orders.
func TestReshuffleSeesAllRowsInAnotherOrder(t *testing.T) {
	const rows, before = 7, 3
	m, ctx := tinyLoRAModel(t), context.Background()
	samples := randomSamples(rows, 6)
	seen := func(seed uint64, group, reshuffle bool) []int {
		o := runOptions()
		o.Batch, o.Accumulate, o.Seed, o.GroupByLength = 1, 1, seed, group
		o.Schedule = Schedule{Shape: Constant, Peak: 1e-30, Steps: before + 2*rows}
		r := newLoRARun(t, m, data.New(6, samples), o, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
		losses := map[int]float64{}
		for i, s := range samples {
			e := need.Value(r.Evaluate(ctx, data.New(6, []data.Sample{s})))(t)
			losses[i] = e.Loss
		}
		var order []int
		for step := range before + 2*rows {
			if step == before && reshuffle {
				r.Reshuffle()
			}
			metrics := need.Value(r.Step(ctx))(t)
			for i, loss := range losses {
				if diff := loss - metrics.Loss; diff < 1e-5 && diff > -1e-5 {
					order = append(order, i)
				}
			}
		}
		require.Len(t, order, before+2*rows, "each step is of one row")
		require.True(t, r.Done(), "the run is as long as before")
		return order
	}
	all := []int{0, 1, 2, 3, 4, 5, 6}
	for _, group := range []bool{false, true} {
		plain, again := seen(3, group, false), seen(3, group, true)
		require.Equal(t, plain[:before], again[:before])
		require.ElementsMatch(t, all, again[before:before+rows])
		require.ElementsMatch(t, all, again[before+rows:])
		require.NotEqual(t, plain[before:], again[before:])
		require.NotEqual(t, again[before:before+rows], again[before+rows:])
		require.Equal(t, again, seen(3, group, true), "the same seed and step draw the same")
		require.NotEqual(t, again[before:], seen(4, group, true)[before:])
	}
}

// A run that is resumed, reshuffled and resumed again ends like one that was not interrupted after the
// reshuffle. A checkpoint from before the reshuffle has the earlier order.
func TestResumeAfterReshuffle(t *testing.T) {
	m, ctx := tinyLoRAModel(t), context.Background()
	first, r := savedRun(t, m, 2)
	r.Reshuffle()
	require.NoError(t, r.checkResult(ctx), "also where no row of the new order has been seen")
	folder := t.TempDir()
	at2, at3 := filepath.Join(folder, "2"), filepath.Join(folder, "3")
	require.NoError(t, r.SaveCheckpoint(at2))
	_, err := r.Step(ctx)
	require.NoError(t, err)
	require.NoError(t, r.SaveCheckpoint(at3))
	require.NoError(t, r.Run(ctx, RunOptions{}))
	want := parameters(t, r)
	for _, path := range []string{at2, at3} {
		again := usualRun(t, m)
		require.NoError(t, again.LoadCheckpoint(path))
		require.NoError(t, again.Run(ctx, RunOptions{}))
		require.Equal(t, want, parameters(t, again))
		require.Equal(t, r.History, again.History)

		require.NoError(t, again.LoadCheckpoint(first))
		require.NoError(t, again.Run(ctx, RunOptions{}))
		require.NotEqual(t, want, parameters(t, again), "the order of before")
	}
}

func parameters(t *testing.T, r *loraRun) (list [][]float32) {
	t.Helper()
	for _, p := range r.opt.params {
		values := need.Value(ggml.Read[float32](p.Tensor))(t)
		list = append(list, values)
	}
	return list
}

// A shuffle that begins after the run's position is inconsistent.
func TestCheckpointOfAnImpossibleShuffle(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	r := usualRun(t, m)
	_, err := r.Step(context.Background())
	require.NoError(t, err)
	r.setShuffle(shuffle{seed: 1, first: 5, anew: true})
	path := filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, r.SaveCheckpoint(path))
	require.EqualError(t, usualRun(t, m).LoadCheckpoint(path),
		path+": its order begins at row 5, but it is at row 4; use an older checkpoint, or start a new run")
}

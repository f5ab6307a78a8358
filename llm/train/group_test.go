package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/weightcache"
)

// groupRun returns a trainer for each rank of a group, each with its own model, adapters and engine;
// for one rank, a single process without a group. The op sets are assigned to ranks in turn.
func groupRun(t *testing.T, ranks int, d *data.Dataset, o Options, ops ...device.OpSet) []*loraRun {
	t.Helper()
	var list []*loraRun
	for i, g := range parallel.Local(ranks) {
		e := need.Value(device.New(device.Options{Threads: 1, OpSet: ops[i%len(ops)]}))(t)
		t.Cleanup(func() { e.Close() })
		own := o
		own.Engine, own.Group = e, g
		list = append(list, newLoRARun(t, tinyLoRAModel(t), d, own, lora.Options{Rank: 2, Alpha: 4, Init: lora.InitKaiming, Seed: 5}))
	}
	return list
}

// together runs f for all ranks in parallel.
func together(runs []*loraRun, f func(rank int, r *loraRun) error) []error {
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, r := range runs {
		all.Add(1)
		go func() {
			defer all.Done()
			errs[i] = f(i, r)
		}()
	}
	all.Wait()
	return errs
}

func requireAll(t *testing.T, errs []error, is error) {
	t.Helper()
	for rank, err := range errs {
		require.ErrorIs(t, err, is, "rank %d", rank)
	}
}

func adapterValues(t *testing.T, r *loraRun) (list []float32) {
	t.Helper()
	for _, p := range r.opt.params {
		values := need.Value(ggml.Read[float32](p.Tensor))(t)
		list = append(list, values...)
	}
	return list
}

// Ranks agree on loss scaling, even if only some engines need it, so that the gradients can be summed.
func TestGroupScalesLossTogether(t *testing.T) {
	none := weightcache.None
	o := Options{
		Schedule: Schedule{Peak: 0.01, Steps: 3}, AdamW: DefaultAdamW(), Batch: 4, Accumulate: 1, Seed: 3, Threads: 1,
		Checkpointing: CheckpointingOff, ComputeType: ggml.F32, WeightCopies: &none,
	}
	d := data.New(raggedLength, raggedSamples(19, 96))
	one := groupRun(t, 1, d, o, device.Kernels)[0]
	require.NoError(t, one.Run(t.Context(), RunOptions{}))
	mixed := groupRun(t, 2, d, o, device.Kernels, device.Stock)
	requireAll(t, together(mixed, func(_ int, r *loraRun) error { return r.Run(t.Context(), RunOptions{}) }), nil)
	requireAlikeSteps(t, one.History, mixed[0].History, 1e-5, 1e-4)
}

// requireAlikeSteps checks that the steps of two runs have equal losses and gradient norms, up to these fractions.
func requireAlikeSteps(t *testing.T, want, got []StepMetrics, loss, norm float64) {
	t.Helper()
	for i, want := range want {
		require.InEpsilon(t, want.Loss, got[i].Loss, loss, "step %d", want.Step)
		require.InEpsilon(t, want.GradNorm, got[i].GradNorm, norm, "step %d", want.Step)
	}
}

// A run of a group equals a run of one process up to rounding, and is the same on all ranks: with
// packed rows, accumulated batches, all noise, and a last step with fewer rows than usual, or than
// ranks.
func TestGroup(t *testing.T) {
	smallGradParts(t)
	ragged := data.New(raggedLength, raggedSamples(19, 96))
	packed := need.Value(data.New(raggedLength, raggedSamples(60, 96)).Packed(1))(t)
	valid := data.New(raggedLength, raggedSamples(7, 96))
	base := Options{
		Schedule: Schedule{Peak: 0.01, Warmup: 2}, Epochs: 2, AdamW: DefaultAdamW(), Batch: 4, Accumulate: 1, Seed: 3, Threads: 1,
		Checkpointing: CheckpointingOff,
	}
	for name, c := range map[string]struct {
		d      *data.Dataset
		ranks  int
		change func(o *Options)
	}{
		"rows":        {ragged, 2, func(*Options) {}},
		"noise":       {ragged, 2, func(o *Options) { o.Dropout, o.NEFTune, o.Seed = 0.2, 5, 11 }},
		"accumulated": {ragged, 2, func(o *Options) { o.Batch, o.Accumulate, o.Dropout, o.NEFTune = 2, 4, 0.2, 5 }},
		"by length":   {ragged, 3, func(o *Options) { o.GroupByLength, o.Dropout = true, 0.1 }},
		"packed": {packed, 2, func(o *Options) {
			o.Batch, o.Accumulate, o.Dropout, o.NEFTune, o.Checkpointing = 3, 2, 0.2, 5, CheckpointingOn
		}},
		"few rows": {ragged, 3, func(o *Options) { o.Batch, o.Epochs, o.NEFTune = 2, 1, 5 }},
	} {
		for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
			t.Run(fmt.Sprintf("%s/%s", name, ops), func(t *testing.T) {
				if name != "packed" {
					need.Time(t, "one will do")
				}
				o := base
				c.change(&o)
				one := groupRun(t, 1, c.d, o, ops)[0]
				run := RunOptions{EvalData: valid, EvalEvery: 2}
				require.NoError(t, one.Run(t.Context(), run))
				several := groupRun(t, c.ranks, c.d, o, ops)
				requireAll(t, together(several, func(_ int, r *loraRun) error { return r.Run(t.Context(), run) }), nil)

				for _, r := range several {
					require.Equal(t, several[0].History, r.History)
					require.Equal(t, several[0].Evaluations, r.Evaluations)
					require.Equal(t, adapterValues(t, several[0]), adapterValues(t, r))
					require.Equal(t, one.Ended(), r.Ended())
				}
				require.Len(t, several[0].History, len(one.History))
				for i, want := range one.History {
					got := several[0].History[i]
					require.InEpsilon(t, want.Loss, got.Loss, 1e-6, "step %d", want.Step)
					require.InEpsilon(t, want.GradNorm, got.GradNorm, 1e-4, "step %d", want.Step)
					want.Loss, want.GradNorm = got.Loss, got.GradNorm
					require.Equal(t, want, got)
				}
				for i, want := range one.Evaluations {
					require.InEpsilon(t, want.Loss, several[0].Evaluations[i].Loss, 1e-6)
					require.Equal(t, want.Tokens, several[0].Evaluations[i].Tokens)
				}
				require.Less(t, refmath.NMSE(adapterValues(t, several[0]), refmath.From(adapterValues(t, one)).Data), 1e-8)
			})
		}
	}
}

// If a rank is cancelled during a step, the step ends on all ranks, the parameters are unchanged, and
// the run can continue. If it is cancelled during a run, all ranks save and stop.
func TestGroupIsStopped(t *testing.T) {
	d := data.New(6, randomSamples(7, 6))
	runs := groupRun(t, 2, d, runOptions(), device.Kernels)
	step := func(_ int, r *loraRun) error {
		_, err := r.Step(context.Background())
		return err
	}
	requireAll(t, together(runs, step), nil)
	before := []string{stateOf(t, runs[0].Trainer), stateOf(t, runs[1].Trainer)}
	for stopped := range runs {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		errs := together(runs, func(rank int, r *loraRun) error {
			if rank != stopped {
				return step(rank, r)
			}
			_, err := r.Step(ctx)
			return err
		})
		require.ErrorIs(t, errs[stopped], context.Canceled)
		require.ErrorIs(t, errs[1-stopped], ErrStopped)
		require.EqualError(t, errs[1-stopped], "another process of the group was stopped: stopped before the end")
		for rank, r := range runs {
			require.Equal(t, before[rank], stateOf(t, r.Trainer))
		}
	}
	requireAll(t, together(runs, step), nil)

	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "run.gguf")
	errs := together(runs, func(rank int, r *loraRun) error {
		o := RunOptions{OnSave: func() error { return r.SaveCheckpoint(fmt.Sprint(path, rank)) }}
		if rank == 0 {
			return r.Run(context.Background(), o)
		}
		o.OnStep = func(m StepMetrics) {
			if m.Step == 4 {
				cancel()
			}
		}
		return r.Run(ctx, o)
	})
	requireAll(t, errs, ErrStopped)

	whole := groupRun(t, 2, d, runOptions(), device.Kernels)
	requireAll(t, together(whole, func(_ int, r *loraRun) error { return r.Run(context.Background(), RunOptions{}) }), nil)
	resumed := groupRun(t, 2, d, runOptions(), device.Kernels)
	requireAll(t, together(resumed, func(rank int, r *loraRun) error {
		return errors.Join(r.LoadCheckpoint(fmt.Sprint(path, rank)), r.Run(context.Background(), RunOptions{}))
	}), nil)
	require.Equal(t, stateOf(t, whole[0].Trainer), stateOf(t, resumed[0].Trainer))
}

// If something fails on one rank, the run ends on all.
func TestGroupFails(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, fail := range map[string]func(o *RunOptions){
		"OnSave": func(o *RunOptions) { o.SaveEvery, o.OnSave = 2, func() error { return broken } },
		"OnBest": func(o *RunOptions) { o.OnBest = func(Evaluation) error { return broken } },
	} {
		t.Run(name, func(t *testing.T) {
			d := data.New(6, randomSamples(7, 6))
			runs := groupRun(t, 2, d, runOptions(), device.Kernels)
			errs := together(runs, func(rank int, r *loraRun) error {
				o := RunOptions{EvalData: d}
				fail(&o)
				if rank == 0 {
					o.OnSave, o.OnBest = nil, nil // only one rank saves
				}
				return r.Run(context.Background(), o)
			})
			require.EqualError(t, errs[0], "another process of the group has failed")
			require.ErrorIs(t, errs[1], broken)
		})
	}
}

// Ranks that would compute different things get an error, and none waits for another.
func TestGroupDiffers(t *testing.T) {
	d := data.New(6, randomSamples(7, 6))
	run := func(o RunOptions) func(r *loraRun) error {
		return func(r *loraRun) error { return r.Run(context.Background(), o) }
	}
	limit := 5
	for name, c := range map[string]struct {
		first, other func(r *loraRun) error
		want         string
	}{
		"resumed": {run(RunOptions{}), func(r *loraRun) error { r.step, r.position = 1, 2; return r.Run(context.Background(), RunOptions{}) },
			"the number of steps that are done is 0 on rank 0 and 1 on rank 2"},
		"step": {func(r *loraRun) error { _, err := r.Step(context.Background()); return err },
			func(r *loraRun) error { r.schedule.Peak *= 2; _, err := r.Step(context.Background()); return err },
			"the learning rate is"},
		"saves":     {run(RunOptions{}), run(RunOptions{SaveEvery: 2}), "SaveEvery is 0 on rank 0 and 2 on rank 2"},
		"held out":  {run(RunOptions{EvalData: d}), run(RunOptions{}), "the number of held-out rows is 7 on rank 0 and 0 on rank 2"},
		"limit":     {run(RunOptions{}), run(RunOptions{MaxTokens: &limit}), "MaxTokens is none on rank 0 and 5 on rank 2"},
		"evaluated": {evaluateOn(d), evaluateOn(data.New(6, randomSamples(8, 6))), "the number of held-out rows is 7 on rank 0 and 8 on rank 2"},
	} {
		t.Run(name, func(t *testing.T) {
			runs := groupRun(t, 3, d, runOptions(), device.Kernels)
			for _, err := range together(runs, func(rank int, r *loraRun) error {
				if rank == 2 {
					return c.other(r)
				}
				return c.first(r)
			}) {
				require.ErrorContains(t, err, "the group cannot train together: "+c.want)
			}
		})
	}

	runs := groupRun(t, 2, d, runOptions(), device.Kernels)
	errs := together(runs, func(rank int, r *loraRun) error { return evaluateOn([]*data.Dataset{d, nil}[rank])(r) })
	require.EqualError(t, errs[0], "another process of the group has failed")
	require.EqualError(t, errs[1], "the data set has no samples")
}

func evaluateOn(d *data.Dataset) func(r *loraRun) error {
	return func(r *loraRun) error {
		_, err := r.Evaluate(context.Background(), d)
		return err
	}
}

// A wrongGroup has a rank out of range.
type wrongGroup struct{ parallel.Group }

func (wrongGroup) Rank() int { return 0 }

func (wrongGroup) Size() int { return 0 }

func TestGroupMisuse(t *testing.T) {
	const want = "a group of 0 processes has no rank 0; ranks count from 0"
	o := runOptions()
	o.Group = wrongGroup{}
	require.EqualError(t, o.validate(), want)
	r := groupRun(t, 1, data.New(6, randomSamples(7, 6)), runOptions(), device.Kernels)[0]
	_, err := NewEvaluator(r.m, EvaluatorOptions{Group: wrongGroup{}})
	require.EqualError(t, err, want)
	var none context.Context
	requireAll(t, together(groupRun(t, 2, data.New(6, randomSamples(7, 6)), runOptions(), device.Kernels), func(_ int, r *loraRun) error {
		_, err := r.Step(none)
		_, evalErr := r.Evaluate(none, r.data)
		if err == errNoContext && evalErr == errNoContext && r.Run(none, RunOptions{}) == errNoContext {
			return nil
		}
		return fmt.Errorf("%v, %v", err, evalErr)
	}), nil)
}

// A step that is not finite on one rank is rejected on all.
func TestGroupDiverges(t *testing.T) {
	runs := groupRun(t, 2, data.New(6, randomSamples(7, 6)), runOptions(), device.Kernels)
	step := func(_ int, r *loraRun) error {
		_, err := r.Step(context.Background())
		return err
	}
	requireAll(t, together(runs, step), nil)
	b := runs[1].a.Pairs()[0].B
	values := need.Value(ggml.Read[float32](b))(t)
	values[0] = 3e38
	require.NoError(t, ggml.Write(b, values))
	before := []string{stateOf(t, runs[0].Trainer), stateOf(t, runs[1].Trainer)}
	requireAll(t, together(runs, step), ErrDiverged)
	for rank, r := range runs {
		require.Equal(t, before[rank], stateOf(t, r.Trainer))
	}
}

// A calledGroup records its calls.
type calledGroup struct {
	parallel.Group
	calls *[]string
}

func (g calledGroup) note(call string) { *g.calls = append(*g.calls, call) }

func (g calledGroup) AllReduce(ctx context.Context, x []float64) error {
	g.note("sum")
	return g.Group.AllReduce(ctx, x)
}

func (g calledGroup) AllReduceGrads(ctx context.Context, grads []*ggml.Tensor) func() error {
	g.note("begin")
	wait := g.Group.AllReduceGrads(ctx, grads)
	return func() error {
		g.note("wait")
		return wait()
	}
}

// A step makes as few group calls as possible: ranks compare the step while gradients are summed, and
// once more at its end.
func TestCallsOfStep(t *testing.T) {
	runs := groupRun(t, 2, data.New(6, randomSamples(7, 6)), runOptions(), device.Kernels)
	calls := make([][]string, len(runs))
	for rank, r := range runs {
		r.group = calledGroup{r.group, &calls[rank]}
		r.reduction.group = r.group
	}
	for range 2 {
		requireAll(t, together(runs, func(_ int, r *loraRun) error {
			_, err := r.Step(context.Background())
			return err
		}), nil)
	}
	want := []string{
		"sum", // to agree on loss scaling, before the first step
		"begin", "sum", "wait", "sum",
		"begin", "sum", "wait", "sum",
	}
	for _, list := range calls {
		require.Equal(t, want, list)
	}
}

package train_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// autoType returns the compute type that programs take by default.
func autoType(b *testing.B) ggml.Type {
	b.Helper()
	require.NoError(b, ggml.LoadBackends())
	e := need.Value(device.New(device.Options{}))(b)
	defer e.Close()
	return e.ComputeType()
}

// A scalingRun measures training steps in a separate process.
type scalingRun struct {
	Model          string // path of the model's file
	Context, Batch int
	Rank, Threads  int
	Checkpointing  bool
	Full           bool     // train all weights instead of an adapter
	Targets        []string // of the adapter; nil means the usual ones
	ComputeType    ggml.Type
	ProcessorTime  bool // measure processor time
}

// trainSteps measures the time of steps.
var trainSteps = testutil.NewProcess("trainSteps", func(r scalingRun, serve func(sample stepTime) error) error {
	return r.train(func(step func() error) error { return serve(r.timed(step)) })
})

// A stepTime runs a step and returns its duration.
type stepTime = func() (time.Duration, error)

func (r scalingRun) timed(step func() error) stepTime {
	if !r.ProcessorTime {
		return timed(step)
	}
	return func() (time.Duration, error) {
		began := testutil.ProcessorTime()
		err := step()
		return testutil.ProcessorTime() - began, err
	}
}

func timed(step func() error) stepTime {
	return func() (time.Duration, error) {
		start := time.Now()
		err := step()
		return time.Since(start), err
	}
}

// train calls f with the step function of a trainer.
func (r scalingRun) train(f func(step func() error) error) error {
	m, err := model.Load(r.Model, model.LoadOptions{NoMmap: r.Full})
	if err != nil {
		return err
	}
	defer m.Close()
	trained := train.Trainables{ModelWeights: slices.Collect(m.Weights())}
	if !r.Full {
		a, err := lora.New(m, lora.Options{Rank: r.Rank, Alpha: 16, Init: lora.InitKaiming, Targets: r.Targets})
		if err != nil {
			return err
		}
		defer a.Close()
		trained = train.Trainables{Adapters: a.WithScale(1)}
	}
	t, err := train.New(m, trained, randomTokens(m.Config().Vocab, r.Context, r.Batch), train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(),
		Batch: r.Batch, Accumulate: 1, Threads: r.Threads, Checkpointing: checkpointing(r.Checkpointing), ComputeType: r.ComputeType,
	})
	if err != nil {
		return err
	}
	defer t.Close()
	return f(func() error {
		_, err := t.Step(context.Background())
		return err
	})
}

func randomTokens(vocab, length, n int) *data.Dataset {
	rng := rand.New(rand.NewPCG(1, 1))
	var samples []data.Sample
	for range n {
		s := data.Sample{}
		for range length + 1 {
			s.Tokens = append(s.Tokens, int32(rng.IntN(vocab)))
		}
		samples = append(samples, s)
	}
	return data.New(length, samples)
}

// Measures how time and memory of a training step grow with each size. Other sizes stay fixed: 512
// tokens, rank 8, all cores.
func BenchmarkScaling(b *testing.B) {
	small, wide := benchmodel.Small(), benchmodel.Large()
	wide.Layers = 2
	base := scalingRun{Context: 256, Batch: 2, Rank: 8, Threads: runtime.NumCPU()}
	for _, n := range threadCounts() {
		r := base
		r.Threads = n
		benchmarkScaling(b, "threads", n, small, ggml.Q8_0, r)
	}
	for _, n := range []int{1, 2, 4, 8, 16} {
		r := base
		r.Context, r.Batch = 128, n
		benchmarkScaling(b, "batch", n, small, ggml.Q8_0, r)
	}
	for _, n := range []int{128, 256, 512, 1024, 2048, 4096} {
		r := base
		r.Context, r.Batch, r.Checkpointing = n, 1, true
		benchmarkScaling(b, "context", n, small, ggml.Q8_0, r)
	}
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256} {
		r := base
		r.Rank = n
		benchmarkScaling(b, "rank", n, wide, ggml.Q4_K, r)
	}
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		deep := small
		deep.Layers = n
		benchmarkScaling(b, "layers", n, deep, ggml.Q8_0, base)
	}
}

// Finds the contexts on which a model of 1.1 billion parameters can be trained.
func BenchmarkLongContext(b *testing.B) {
	need.Time(b, "takes minutes")
	for _, n := range []int{512, 1024, 2048, 4096} {
		r := scalingRun{Context: n, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), Checkpointing: true, ComputeType: autoType(b)}
		b.Run(fmt.Sprintf("model=1.1B/base=Q4_K/context=%d", n), func(b *testing.B) { benchmarkSteps(b, benchmodel.Large(), ggml.Q4_K, r) })
	}
}

// threadCounts returns powers of two up to the number of cores.
func threadCounts() []int {
	var counts []int
	for n := 1; n < runtime.NumCPU(); n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, runtime.NumCPU())
}

func benchmarkScaling(b *testing.B, by string, n int, c arch.Config, base ggml.Type, r scalingRun) {
	r.ComputeType = autoType(b)
	b.Run(fmt.Sprintf("by=%s/%s=%d", by, by, n), func(b *testing.B) { benchmarkSteps(b, c, base, r) })
}

func benchmarkSteps(b *testing.B, c arch.Config, base ggml.Type, r scalingRun) {
	benchmarkJob(b, r.on(b, c, base), c)
}

// on returns the run for a model of a shape and type.
func (r scalingRun) on(b *testing.B, c arch.Config, base ggml.Type) scalingRun {
	b.Helper()
	name := c.Name
	if c.Layers != benchmodel.Small().Layers && c.Layers != benchmodel.Large().Layers {
		name = fmt.Sprintf("%s-%d-layers", name, c.Layers)
	}
	path := need.Value(benchmodel.File(benchFolder, name, c, base))(b)
	r.Model = path
	return r
}

func benchmarkJob(b *testing.B, r scalingRun, c arch.Config) {
	rounds, budget := testutil.BenchTime(b)
	testutil.Once(b, func() {
		run := startSteps(b, trainSteps, r)
		run.report(b, testutil.InTurn(rounds, budget, run.sample).Median(0), c)
	})
}

// A stepsRun is a process that runs steps.
type stepsRun struct {
	scalingRun
	process *testutil.Process[time.Duration]
	sample  func() time.Duration
}

func startSteps(b *testing.B, job *testutil.Job[scalingRun, time.Duration], r scalingRun) stepsRun {
	b.Helper()
	process := need.Value(job.Start(r))(b)
	b.Cleanup(func() { require.NoError(b, process.Close()) })
	return stepsRun{r, process, func() time.Duration {
		return need.Value(process.Sample())(b)
	}}
}

func (r stepsRun) tokens() int { return r.Context * r.Batch }

// flops returns the operations of a step: 4 per parameter and token.
func (r stepsRun) flops(c arch.Config) float64 {
	return 4 * float64(c.NumActiveParameters()) * float64(r.tokens())
}

// report reports speed and memory, given the duration of a step.
func (r stepsRun) report(b *testing.B, step time.Duration, c arch.Config) {
	reportSteps(b, r.tokens(), step, r.process.Peak)
	b.ReportMetric(r.flops(c)/step.Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(float64(r.process.Peak)/float64(c.NumParameters()), "B/param")
}

func reportSteps(b *testing.B, tokens int, step time.Duration, peak uint64) {
	b.ReportMetric(float64(tokens)/step.Seconds(), "tok/s")
	b.ReportMetric(step.Seconds()*1e3/float64(tokens), "ms/tok")
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
}

package train_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A scalingRun measures training steps in a process of its own.
type scalingRun struct {
	Model          string // file
	Context, Batch int
	Rank, Threads  int
	Checkpointing  bool
	Full           bool // trains all weights, not an adapter
	Products       ggml.Type
	MinSteps       int
	Budget         time.Duration // for the steps, whatever their number
}

// trainSteps measures the time of a step, the median of those it does.
var trainSteps = testutil.NewJob("trainSteps", func(r scalingRun) (took time.Duration, err error) {
	err = r.train(func(step func() error) error {
		took, err = r.measure(step)
		return err
	})
	return took, err
})

// train gives f the step of a trainer.
func (r scalingRun) train(f func(step func() error) error) error {
	m, err := model.Load(r.Model, model.LoadOptions{NoMmap: r.Full})
	if err != nil {
		return err
	}
	defer m.Close()
	params, deltas := allWeights(m), model.Deltas(nil)
	if !r.Full {
		a, err := lora.New(m, lora.Options{Rank: r.Rank, Alpha: 16, Init: lora.InitKaiming})
		if err != nil {
			return err
		}
		defer a.Close()
		params, deltas = allMatrices(a), a.Deltas(1)
	}
	t, err := train.New(m, params, deltas, randomTokens(m.Vocab, r.Context, r.Batch), train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(),
		Batch: r.Batch, Accumulate: 1, Threads: r.Threads, Checkpointing: r.Checkpointing, Products: r.Products,
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

// longStep is the length of a first step that counts too: warming up is little
// of it.
const longStep = 15 * time.Second

// measure repeats a step, and returns the median of its times.
func (r scalingRun) measure(step func() error) (time.Duration, error) {
	var times []time.Duration
	var spent time.Duration
	for first := true; len(times) < max(1, r.MinSteps) || spent < r.Budget; first = false {
		start := time.Now()
		if err := step(); err != nil {
			return 0, err
		}
		d := time.Since(start)
		if first && d < longStep {
			continue
		}
		times = append(times, d)
		spent += d
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

func allWeights(m *model.Model) []*ggml.Tensor {
	var list []*ggml.Tensor
	for _, s := range m.Config.Tensors() {
		list = append(list, m.Weight(s.Name))
	}
	return list
}

func allMatrices(a *lora.Adapter) []*ggml.Tensor {
	var list []*ggml.Tensor
	for _, p := range a.Pairs() {
		list = append(list, p.A, p.B)
	}
	return list
}

func randomTokens(vocab, length, samples int) *train.Dataset {
	rng := rand.New(rand.NewPCG(1, 1))
	d := &train.Dataset{Length: length}
	for range samples {
		s := train.Sample{}
		for range length + 1 {
			s.Tokens = append(s.Tokens, int32(rng.IntN(vocab)))
		}
		d.Samples = append(d.Samples, s)
	}
	return d
}

// How time and memory of a training step grow with each of its sizes. Where
// one varies the others stay: 512 tokens, rank 8, all cores.
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

// The contexts that a model of 1.1 billion parameters can be trained on.
func BenchmarkLongContext(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	for _, n := range []int{512, 1024, 2048, 4096} {
		r := scalingRun{Context: n, Batch: 1, Rank: 8, Threads: runtime.NumCPU(), Checkpointing: true, Products: ggml.TiledType()}
		b.Run(fmt.Sprintf("model=1.1B/base=Q4_K/context=%d", n), func(b *testing.B) { benchmarkSteps(b, benchmodel.Large(), ggml.Q4_K, r) })
	}
}

// threadCounts doubles up to the number of cores.
func threadCounts() []int {
	var counts []int
	for n := 1; n < runtime.NumCPU(); n *= 2 {
		counts = append(counts, n)
	}
	return append(counts, runtime.NumCPU())
}

func benchmarkScaling(b *testing.B, by string, n int, c model.Config, base ggml.Type, r scalingRun) {
	r.Products = ggml.TiledType()
	b.Run(fmt.Sprintf("by=%s/%s=%d", by, by, n), func(b *testing.B) { benchmarkSteps(b, c, base, r) })
}

func benchmarkSteps(b *testing.B, c model.Config, base ggml.Type, r scalingRun) {
	name := c.Name
	if c.Layers != benchmodel.Small().Layers && c.Layers != benchmodel.Large().Layers {
		name = fmt.Sprintf("%s-%d-layers", name, c.Layers)
	}
	path, err := benchmodel.File(benchFolder, name, c, base)
	require.NoError(b, err)
	r.Model = path
	benchmarkJob(b, r, c, trainSteps)
}

// benchmarkJob reports speed and memory of a run. GFLOP/s count 4 operations
// for each parameter and token.
func benchmarkJob(b *testing.B, r scalingRun, c model.Config, job *testutil.Job[scalingRun, time.Duration]) {
	r.MinSteps, r.Budget = benchTime(b)
	var step time.Duration
	var peak uint64
	once(b, func() {
		var err error
		step, peak, err = job.Run(r)
		require.NoError(b, err)
	})
	tokens, parameters := r.Context*r.Batch, float64(c.NumParameters())
	reportSteps(b, tokens, step, peak)
	b.ReportMetric(4*parameters*float64(tokens)/step.Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(float64(peak)/parameters, "B/param")
}

func reportSteps(b *testing.B, tokens int, step time.Duration, peak uint64) {
	b.ReportMetric(float64(tokens)/step.Seconds(), "tok/s")
	b.ReportMetric(step.Seconds()*1e3/float64(tokens), "ms/tok")
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
}

// benchTime is -test.benchtime: a number of runs, or their least duration.
func benchTime(b *testing.B) (int, time.Duration) {
	text := flag.Lookup("test.benchtime").Value.String()
	if count, ok := strings.CutSuffix(text, "x"); ok {
		n, err := strconv.Atoi(count)
		require.NoError(b, err)
		return n, 0
	}
	d, err := time.ParseDuration(text)
	require.NoError(b, err)
	return 1, d
}

// once runs f, which repeats by itself what it measures, one time, and keeps
// the time of it out of the results.
func once(b *testing.B, f func()) {
	done := false
	for b.Loop() {
		if !done {
			f()
			done = true
		}
	}
	b.ReportMetric(0, "ns/op")
}

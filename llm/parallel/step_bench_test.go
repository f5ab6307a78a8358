package parallel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/train"
)

// joined is the place of this process, where a launcher has started it.
var joined = sync.OnceValues(func() (*parallel.World, error) {
	_, group, err := parallel.Join(context.Background())
	if err == nil && !group.Writes() {
		os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	return group, err
})

func TestMain(m *testing.M) {
	testutil.Main(leaving{m})
}

// leaving are tests after which the process leaves its group.
type leaving struct{ testutil.Tests }

func (l leaving) Run() int {
	code := l.Tests.Run()
	if group, err := joined(); err == nil && code == 0 {
		err = group.Close()
		if err != nil {
			code = 1
		}
	}
	return code
}

// BenchmarkStep measures steps of processes that share their samples, and BenchmarkSum sums of gradients alone:
//
//	go test -c ./llm/parallel
//	mpirun -np 2 ./parallel.test -test.run - -test.bench Step/1.1B -test.benchtime 5x
//
// A step has GOGGML_BENCH_SAMPLES samples of GOGGML_BENCH_TOKENS tokens, 12 of 64 by default, which are computed
// one at a time by a thread of each process. The model is made in GOGGML_BENCH_FOLDER, or in the system's folder
// for temporary files. With GOGGML_BENCH_ALONE each process computes whole
// steps, which all begin together.
func BenchmarkStep(b *testing.B) {
	for _, c := range []arch.Config{benchmodel.Small(), benchmodel.Medium(), benchmodel.Large()} {
		b.Run(c.Name, func(b *testing.B) { benchmarkStep(b, c) })
	}
}

func benchmarkStep(b *testing.B, c arch.Config) {
	group := need.Value(joined())(b)
	folder := os.Getenv("GOGGML_BENCH_FOLDER")
	if folder == "" {
		folder = os.TempDir()
	}
	var path string
	if group.Writes() {
		path = need.Value(benchmodel.File(folder, c.Name, c, ggml.Q4_0))(b)
	}
	path = need.Value(group.Text(b.Context(), path))(b)
	m := need.Value(model.Load(path, model.LoadOptions{}))(b)
	defer m.Close()
	a := need.Value(lora.New(m, lora.Options{Rank: 16, Alpha: 16, Init: lora.InitKaiming}))(b)
	defer a.Close()
	shared := group
	if os.Getenv("GOGGML_BENCH_ALONE") != "" {
		shared = nil
	}
	samples, tokens := setting("GOGGML_BENCH_SAMPLES", 12), setting("GOGGML_BENCH_TOKENS", 64)
	t := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, randomTokens(c.Vocab, tokens, samples), train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: samples, Threads: 1, Group: shared,
		Checkpointing: train.CheckpointingOff,
	}))(b)
	defer t.Close()
	step := func() {
		_, err := t.Step(b.Context())
		require.NoError(b, err)
		if shared != group {
			require.NoError(b, group.AllReduce(b.Context(), []float64{0}))
		}
	}
	step() // which makes graphs
	_, before := group.Traffic()
	least := time.Duration(1 << 62)
	for b.Loop() {
		began := time.Now()
		step()
		least = min(least, time.Since(began))
	}
	_, waited := group.Traffic()
	b.ReportMetric(least.Seconds()*1e3, "least-ms/step")
	b.ReportMetric((waited-before).Seconds()*1e3/float64(b.N), "waiting-ms/step")
	b.ReportMetric(4*float64(a.NumParameters())/1e6, "MB/step")
}

// BenchmarkSum is of the gradients of adapters of rank 16, in the parts that a step has. It reports what share of the
// processors of the machine was busy meanwhile, where Linux says so, and nothing else runs.
func BenchmarkSum(b *testing.B) {
	for name, bytes := range map[string]int64{"28M": 4_784_128, "0.3B": 27_918_336, "1.1B": 50_462_720} {
		b.Run(name, func(b *testing.B) {
			group := need.Value(joined())(b)
			const parts = 4
			c := ggml.NewContext()
			defer c.Close()
			var list []*ggml.Tensor
			for range parts {
				list = append(list, c.NewTensor(ggml.F32, bytes/4/parts))
			}
			memory := need.Value(c.Allocate(ggml.CPUBufferType()))(b)
			defer memory.Close()
			least := time.Duration(1 << 62)
			began, busy := time.Now(), busyTime()
			for b.Loop() {
				require.NoError(b, group.AllReduce(b.Context(), []float64{0})) // they begin together
				began := time.Now()
				var waits []func() error
				for i := range list {
					waits = append(waits, group.AllReduceGrads(b.Context(), list[i:i+1]))
				}
				for _, wait := range waits {
					require.NoError(b, wait())
				}
				least = min(least, time.Since(began))
			}
			b.ReportMetric((busyTime()-busy).Seconds()/time.Since(began).Seconds()/float64(runtime.NumCPU()), "load")
			b.ReportMetric(least.Seconds()*1e3, "least-ms/sum")
		})
	}
}

// busyTime is how long the processors of this machine have done something, added up.
func busyTime() time.Duration {
	const ticks = 100 // a second
	var user, nice, system, idle, wait, interrupts, soft int64
	text, err := os.ReadFile("/proc/stat")
	if err == nil {
		_, err = fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &interrupts, &soft)
	}
	if err != nil {
		return 0
	}
	return time.Duration(user+nice+system+interrupts+soft) * time.Second / ticks
}

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func randomTokens(vocab, length, samples int) *data.Dataset {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]data.Sample, samples)
	for i := range list {
		for range length + 1 {
			list[i].Tokens = append(list[i].Tokens, int32(rng.IntN(vocab)))
		}
	}
	return data.New(length, list)
}

func ExampleWorld() {
	ctx, group, err := parallel.Join(context.Background()) // before anything else
	if err != nil {
		panic(err)
	}
	defer group.Close()
	numbers := []float64{float64(group.Rank()), 1}
	if err := group.AllReduce(ctx, numbers); err != nil {
		panic(err)
	}
	fmt.Println(group.Size() == int(numbers[1]), group.Writes())
	// Output: true true
}

package device_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Compares a server of ServeRPC with ggml's own over loopback, alternating, for the same client: the goal is a ratio of
// at least 0.95.
func BenchmarkServer(b *testing.B) {
	for _, c := range []arch.Config{benchmodel.Small(), benchmodel.Medium()} {
		path := need.Value(benchmodel.File("../../build/bench", c.Name, c, ggml.Q8_0))(b)
		for _, w := range []struct {
			name   string
			tokens int // per sample
			begin  func(b *testing.B, path string, layout layout.Layout) (sample func())
		}{{"load", 0, beginLoading}, {"prefill", 256, beginPrefill}, {"decode", 32, beginDecode}, {"train", 256, beginTraining}} {
			b.Run("model="+c.Name+"/work="+w.name, func(b *testing.B) {
				testutil.Once(b, func() {
					var samplers []func() time.Duration
					for _, stock := range []bool{false, true} {
						s := optest.StartRPCServerWith(b, optest.ServerOptions{Threads: runtime.NumCPU(), Stock: stock})
						r := need.Value(ggml.AddRPCServer(s.Endpoint))(b)
						b.Cleanup(func() { require.NoError(b, r.Unload()) })
						sample := w.begin(b, path, layout.On(r.Devices()[0]))
						samplers = append(samplers, func() time.Duration {
							began := time.Now()
							sample()
							return time.Since(began)
						})
					}
					_, budget := testutil.BenchTime(b)
					turns := testutil.InTurn(testutil.Rounds(), budget, samplers...)
					if w.tokens > 0 {
						b.ReportMetric(float64(w.tokens)/turns.Median(0).Seconds(), "tok/s")
					}
					b.ReportMetric(turns.Ratio(1, 0), "×ggml")
				})
			})
		}
	}
}

// Compares steps on the CPU of a server with the same steps on this CPU, in turn, over loopback: the goal is a ratio of at most
// 1.3. Both are the same machine.
func BenchmarkRemoteStep(b *testing.B) {
	types := []ggml.Type{ggml.F32}
	if kernels.HasBF16() {
		types = append(types, ggml.BF16)
	}
	for _, c := range []arch.Config{benchmodel.Small(), benchmodel.Medium()} {
		path := need.Value(benchmodel.File("../../build/bench", c.Name, c, ggml.Q8_0))(b)
		for _, compute := range types {
			b.Run("model="+c.Name+"/type="+compute.String(), func(b *testing.B) {
				testutil.Once(b, func() {
					far := remoteOf(b, optest.ServerOptions{Threads: runtime.NumCPU()})
					var samplers []func() time.Duration
					for _, l := range []layout.Layout{{}, layout.On(far)} {
						step := beginTrainingIn(b, path, l, compute)
						samplers = append(samplers, func() time.Duration {
							began := time.Now()
							step()
							return time.Since(began)
						})
					}
					_, budget := testutil.BenchTime(b)
					turns := testutil.InTurn(testutil.Rounds(), budget, samplers...)
					b.ReportMetric(256/turns.Median(1).Seconds(), "tok/s")
					b.ReportMetric(turns.Ratio(1, 0), "×local")
				})
			})
		}
	}
}

func beginLoading(b *testing.B, path string, layout layout.Layout) func() {
	return func() {
		m := need.Value(model.Load(path, model.LoadOptions{Layout: layout}))(b)
		require.NoError(b, m.Close())
	}
}

func loadAt(b *testing.B, path string, layout layout.Layout) *model.Model {
	m := need.Value(model.Load(path, model.LoadOptions{Layout: layout}))(b)
	b.Cleanup(func() { m.Close() })
	return m
}

func beginSession(b *testing.B, path string, layout layout.Layout) (*infer.Session, *model.Model) {
	m := loadAt(b, path, layout)
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: newEngine(b, device.Options{Layout: layout})}))(b)
	b.Cleanup(func() { s.Close() })
	return s, m
}

func beginPrefill(b *testing.B, path string, layout layout.Layout) func() {
	s, m := beginSession(b, path, layout)
	tokens := llmtest.RandomTokens(1, 256, m.Config().Vocab)
	return func() {
		q := need.Value(s.NewSequence())(b)
		_, err := q.Decode(b.Context(), tokens)
		require.NoError(b, err)
		require.NoError(b, q.Close())
	}
}

func beginDecode(b *testing.B, path string, layout layout.Layout) func() {
	s, m := beginSession(b, path, layout)
	tokens := llmtest.RandomTokens(1, 32, m.Config().Vocab)
	return func() {
		q, err := s.NewSequence()
		require.NoError(b, err)
		for i := range tokens {
			_, err = q.Decode(b.Context(), tokens[i:i+1])
			require.NoError(b, err)
		}
		require.NoError(b, q.Close())
	}
}

func beginTraining(b *testing.B, path string, layout layout.Layout) func() {
	return beginTrainingIn(b, path, layout, ggml.F32)
}

func beginTrainingIn(b *testing.B, path string, layout layout.Layout, compute ggml.Type) func() {
	m := loadAt(b, path, layout)
	a := need.Value(lora.New(m, lora.Options{Rank: 8, Alpha: 16, Init: lora.InitKaiming, Seed: 1}))(b)
	b.Cleanup(func() { a.Close() })
	var samples []data.Sample
	for i := range 8 {
		samples = append(samples, data.Sample{Tokens: llmtest.RandomTokens(uint64(i), 129, m.Config().Vocab)})
	}
	t := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, data.New(128, samples), train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1, ComputeType: compute,
		Engine: newEngine(b, device.Options{Layout: layout}),
	}))(b)
	b.Cleanup(func() { t.Close() })
	return func() {
		_, err := t.Step(b.Context())
		require.NoError(b, err)
	}
}

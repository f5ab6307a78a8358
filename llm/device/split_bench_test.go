package device_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Measures steps, prompts and tokens of a model split over the CPU and a local server, alternating between stock ops
// and kernels: of the CPU's part, and in steps of the server's.
func BenchmarkSplit(b *testing.B) {
	require.NoError(b, ggml.LoadBackends())
	dense, mixture := benchmodel.Small(), benchmodel.Qwen3MoE()
	mixture.Name, mixture.Vocab, mixture.Embd, mixture.Heads, mixture.HeadSize, mixture.Layers = "130M of experts", 8192, 512, 8, 64, 4
	mixture.RoPE.Dims = mixture.HeadSize
	mixture.Experts, mixture.ExpertsUsed, mixture.ExpertFF = 32, 4, 512
	d := remote(b)
	layers := func(first int) layout.Layout { // first layer on the device
		return layout.Layout{Devices: []*ggml.Device{d}, Of: func(layer int, kind layout.Kind) int {
			if layer >= first || strings.HasPrefix(string(kind), "output") {
				return 0
			}
			return 1
		}}
	}
	experts := layout.Layout{Devices: []*ggml.Device{d}, Of: func(_ int, kind layout.Kind) int {
		if strings.HasSuffix(string(kind), "_exps") {
			return 1
		}
		return 0
	}}
	for _, c := range []struct {
		name  string
		model arch.Config
		l     layout.Layout
	}{{"a quarter of the layers", dense, layers(6)}, {"half of the layers", dense, layers(4)}, {"all but experts", mixture, experts}} {
		path := need.Value(benchmodel.File("../../build/bench", strings.ReplaceAll(c.model.Name, " ", "-"), c.model, ggml.Q8_0))(b)
		m := need.Value(model.Load(path, model.LoadOptions{Layout: c.l, Repack: true}))(b)
		for _, of := range []struct {
			what    string
			sampler func(b *testing.B, m *model.Model, e *device.Engine) func() time.Duration
		}{{"steps", steps512}, {"prompts", prompts}, {"tokens", tokens}} {
			b.Run(fmt.Sprintf("device=%s/%s", c.name, of.what), func(b *testing.B) {
				stock := of.sampler(b, m, newEngine(b, device.Options{Layout: c.l, OpSet: device.Stock}))
				mixed := of.sampler(b, m, newEngine(b, device.Options{Layout: c.l}))
				rounds, budget := testutil.BenchTime(b)
				testutil.Once(b, func() {
					turns := testutil.InTurn(rounds, budget, stock, mixed)
					b.ReportMetric(float64(turns.Median(0).Microseconds())/1e3, "stock-ms")
					b.ReportMetric(float64(turns.Median(1).Microseconds())/1e3, "ms")
					b.ReportMetric(turns.Ratio(0, 1), "×stock")
				})
			})
		}
		require.NoError(b, m.Close())
	}
}

// steps512 measures training steps of 512 tokens.
func steps512(b *testing.B, m *model.Model, e *device.Engine) func() time.Duration {
	rng := rand.New(rand.NewPCG(1, 2))
	s := data.Sample{}
	for range 257 {
		s.Tokens = append(s.Tokens, int32(rng.IntN(m.Config().Vocab)))
	}
	o := train.Options{Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1, Engine: e, Checkpointing: train.CheckpointingOff}
	t := need.Value(train.New(m, train.Trainables{Adapters: newAdapter(b, m).WithScale(1)}, data.New(256, []data.Sample{s, s}), o))(b)
	b.Cleanup(func() { t.Close() })
	return timed(b, func() error {
		_, err := t.Step(b.Context())
		return err
	})
}

// prompts measures prompts of 256 tokens, and decoding after one.
func prompts(b *testing.B, m *model.Model, e *device.Engine) func() time.Duration {
	q, text := sequence(b, m, e), llmtest.RandomTokens(1, 256, m.Config().Vocab)
	return timed(b, func() error {
		if _, err := q.Rewind(0); err != nil {
			return err
		}
		_, err := q.Decode(b.Context(), text)
		return err
	})
}

func tokens(b *testing.B, m *model.Model, e *device.Engine) func() time.Duration {
	q, next := sequence(b, m, e), llmtest.RandomTokens(1, 1, m.Config().Vocab)
	return timed(b, func() error {
		if _, err := q.Rewind(16); err != nil {
			return err
		}
		_, err := q.Decode(b.Context(), next)
		return err
	})
}

func sequence(b *testing.B, m *model.Model, e *device.Engine) *infer.Sequence {
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Engine: e, Context: 512}))(b)
	b.Cleanup(func() { s.Close() })
	q := need.Value(s.NewSequence())(b)
	_, err := q.Decode(b.Context(), llmtest.RandomTokens(2, 16, m.Config().Vocab))
	require.NoError(b, err)
	return q
}

func timed(b *testing.B, f func() error) func() time.Duration {
	return func() time.Duration {
		began := time.Now()
		require.NoError(b, f())
		return time.Since(began)
	}
}

package train

import (
	"testing"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Measures sequence tokens per second of a loss of pairs, whose reference is known, as a ratio to cross-entropy of the
// same sequences. Steps of all are taken in turn. A prompt is two thirds of a sequence.
func BenchmarkPairs(b *testing.B) {
	const prompt, answer, pairs, length = 128, 64, 16, 768
	config := benchmodel.Small()
	path := need.Value(benchmodel.File(b.TempDir(), config.Name, config, ggml.Q8_0))(b)
	m := need.Value(model.Load(path, model.LoadOptions{}))(b)
	defer m.Close()
	var samples []data.Sample
	var rows []data.Row
	for i := range pairs {
		var row data.Row
		for side := range 2 {
			s := data.Sample{Tokens: llmtest.RandomTokens(uint64(i), prompt, m.Config().Vocab), Origin: data.Origin{Line: i + 1}}
			s.LossWeights = make([]float32, prompt-1)
			for _, token := range llmtest.RandomTokens(uint64(100+2*i+side), answer-i%4, m.Config().Vocab) {
				s.Tokens, s.LossWeights = append(s.Tokens, token), append(s.LossWeights, 1)
			}
			row = append(row, s)
		}
		samples, rows = append(samples, row...), append(rows, row)
	}
	single := need.Value(data.NewRows(length, rows))(b)
	kinds := []struct {
		name string
		d    *data.Dataset
		loss Loss
		rows int // about 768 tokens
	}{
		{"cross-entropy", need.Value(data.New(length, samples).Packed(1))(b), Loss{}, 1},
		{"a pair a row", single, preferFirst(0.1), 2},
		{"packed pairs", need.Value(single.Packed(1))(b), preferFirst(0.1), 1},
	}
	var trainers []*Trainer
	for _, k := range kinds {
		a := need.Value(lora.New(m, lora.Options{Rank: 8, Alpha: 16, Init: lora.InitKaiming}))(b)
		defer a.Close()
		t := need.Value(New(m, Trainables{Adapters: a.WithScale(1)}, k.d, Options{
			Schedule: Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: DefaultAdamW(), Batch: k.rows, Accumulate: 1, Threads: 1, ComputeType: kernels.FastestType(), Loss: k.loss,
		}))(b)
		defer t.Close()
		need.Value(t.Step(b.Context()))(b)
		trainers = append(trainers, t)
	}
	spent, tokens := make([]time.Duration, len(kinds)), make([]float64, len(kinds))
	for b.Loop() {
		for i, k := range kinds {
			for r := range k.rows {
				tokens[i] += float64(k.d.Predicted(trainers[i].row(trainers[i].position + r)))
			}
			began := time.Now()
			need.Value(trainers[i].Step(b.Context()))(b)
			spent[i] += time.Since(began)
		}
	}
	rate := func(i int) float64 { return tokens[i] / spent[i].Seconds() }
	b.ReportMetric(rate(0), "tok/s")
	b.ReportMetric(rate(1)/rate(0), "pairs")
	b.ReportMetric(rate(2)/rate(0), "packed")
}

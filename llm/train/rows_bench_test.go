package train

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// chatLike returns samples with the lengths of chats: most are short, some fill a row.
func chatLike(n, length, vocab int) []data.Sample {
	rng := rand.New(rand.NewPCG(6, 6))
	var list []data.Sample
	for i := range n {
		tokens := min(length, 16+int(rng.ExpFloat64()*float64(length)/5))
		list = append(list, data.Sample{Tokens: llmtest.RandomTokens(uint64(i), tokens+1, vocab)})
	}
	return list
}

// Measures trained tokens per second with samples of different lengths, by the kind of rows. An
// iteration is an epoch.
func BenchmarkRaggedRows(b *testing.B) {
	const length, samples, batch = 512, 64, 4
	config := benchmodel.Small()
	path := need.Value(benchmodel.File(b.TempDir(), config.Name, config, ggml.Q8_0))(b)
	m := need.Value(model.Load(path, model.LoadOptions{}))(b)
	defer m.Close()
	single := data.New(length, chatLike(samples, length, m.Config().Vocab))
	packed := need.Value(single.Packed(1))(b)
	for _, c := range []struct {
		name  string
		d     *data.Dataset
		group bool
		short bool
	}{
		{"padded", single, false, false},
		{"short", single, false, true},
		{"grouped", single, true, true},
		{"packed", packed, false, true},
	} {
		b.Run("rows="+c.name, func(b *testing.B) {
			a := need.Value(lora.New(m, lora.Options{Rank: 8, Alpha: 16, Init: lora.InitKaiming}))(b)
			defer a.Close()
			tr := need.Value(New(m, Trainables{Adapters: a.WithScale(1)}, c.d, Options{
				Schedule: Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: DefaultAdamW(), Batch: batch, Accumulate: 1,
				GroupByLength: c.group, ComputeType: kernels.FastestType(),
			}))(b)
			defer tr.Close()
			if !c.short {
				unbucketed(b, tr)
			}
			trained := 0
			for b.Loop() {
				for range (c.d.Len() + batch - 1) / batch {
					metrics := need.Value(tr.Step(context.Background()))(b)
					trained += metrics.Tokens
				}
			}
			b.ReportMetric(float64(trained)/b.Elapsed().Seconds(), "tok/s")
			b.ReportMetric(100*c.d.Fill(), "full-%")
			b.ReportMetric(100*tr.PaddingSaved(), "saved-%")
		})
	}
}

package train_test

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// Train preferences between two answers (DPO, arXiv 2305.18290). A row holds a pair; the model without
// the adapter is the reference.
func ExampleLoss() {
	m := must(tinyModelFor(strings.Repeat("Is the sea blue? Yes. No. ", 20))) // or model.Load
	defer m.Close()
	answer := func(pair int, prompt, answer string) data.Sample {
		s := data.Sample{Origin: data.Origin{Line: pair}, Tokens: m.Tokenizer.Encode(prompt, tokenizer.EncodeOptions{})}
		s.LossWeights = make([]float32, len(s.Tokens)-1) // only the answer counts
		for _, id := range m.Tokenizer.Encode(answer, tokenizer.EncodeOptions{}) {
			s.Tokens, s.LossWeights = append(s.Tokens, id), append(s.LossWeights, 1)
		}
		return s
	}
	const length = 64
	chosen, rejected := answer(1, "Is the sea blue?", " Yes."), answer(1, "Is the sea blue?", " No.")
	pairs := must(data.NewRows(length, []data.Row{{chosen, rejected}}))
	adapter := must(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{lora.AllLinear}}))
	defer adapter.Close()

	// Rows of one answer each give the reference's log-probabilities of answers.
	ctx := context.Background()
	evaluator := must(train.NewEvaluator(m, train.EvaluatorOptions{}))
	defer evaluator.Close()
	rows := must(evaluator.EvaluateRows(ctx, nil, data.New(length, []data.Sample{chosen, rejected})))
	margins := map[int]float64{1: rows[1].Loss - rows[0].Loss} // by the pair's line

	const beta = 0.5
	dpo := func(samples []data.Sample) lossgraph.SampleLoss {
		return func(logProbs []float64) (loss float64, slopes []float64) {
			n := float64(len(samples) / 2)
			for i := 0; i < len(samples); i += 2 {
				margin := beta * (logProbs[i] - logProbs[i+1] - margins[samples[i].Origin.Line])
				loss += math.Log1p(math.Exp(-margin)) / n
				slope := -beta / (1 + math.Exp(margin)) / n
				slopes = append(slopes, slope, -slope)
			}
			return loss, slopes
		}
	}
	t := must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, pairs, train.Options{
		Schedule: train.Schedule{Peak: 0.01, Steps: 30}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1,
		Loss: train.Loss{Name: "dpo, beta 0.5", Of: dpo},
	}))
	defer t.Close()
	check(t.Run(ctx, train.RunOptions{}))
	fmt.Printf("%.3f, then less: %t\n", t.History[0].Loss, t.History[29].Loss < 0.4)
	// Output: 0.693, then less: true
}

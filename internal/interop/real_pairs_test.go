//go:build interop

package interop

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/preference"
	"github.com/goggml/ggml/llm/train"
)

// A real model learns pairs by DPO as with TRL's trainer: each loss in F32 is within 1e-3. The log has the time of both,
// each with one thread; TRL computes the reference in each step, and we before the first.
func TestInteropRealPairs(t *testing.T) {
	needPEFT(t)
	m := llmtest.Dequantised(t, loadReal(t))
	loadTrained(t, m)
	const steps, batch, beta, rate = 4, 4, 0.1, 3e-4
	folder := filepath.Join(t.TempDir(), "adapter")
	ask[any](t, "create", arguments{"Adapter": folder, "Seed": 1, "Type": "float32", "Arguments": arguments{
		"r": 8, "lora_alpha": 8, "target_modules": []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	}})
	rows := realPairs(t, realSamples(t, m, batch, 72))
	d := need.Value(data.NewRows(144, rows))(t)
	a := need.Value(lora.Load(folder, m))(t)
	defer a.Close()

	start := time.Now()
	e := need.Value(train.NewEvaluator(m, train.EvaluatorOptions{Threads: 1}))(t)
	defer e.Close()
	var reference preference.Reference
	need.Value(reference.Add(t.Context(), d, preference.ReferenceOptions{Evaluator: e, Adapters: a.WithScale(1)}))(t)
	ofReference := time.Since(start) / steps
	o := preference.Options{Terms: []preference.Term{{Name: "dpo"}}, Beta: beta}
	trainer := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, d, train.Options{
		Schedule: train.Schedule{Shape: train.Constant, Peak: rate, Floor: rate, Steps: steps}, AdamW: train.AdamW{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Clip: 1},
		Batch: batch, Accumulate: 1, Threads: 1, Loss: need.Value(preference.New(o, &reference))(t),
	}))(t)
	defer trainer.Close()

	order := data.Shuffler{N: d.Len()}
	var ours, theirs []time.Duration
	var batches [][]arguments
	var losses []float64
	for step := range steps {
		var examples []arguments
		for i := range batch {
			examples = append(examples, example(rows[order.At(step*batch+i)]))
		}
		batches = append(batches, examples)
		start := time.Now()
		losses = append(losses, need.Value(trainer.Step(t.Context()))(t).Loss)
		ours = append(ours, time.Since(start)+ofReference)
	}
	type figures struct{ Loss, Seconds float64 }
	for i, f := range ask[[]figures](t, "prefer", arguments{
		"Adapter": folder, "Trainer": "DPO", "Settings": arguments{"beta": beta, "loss_type": []string{"sigmoid"}}, "Batches": batches,
		"Peak": rate, "Beta1": 0.9, "Beta2": 0.99, "Epsilon": 1e-8, "Clip": 1,
	}) {
		require.InDelta(t, f.Loss, losses[i], 1e-3, "step %d", i+1)
		theirs = append(theirs, time.Duration(f.Seconds*float64(time.Second)))
	}
	require.Len(t, theirs, steps)
	slices.Sort(ours)
	slices.Sort(theirs)
	t.Logf("loss from %.4f to %.4f; a step of %d pairs takes %.3v, with TRL %.3v", losses[0], losses[steps-1], batch, ours[steps/2].Seconds(), theirs[steps/2].Seconds())
	require.Less(t, losses[steps-1], losses[0]-0.1, "there must be something to learn")
}

// realPairs returns a pair for each conversation of one answer: its own, and as the worse one the answer of another.
func realPairs(t *testing.T, d *data.Dataset) (rows []data.Row) {
	for i := range d.Len() {
		own, other := need.Value(d.Row(i))(t)[0], need.Value(d.Row((i + 1) % d.Len()))(t)[0]
		at := slices.IndexFunc(own.LossWeights, func(w float32) bool { return w > 0 })
		from := slices.IndexFunc(other.LossWeights, func(w float32) bool { return w > 0 })
		worse := data.Sample{Tokens: slices.Concat(own.Tokens[:at+1], other.Tokens[from+1:]), Label: data.Undesirable}
		worse.LossWeights = slices.Concat(own.LossWeights[:at], other.LossWeights[from:])
		own.Label = data.Desirable
		rows = append(rows, data.Row{own, worse})
	}
	return rows
}

//go:build interop

package interop

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/preference"
	"github.com/goggml/ggml/llm/train"
)

// preferenceRows returns rows of pairs, or of labelled answers with mismatched ones, as TRL makes them: the answer of the
// row before in the batch. The better answers follow a rule.
func preferenceRows(n, batch, prompt, vocab int, labelled bool) (rows []data.Row) {
	answer := func(i, start int, follows bool) (tokens []int32) {
		noise := llmtest.RandomTokens(uint64(1000+i), 4+i%5, vocab)
		token := int32(start)
		for _, random := range noise {
			if token = (token*5 + 3) % 32; !follows {
				token = random
			}
			tokens = append(tokens, token)
		}
		return tokens
	}
	sample := func(prompt, answer []int32, label data.Label) data.Sample {
		s := data.Sample{Tokens: append(prompt[:len(prompt):len(prompt)], answer...), Label: label}
		s.LossWeights = make([]float32, len(s.Tokens)-1)
		for i := range answer {
			s.LossWeights[len(prompt)-1+i] = 1
		}
		return s
	}
	var prompts, answers [][]int32
	for i := range n {
		p := llmtest.RandomTokens(uint64(i), prompt+i%3*min(1, prompt-1), vocab)
		last := int(p[len(p)-1])
		prompts = append(prompts, p)
		if !labelled {
			rows = append(rows, data.Row{sample(p, answer(2*i, last, true), data.Desirable), sample(p, answer(2*i+1, last, false), data.Undesirable)})
			continue
		}
		answers = append(answers, answer(i, last, i%2 == 0))
	}
	for i := range answers {
		first := i / batch * batch
		other := answers[first+(i-first+batch-1)%batch]
		rows = append(rows, data.Row{sample(prompts[i], answers[i], []data.Label{data.Desirable, data.Undesirable}[i%2]), sample(prompts[i], other, data.Mismatched)})
	}
	return rows
}

// example returns a row as TRL's collators read it.
func example(row data.Row) arguments {
	split := func(s data.Sample) (prompt, answer []int32) {
		at := 0
		for s.LossWeights[at] == 0 {
			at++
		}
		return s.Tokens[:at+1], s.Tokens[at+1:]
	}
	prompt, first := split(row[0])
	_, second := split(row[1])
	if row[1].Label == data.Mismatched {
		return arguments{"prompt_ids": prompt, "completion_ids": first, "KL_completion_ids": second, "label": row[0].Label == data.Desirable}
	}
	return arguments{"prompt_ids": prompt, "chosen_ids": first, "rejected_ids": second}
}

// 60 losses and rewards of TRL's trainers and ours, of the same pairs in the same order, from the same first adapter,
// which is the reference, differ by at most 1e-3. TRL's rewards of ipo are not per token; ORPO's cross-entropy counts the
// prompt, which has one token here.
func TestInteropPEFTPreferences(t *testing.T) {
	needPEFT(t)
	const steps, batch = 60, 4
	for _, test := range []struct {
		name, trainer string
		options       preference.Options
		settings      arguments
		prompt        int
	}{
		{"dpo", "DPO", preference.Options{Beta: 0.5}, arguments{"beta": 0.5, "loss_type": []string{"sigmoid"}}, 6},
		{"hinge", "DPO", preference.Options{Beta: 0.3}, arguments{"beta": 0.3, "loss_type": []string{"hinge"}}, 6},
		{"ipo", "DPO", preference.Options{Beta: 0.4}, arguments{"beta": 0.4, "loss_type": []string{"ipo"}}, 6},
		{"apo-zero", "DPO", preference.Options{}, arguments{"beta": 0.1, "loss_type": []string{"apo_zero"}}, 6},
		{"dpo, sft", "DPO", preference.Options{Terms: []preference.Term{{Name: "dpo"}, {Name: "sft", Weight: 0.3}}}, arguments{"beta": 0.1, "loss_type": []string{"sigmoid", "sft"}, "loss_weights": []float64{1, 0.3}}, 6},
		{"kto", "KTO", preference.Options{Beta: 0.4, DesirableWeight: 1.2, UndesirableWeight: 0.7}, arguments{"beta": 0.4, "desirable_weight": 1.2, "undesirable_weight": 0.7}, 6},
		{"apo-zero-unpaired", "KTO", preference.Options{Beta: 0.4}, arguments{"beta": 0.4, "loss_type": "apo_zero_unpaired"}, 6},
		{"simpo", "CPO", preference.Options{Beta: 2, Gamma: 0.5, Smoothing: 0.1}, arguments{"beta": 2, "simpo_gamma": 0.5, "label_smoothing": 0.1, "loss_type": "simpo", "cpo_alpha": 0}, 6},
		{"orpo", "ORPO", preference.Options{Beta: 0.3}, arguments{"beta": 0.3}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := peftModels()["llama"].load(t)
			folder := filepath.Join(t.TempDir(), "adapter")
			ask[any](t, "create", arguments{"Adapter": folder, "Seed": 1, "Type": "float32", "Arguments": arguments{
				"r": 8, "lora_alpha": 16, "target_modules": []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
			}})
			if test.options.Terms == nil {
				test.options.Terms = []preference.Term{{Name: test.name}}
			}
			rows := preferenceRows(steps*batch, batch, test.prompt, m.Config().Vocab, test.trainer == "KTO")
			d := need.Value(data.NewRows(64, rows))(t)
			a := need.Value(lora.Load(folder, m))(t)
			defer a.Close()
			e := need.Value(train.NewEvaluator(m, train.EvaluatorOptions{Threads: 1}))(t)
			var reference preference.Reference
			need.Value(reference.Add(t.Context(), d, preference.ReferenceOptions{Evaluator: e, Adapters: a.WithScale(1)}))(t)
			require.NoError(t, e.Close())
			const peak, beta1, beta2, epsilon, clip = 1e-3, 0.9, 0.99, 1e-8, 1
			trainer := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, d, train.Options{
				Schedule: train.Schedule{Shape: train.Constant, Peak: peak, Floor: peak, Steps: steps}, AdamW: train.AdamW{Beta1: beta1, Beta2: beta2, Epsilon: epsilon, Clip: clip},
				Batch: batch, Accumulate: 1, Threads: 1, Loss: need.Value(preference.New(test.options, &reference))(t),
			}))(t)
			defer trainer.Close()
			order := data.Shuffler{N: d.Len()}
			var batches [][]arguments
			for step := range steps {
				var examples []arguments
				for i := range batch {
					examples = append(examples, example(rows[order.At(step*batch+i)]))
				}
				batches = append(batches, examples)
			}
			type figures struct{ Loss, Chosen, Rejected, KL *float64 }
			theirs := ask[[]figures](t, "prefer", arguments{
				"Adapter": folder, "Trainer": test.trainer, "Settings": test.settings, "Batches": batches,
				"Peak": peak, "Beta1": beta1, "Beta2": beta2, "Epsilon": epsilon, "Clip": clip,
			})
			require.Len(t, theirs, steps)
			worst, compared := 0.0, 0
			var first, last float64
			for i, want := range theirs {
				got := need.Value(trainer.Step(t.Context()))(t)
				close := func(what string, want *float64, got float64) {
					if want == nil {
						return
					}
					compared++
					worst = max(worst, math.Abs(got-*want))
					require.InDelta(t, *want, got, 1e-3*max(1, math.Abs(*want)), fmt.Sprintf("%s of step %d", what, i+1))
				}
				close("loss", want.Loss, got.Loss)
				if test.name != "ipo" {
					close("chosen reward", want.Chosen, got.Rewards.Chosen)
					close("rejected reward", want.Rejected, got.Rewards.Rejected)
				}
				if test.name == "kto" {
					close("KL", want.KL, got.Rewards.KL)
				}
				if i == 0 {
					first = got.Loss
				}
				last = got.Loss
			}
			t.Logf("%s: %d figures, at most %.2g apart; loss from %.4f to %.4f", test.name, compared, worst, first, last)
			require.GreaterOrEqual(t, compared, steps)
			require.Less(t, last, first, "there must be something to learn")
		})
	}
}

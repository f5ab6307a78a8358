package train_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/preference"
	"github.com/goggml/ggml/llm/train"
)

const pairBeta = 0.1 // scripts/bench-peft.py has it too

// Compares DPO with TRL on the CPU, and with cross-entropy of the same sequences; scripts/bench-peft -page pairs runs it.
// Steps of all are taken in turn. Both programs know the reference before the first step.
func BenchmarkBesideTRL(b *testing.B) {
	python := os.Getenv("GOGGML_PEFT")
	if python == "" {
		b.Skip("there is no PyTorch and TRL: run scripts/bench-peft")
	}
	small := peftRun{Length: 192, Prompt: 128, Batch: 4, Steps: 24, Rate: 1e-3}
	if testing.Short() {
		small.Steps = 4
	}
	besideTRL(b, python, benchmodel.Small(), small)
	if !testing.Short() {
		besideTRL(b, python, benchmodel.Medium(), peftRun{Length: 192, Prompt: 128, Batch: 2, Steps: 8, Rate: 2e-4})
	}
}

func besideTRL(b *testing.B, python string, c arch.Config, r peftRun) {
	b.Run("model="+c.Name, func(b *testing.B) {
		r.fill(b, c)
		var err error
		r.Tensors, _, err = writePEFT.Run(r)
		require.NoError(b, err)
		single := r
		r.Prefer = true
		programs := []*peftProgram{
			startPEFT(b, python, &r, "F32", "float32"),
			startPEFT(b, python, &r, "BF16", "bfloat16"),
			startLikePEFT(b, r),
			startLikePEFT(b, single),
		}
		losses := []string{"DPO", "DPO", "DPO", "cross-entropy"}
		turns := testutil.InTurn(r.Steps-1, 0, programs[0].step(b), programs[1].step(b), programs[2].step(b), programs[3].step(b))
		faster := 0
		if turns.Median(1) < turns.Median(0) {
			faster = 1
		}
		for i, p := range programs {
			if p.name == "PEFT" {
				p.name = "TRL"
			}
			b.Run(fmt.Sprintf("loss=%s/program=%s/weights=%s", losses[i], p.name, p.weights), func(b *testing.B) {
				b.ReportMetric(0, "ns/op")
				p.report(b, &r, turns.Median(i))
				b.ReportMetric(turns.Ratio(faster, i), "×TRL")
				b.ReportMetric(turns.Ratio(3, i), "×SFT")
				b.ReportMetric(float64(p.process.Peak)/float64(programs[faster].process.Peak), "memory×TRL")
			})
		}
	})
}

// sequences returns the number of sequences of a step.
func (r *peftRun) sequences() int {
	if r.Prompt > 0 {
		return 2 * r.Batch
	}
	return r.Batch
}

// rowsOfStep returns the number of rows of a step of this package: pairs or sequences, see task.
func (r *peftRun) rowsOfStep() int {
	if r.Prefer {
		return r.Batch
	}
	return r.sequences()
}

// trained returns the number of tokens that a step trains.
func (r *peftRun) trained() int {
	perSequence := r.Length
	if r.Prompt > 0 {
		perSequence -= r.Prompt - 1
	}
	return r.sequences() * perSequence
}

// rows returns a pair or a sample a row.
func (r *peftRun) rows() (rows []data.Row) {
	samples := r.samples()
	if r.Prompt == 0 {
		for _, s := range samples {
			rows = append(rows, data.Row{s})
		}
		return rows
	}
	for i := range samples {
		samples[i].LossWeights = slices.Concat(make([]float32, r.Prompt-1), slices.Repeat([]float32{1}, r.Length-r.Prompt+1))
	}
	for pair := range slices.Chunk(samples, 2) {
		copy(pair[1].Tokens, pair[0].Tokens[:r.Prompt])
		rows = append(rows, pair)
	}
	return rows
}

// task returns the rows that this package trains, and their loss.
func (r *peftRun) task(m *model.Model) (*data.Dataset, train.Loss, error) {
	rows := r.rows()
	if !r.Prefer {
		return data.New(r.Length, slices.Concat(rows...)), train.Loss{}, nil
	}
	d, err := data.NewRows(2*r.Length, rows)
	if err != nil {
		return nil, train.Loss{}, err
	}
	e, err := train.NewEvaluator(m, train.EvaluatorOptions{Threads: r.Threads, ComputeType: r.ComputeType})
	if err != nil {
		return nil, train.Loss{}, err
	}
	defer e.Close()
	var reference preference.Reference
	if _, err := reference.Add(context.Background(), d, preference.ReferenceOptions{Evaluator: e}); err != nil {
		return nil, train.Loss{}, err
	}
	loss, err := preference.New(preference.Options{Terms: []preference.Term{{Name: "dpo"}}, Beta: pairBeta}, &reference)
	return d, loss, err
}

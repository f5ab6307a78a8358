package train

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
)

// A step is one of the optimiser, planned whole before anything of it is computed: its results do
// not depend, but for rounding, on how its rows are divided into batches.
type step struct {
	// rows are in the order in which they are divided, similar ones together. The index of a row
	// is its id, by which it draws noise.
	rows    []data.Row
	weight  float64 // of all tokens, by which the loss is divided
	metrics StepMetrics
}

// planStep plans the next step.
func (t *Trainer) planStep() (*step, error) {
	rows, err := t.nextRows()
	if err != nil {
		return nil, err
	}
	s := &step{rows: rows, metrics: StepMetrics{
		Step: t.step + 1, LearningRate: t.schedule.At(t.step + 1),
		Epoch: float64(t.position+len(rows)) / float64(t.data.Len()),
	}}
	if len(rows) == 0 {
		return nil, fmt.Errorf("step %d: all rows have been seen as often as Epochs says", s.metrics.Step)
	}
	slices.SortStableFunc(s.rows, func(a, b data.Row) int { return cmp.Compare(b.Predicted(), a.Predicted()) })
	for _, row := range s.rows {
		s.metrics.RowTokens += row.Predicted()
		for _, sample := range row {
			for i := range sample.Predicted() {
				if w := lossWeight(sample, i); w != 0 {
					s.weight += float64(w)
					s.metrics.Tokens++
				}
			}
		}
	}
	if s.weight == 0 {
		return nil, fmt.Errorf("step %d: no token of its rows is trained; check the data and its masks", s.metrics.Step)
	}
	return s, nil
}

// nextRows are those of the next step: fewer than usual at the end of the last epoch.
func (t *Trainer) nextRows() ([]data.Row, error) {
	n := t.perStep()
	if e := t.options.Epochs; e > 0 {
		n = int(min(float64(n), max(0, float64(e)*float64(t.data.Len())-float64(t.position))))
	}
	return readRows(t.data, n, func(i int) int { return t.row(t.position + i) })
}

// batches lays the rows of a step out.
func (t *Trainer) batches(s *step) []model.Batch {
	list := t.loss.batches(s.rows)
	for n := range list {
		b := &list[n]
		b.Noise = model.Noise{Seed: t.options.Seed, Step: s.metrics.Step}
		for i := range t.loss.options.Batch {
			b.Noise.Rows = append(b.Noise.Rows, n*t.loss.options.Batch+i)
		}
		for i, w := range b.LossWeights {
			b.LossWeights[i] = float32(float64(w) / s.weight)
		}
	}
	return list
}

package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
)

// A step is one of the optimiser, planned whole before anything of it is computed: its results do
// not depend, but for rounding, on how its rows are divided into batches, and among processes.
type step struct {
	// rows are in the order in which they are divided, similar ones together. The index of a row
	// is its id, by which it draws noise.
	rows    []data.Row
	weight  float64 // of all tokens, by which the loss is divided
	largest float64 // weight of a token
	scale   float64 // of the loss whose gradients are computed, a power of two
	metrics StepMetrics
	taken   bool // the parameters have been moved: all was finite
}

// planStep plans the next step.
func (t *Trainer) planStep(ctx context.Context) (*step, error) {
	if err := t.agreeOnScale(ctx); err != nil {
		return nil, err
	}
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
					s.largest = max(s.largest, float64(w))
					s.metrics.Tokens++
				}
			}
		}
	}
	if s.weight == 0 {
		return nil, fmt.Errorf("step %d: no token of its rows is trained; check the data and its masks", s.metrics.Step)
	}
	s.scale = t.lossScale(s.weight, s.largest)
	return s, nil
}

// nextRows returns the rows of the next step: fewer than usual at the end of the last epoch.
func (t *Trainer) nextRows() ([]data.Row, error) {
	n := t.perStep()
	if e := t.options.Epochs; e > 0 {
		n = int(min(float64(n), max(0, float64(e)*float64(t.data.Len())-float64(t.position))))
	}
	return readRows(t.data, n, func(i int) int { return t.row(t.position + i) })
}

// batches lays out the share of a process in the rows of a step: every n-th of them, of n
// processes.
func (t *Trainer) batches(s *step) []lossgraph.Batch {
	rank, size, count := t.group.Rank(), t.group.Size(), t.loss.options.Batch
	var share []data.Row
	for i := rank; i < len(s.rows); i += size {
		share = append(share, s.rows[i])
	}
	list := t.loss.batches(share)
	for n := range list {
		b := &list[n]
		b.Noise = lossgraph.Noise{Seed: t.options.Seed, Step: s.metrics.Step}
		for i := range count {
			b.Noise.Rows = append(b.Noise.Rows, rank+(n*count+i)*size)
		}
		for i, w := range b.LossWeights {
			b.LossWeights[i] = float32(float64(w) / s.weight * s.scale)
		}
	}
	return list
}

// compute computes the next step. One process moves the parameters in the submission of the last
// batch; several add up their losses and gradients before. An error leaves the parameters as they
// are.
func (t *Trainer) compute(ctx context.Context) (*step, error) {
	s, err := t.planStep(ctx)
	if t.group.Size() > 1 {
		err = t.computeShared(ctx, s, err)
	} else if err == nil {
		err = t.accumulate(ctx, s, t.updates()...)
	}
	if err != nil {
		return nil, err
	}
	if m := s.metrics; !s.taken || math.IsNaN(m.Loss) || math.IsInf(m.Loss, 0) {
		return nil, t.diverged(ctx, fmt.Sprintf("step %d: the loss is %v, the norm of the gradient %v", m.Step, m.Loss, m.GradNorm), t.options.ComputeType)
	}
	return s, nil
}

// updates are the graphs that move the parameters, and what is made of these.
func (t *Trainer) updates() []device.Work {
	return append([]device.Work{t.opt.update}, t.copies.Updates()...)
}

// accumulate adds up losses and gradients of the batches of a step; the last one takes the updates,
// where there are some, into its submission, and lets a group begin to add up gradients.
func (t *Trainer) accumulate(ctx context.Context, s *step, updates ...device.Work) error {
	batches := t.batches(s)
	for i, b := range batches {
		var then []device.Work
		if i == len(batches)-1 {
			t.reduction.begin(ctx)
			if then = updates; then != nil {
				if err := t.opt.prepare(s, b.LossWeights); err != nil {
					return err
				}
			}
		}
		if err := t.loss.Submit(ctx, b, then...); err != nil {
			return err
		}
		if err := t.opt.read(s, b.LossWeights); err != nil {
			return err
		}
		t.computed += len(b.Tokens)
		t.laidOut += len(b.Noise.Rows) * t.data.Length
	}
	return nil
}

// computeShared computes the share of a process in a step that it has planned, or failed to, and
// with the others the step. They agree on all that it is while the gradients are added up: each of their
// calls takes as long as the network is late.
func (t *Trainer) computeShared(ctx context.Context, s *step, err error) error {
	if err == nil {
		err = t.accumulate(ctx, s)
	}
	wait := t.reduction.end(ctx)
	var own StepMetrics
	if s != nil {
		own = s.metrics
	}
	loss := []float64{own.Loss}
	err = agreeOn(ctx, t.group, err, loss, append(t.shared(),
		shared{name: "the number of tokens of the step", value: own.RowTokens}, shared{name: "the learning rate", value: own.LearningRate})...)
	waitErr := wait()
	if err != nil {
		return err
	}
	s.metrics.Loss = loss[0]
	// From here on it cannot be interrupted: the others go on.
	ctx = context.WithoutCancel(ctx)
	if waitErr != nil {
		err = groupError(waitErr)
	} else {
		err = t.opt.prepare(s, nil)
	}
	if err == nil {
		updates := t.updates()
		err = updates[0].Workspace.ComputeThen(ctx, updates[0].Graph, updates[1:]...)
	}
	if err == nil {
		err = t.opt.read(s, nil)
	}
	return agree(ctx, t.group, err, nil)
}

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
	"github.com/goggml/ggml/llm/parallel"
)

// A step is an optimiser step, planned completely before it is computed: its result depends only by
// rounding on how its rows are divided into batches and among processes.
type step struct {
	// rows are sorted by descending length, so that batches have similar rows. The index of a row is its
	// ID for drawing noise.
	rows     []data.Row
	drawn    int             // number of rows of the data; some may have no gradient
	weight   float64         // divisor of the loss: Σ loss weights of all tokens, or 1 for Options.Loss
	largest  float64         // largest loss weight of a token
	scale    float64         // loss scale for computing gradients, a power of two
	bySample *sampleSlopes   // of Options.Loss; nil for cross-entropy
	batch    lossgraph.Batch // that is being computed
	isLast   bool            // it is the last one
	metrics  StepMetrics
	// crossEntropy is the mean per token beside a teacher.
	crossEntropy float64
	taken        bool // all values were finite, and the parameters were updated
}

// planStep plans the next step.
func (t *Trainer) planStep(ctx context.Context) (*step, error) {
	if err := t.agreeOnScale(ctx); err != nil {
		return nil, err
	}
	rows, err := t.nextRows()
	if err == nil && len(rows) > 0 {
		rows, err = t.options.Loss.Teacher.replaced(ctx, t.step+1, t.shape.longestRow, rows)
	}
	if err != nil {
		return nil, err
	}
	s := &step{rows: rows, drawn: len(rows), metrics: StepMetrics{
		Step: t.step + 1, LearningRate: t.schedule.At(t.step + 1),
		Epoch: float64(t.position+len(rows)) / float64(t.data.Len()),
	}}
	if len(rows) == 0 {
		return nil, fmt.Errorf("step %d: the run has completed its Epochs", s.metrics.Step)
	}
	slices.SortStableFunc(s.rows, func(a, b data.Row) int { return cmp.Compare(t.shape.tokensOf(b), t.shape.tokensOf(a)) })
	for _, row := range s.rows {
		s.metrics.RowTokens += t.shape.tokensOf(row)
		for _, sample := range row {
			for i := range sample.Predicted() {
				if w := lossWeight(sample, i); w != 0 && sample.Label != data.Mismatched {
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
	if s.scale = 1; t.options.Loss.isOfSamples() {
		s.weight = 1
		return s, nil
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

// batches returns the batches of this process's share of the rows: every n-th row, for n processes.
func (t *Trainer) batches(s *step) ([]lossgraph.Batch, error) {
	rank, size, count := t.group.Rank(), t.group.Size(), t.loss.options.Batch
	var share []data.Row
	for i := rank; i < len(s.rows); i += size {
		share = append(share, s.rows[i])
	}
	list, err := t.loss.batches(share)
	if err != nil {
		return nil, err
	}
	for n := range list {
		b := &list[n]
		b.Noise = lossgraph.Noise{Seed: t.options.Seed, Step: s.metrics.Step}
		for i := range count {
			b.Noise.Rows = append(b.Noise.Rows, rank+(n*count+i)*size)
		}
		for i, w := range b.LossWeights {
			b.LossWeights[i] = float32(float64(w) / s.weight * s.scale)
		}
		if s.bySample != nil && s.bySample.slopes != nil {
			var err error
			if *b, err = s.bySample.weigh(s, *b); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// compute computes the next step. A single process updates the parameters in the submission of the
// last batch; a group first sums its losses and gradients. An error leaves the parameters unchanged.
func (t *Trainer) compute(ctx context.Context) (*step, error) {
	s, err := t.planStep(ctx)
	if t.options.Loss.isOfSamples() {
		if err := t.findSlopes(ctx, s, err); err != nil {
			return nil, err
		}
	}
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
	if s.metrics.Loss = s.loss(); s.bySample != nil {
		t.judge(s)
	}
	if teacher := t.options.Loss.Teacher; teacher != nil {
		s.metrics.Distilled = &Distilled{Divergence: s.metrics.Loss - float64(teacher.CrossEntropy)*s.crossEntropy, CrossEntropy: s.crossEntropy}
	}
	return s, nil
}

// loss returns the value of Options.Loss. The sum of a step by sample is weighted by slopes instead.
func (s *step) loss() float64 {
	if s.bySample != nil {
		return s.bySample.loss
	}
	return s.metrics.Loss
}

// updates returns the graphs that update the parameters, and then the copies derived from them.
func (t *Trainer) updates() []device.Work {
	return append([]device.Work{t.opt.update}, t.copies.Updates()...)
}

// accumulate computes the batches of a step and sums their losses and gradients. The submission of the
// last batch includes the updates, if any; in a group it also begins the all-reduce of gradients.
func (t *Trainer) accumulate(ctx context.Context, s *step, updates ...device.Work) error {
	batches, err := t.batches(s)
	if err != nil {
		return err
	}
	t.computing = s
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
		s.batch, s.isLast = b, i == len(batches)-1
		if err := t.loss.Submit(ctx, b, then...); err != nil {
			if s.bySample != nil && s.bySample.err != nil {
				return t.lossError(ctx, s, s.bySample.err)
			}
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

// computeShared computes this process's share of a step, even if planning failed with err, and then
// the step with the group. Ranks compare the step's properties while gradients are being summed,
// because each group call costs a network round trip.
func (t *Trainer) computeShared(ctx context.Context, s *step, err error) error {
	if err == nil {
		err = t.accumulate(ctx, s)
	}
	wait := t.reduction.end(ctx)
	var own step
	if s != nil {
		own = *s
	}
	sums := []float64{own.metrics.Loss, own.crossEntropy}
	err = parallel.AgreeOn(ctx, t.group, err, sums, append(t.shared(),
		parallel.Shared{Name: "the number of tokens of the step", Value: own.metrics.RowTokens}, parallel.Shared{Name: "the learning rate", Value: own.metrics.LearningRate})...)
	waitErr := wait()
	if err != nil {
		return err
	}
	s.metrics.Loss, s.crossEntropy = sums[0], sums[1]
	// The rest is not cancellable, because the other ranks go on.
	ctx = context.WithoutCancel(ctx)
	if waitErr != nil {
		err = parallel.WrapError(waitErr)
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
	return parallel.Agree(ctx, t.group, err, nil)
}

package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/parallel"
)

// A Loss is a loss of steps other than cross-entropy, such as a preference between two answers. A step
// then computes its batches twice: first the log-probabilities, without gradients, and then the
// gradients, by the slopes of the loss. Evaluations measure cross-entropy, unless the loss has Rewards.
type Loss struct {
	// Name identifies the loss with its settings, such as "dpo, beta 0.1". A checkpoint of a run with
	// another name is of another run.
	Name string
	// Of returns the loss of a step as a function of the log-probabilities of its samples, which are given
	// in this order: Σ weight · log p(target) of each, with the sample's own weights. The samples of a row
	// follow each other, so a row of two samples keeps a pair together ([data.NewRows]); Origin says which
	// records they are. It is called once per step, and must return the same for the same samples: each
	// process of a group calls it with all samples of the step.
	Of func(samples []data.Sample) lossgraph.SampleLoss
	// Rewards judges the samples of a step, and of held-out data, given as to Of; nil for losses without
	// preferences. With it, evaluations measure this loss.
	Rewards func(samples []data.Sample, logProbs []float64) Rewards
	// Teacher, instead of Of, makes the loss of each token the divergence from a teacher, in evaluations too. A step then
	// computes its batches once.
	Teacher *Teacher
}

// isOfSamples reports whether the weights of tokens follow from the log-probabilities of samples.
func (l *Loss) isOfSamples() bool { return l.Of != nil }

func (o *Options) validateLoss() error {
	switch {
	case o.Loss.Of != nil && o.Loss.Teacher != nil:
		return errors.New("the loss has a function of samples and a teacher; leave one of them out")
	case (o.Loss.Name == "") != (o.Loss.Of == nil && o.Loss.Teacher == nil):
		return errors.New("the loss has a name and no function, or a function and no name; checkpoints need the name")
	case o.Loss.Rewards != nil && o.Loss.Of == nil:
		return errors.New("the loss has rewards and no function of samples, which they judge")
	case o.Loss.Of != nil && (o.Dropout != 0 || o.NEFTune != 0):
		return fmt.Errorf("the loss %q depends on log-probabilities, which are computed without noise; set Dropout and NEFTune to 0", o.Loss.Name)
	}
	return nil
}

// A sampleSlopes is the value of a [Loss] in a step, with its slope for each sample.
type sampleSlopes struct {
	loss    float64
	slopes  []float64
	numbers [][]int // of the samples of each row
}

// findSlopes computes the loss of a step and its slopes, even if planning failed with err: in a group,
// the log-probabilities of all processes are needed.
func (t *Trainer) findSlopes(ctx context.Context, s *step, err error) error {
	var found sampleSlopes
	var samples []data.Sample
	if err == nil {
		for _, row := range s.rows {
			var numbers []int
			for range row {
				numbers = append(numbers, len(samples)+len(numbers))
			}
			found.numbers, samples = append(found.numbers, numbers), append(samples, row...)
		}
	}
	if err := parallel.AgreeOn(ctx, t.group, err, nil, append(t.shared(), parallel.Shared{Name: "the number of samples of the step", Value: len(samples)})...); err != nil {
		return err
	}
	logProbs := make([]float64, len(samples))
	if err := parallel.Agree(ctx, t.group, t.addLogProbs(ctx, s, found.numbers, logProbs), logProbs); err != nil {
		return err
	}
	var lossErr error
	if found.loss, found.slopes, lossErr = t.options.Loss.compute(samples, logProbs); lossErr != nil {
		return lossErr
	}
	if judge := t.options.Loss.Rewards; judge != nil {
		rewards := judge(samples, logProbs)
		s.metrics.Rewards = &rewards
	}
	if !finite(found.loss) || !finite(found.slopes...) {
		return t.diverged(ctx, fmt.Sprintf("step %d: the loss is %v", s.metrics.Step, found.loss), t.options.ComputeType)
	}
	largest := 0.0
	for i, sample := range samples {
		largest = max(largest, math.Abs(found.slopes[i])*largestWeight(sample))
	}
	s.bySample, s.scale = &found, t.lossScale(1, largest)
	t.skipIdle(s)
	return nil
}

// skipIdle leaves out samples without a gradient, whose slope is 0, such as the mismatched answers of kto. If all are,
// the step computes them.
func (t *Trainer) skipIdle(s *step) {
	var rows []data.Row
	var numbers [][]int
	for i, row := range s.rows {
		var kept data.Row
		var of []int
		for j, n := range s.bySample.numbers[i] {
			if s.bySample.slopes[n] != 0 {
				kept, of = append(kept, row[j]), append(of, n)
			}
		}
		if kept != nil {
			rows, numbers = append(rows, kept), append(numbers, of)
		}
	}
	if len(rows) == 0 {
		return
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.shape.tokensOf(rows[b]), t.shape.tokensOf(rows[a])) })
	s.rows, s.bySample.numbers = nil, nil
	for _, i := range order {
		s.rows, s.bySample.numbers = append(s.rows, rows[i]), append(s.bySample.numbers, numbers[i])
	}
}

// compute returns the loss of samples and its slopes.
func (l *Loss) compute(samples []data.Sample, logProbs []float64) (loss float64, slopes []float64, err error) {
	of := l.Of(samples)
	if of == nil {
		return 0, nil, fmt.Errorf("the loss %q returns no function of the log-probabilities: it is nil", l.Name)
	}
	if loss, slopes = of(logProbs); len(slopes) != len(samples) {
		return 0, nil, fmt.Errorf("the loss %q returns %d slopes for %d samples", l.Name, len(slopes), len(samples))
	}
	return loss, slopes, nil
}

func largestWeight(s data.Sample) (largest float64) {
	for i := range s.Predicted() {
		largest = max(largest, float64(lossWeight(s, i)))
	}
	return largest
}

// addLogProbs adds the log-probabilities of this process's share of a step.
func (t *Trainer) addLogProbs(ctx context.Context, s *step, numbers [][]int, logProbs []float64) error {
	batches, err := t.batches(s)
	if err != nil {
		return err
	}
	for _, b := range batches {
		losses, err := t.scores.Compute(ctx, b)
		if err != nil {
			return err
		}
		sums, err := b.LogProbs(losses)
		if err != nil {
			return err
		}
		for i, number := range s.samplesIn(b, numbers) {
			logProbs[number] += sums[i]
		}
	}
	return nil
}

// samplesIn returns the numbers in the step of a batch's samples, given the numbers of each row's.
func (s *step) samplesIn(b lossgraph.Batch, byRow [][]int) (numbers []int) {
	for _, row := range b.Noise.Rows {
		if row >= len(s.rows) { // an empty row
			continue
		}
		for i, sample := range s.rows[row] {
			if sample.Predicted() > 0 {
				numbers = append(numbers, byRow[row][i])
			}
		}
	}
	return numbers
}

// weigh multiplies the weights of a batch by the slopes of its samples.
func (l *sampleSlopes) weigh(s *step, b lossgraph.Batch) (lossgraph.Batch, error) {
	var slopes []float64
	for _, number := range s.samplesIn(b, l.numbers) {
		slopes = append(slopes, l.slopes[number])
	}
	if slopes == nil { // nothing is predicted
		return b, nil
	}
	return b.WithSlopes(slopes)
}

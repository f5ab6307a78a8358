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

// A sampleSlopes is the value of a [Loss] in a step, with its slope for each sample.
type sampleSlopes struct {
	samples  []data.Sample
	numbers  [][]int   // of the samples of each row
	logProbs []float64 // as far as they are known
	loss     float64
	slopes   []float64 // nil before a pass that finds them
	err      error     // of finding them in the pass of a batch
}

// errNotFinite reports a loss, or a slope, that is not finite.
var errNotFinite = errors.New("the loss is not finite")

// takesOnePass reports whether the options allow the pass of a batch to find the slopes of its samples.
func (o *Options) takesOnePass() bool {
	return o.Loss.isOfSamples() && parallel.OrAlone(o.Group).Size() == 1 && (o.Accumulate == 1 || o.Loss.ByRow) && !o.twoPasses
}

// takesOnePass reports whether steps compute their batches once.
func (t *Trainer) takesOnePass() bool {
	return t.options.takesOnePass() && !t.engine.ScalesLoss() && !lossgraph.TrainsHead(t.m, t.adapters, t.opt.grad)
}

// findSlopes computes the loss of a step and its slopes, unless the passes of its batches do, even if planning failed
// with err: in a group, the log-probabilities of all processes are needed.
func (t *Trainer) findSlopes(ctx context.Context, s *step, err error) error {
	found := &sampleSlopes{}
	if err == nil {
		for _, row := range s.rows {
			var numbers []int
			for range row {
				numbers = append(numbers, len(found.samples)+len(numbers))
			}
			found.numbers, found.samples = append(found.numbers, numbers), append(found.samples, row...)
		}
		found.logProbs, s.bySample = make([]float64, len(found.samples)), found
	}
	if t.scores == nil {
		return err
	}
	if err := parallel.AgreeOn(ctx, t.group, err, nil, append(t.shared(), parallel.Shared{Name: "the number of samples of the step", Value: len(found.samples)})...); err != nil {
		return err
	}
	if err := parallel.Agree(ctx, t.group, t.addLogProbs(ctx, s), found.logProbs); err != nil {
		return err
	}
	loss, slopes, lossErr := t.options.Loss.compute(found.samples, found.logProbs)
	if lossErr == nil && !finite(append(slopes, loss)...) {
		lossErr = errNotFinite
	}
	if found.loss, found.slopes = loss, slopes; lossErr != nil {
		return t.lossError(ctx, s, lossErr)
	}
	largest := 0.0
	for i, sample := range found.samples {
		largest = max(largest, math.Abs(slopes[i])*largestWeight(sample))
	}
	s.scale = t.lossScale(1, largest)
	t.skipIdle(s)
	return nil
}

// lossError returns the error of Options.Loss in a step, with its cause if the loss is not finite.
func (t *Trainer) lossError(ctx context.Context, s *step, err error) error {
	if err != errNotFinite {
		return err
	}
	return t.diverged(ctx, fmt.Sprintf("step %d: the loss is %v", s.metrics.Step, s.bySample.loss), t.options.ComputeType)
}

// slopesInPass returns the slopes of the samples of the batch that is being computed.
func (t *Trainer) slopesInPass(logProbs []float64) ([]float64, error) {
	s := t.computing
	slopes, err := s.bySample.add(&t.options.Loss, s.samplesIn(s.batch, s.bySample.numbers), logProbs, s.isLast)
	s.bySample.err = err
	return slopes, err
}

// add adds the log-probabilities of a batch, whose samples have these numbers, and returns their slopes.
func (f *sampleSlopes) add(l *Loss, numbers []int, logProbs []float64, isLast bool) (own []float64, err error) {
	for i, number := range numbers {
		f.logProbs[number] = logProbs[i]
	}
	loss, slopes, err := l.compute(f.samples, f.logProbs)
	if err != nil {
		return nil, err
	}
	own = make([]float64, len(logProbs)) // 0 if nothing is predicted
	for i, number := range numbers {
		own[i] = slopes[number]
	}
	f.loss = loss
	if !finite(own...) || isLast && !finite(loss) {
		return nil, errNotFinite
	}
	return own, f.check(l, numbers, slopes, isLast)
}

// check compares the slopes of batches with those by all log-probabilities, once these are known.
func (f *sampleSlopes) check(l *Loss, numbers []int, slopes []float64, isLast bool) error {
	if f.slopes == nil {
		f.slopes = slices.Repeat([]float64{math.NaN()}, len(slopes))
	}
	for _, number := range numbers {
		f.slopes[number] = slopes[number]
	}
	for i, slope := range f.slopes {
		if isLast && slope != slopes[i] && !math.IsNaN(slope) {
			return fmt.Errorf("the loss %q is ByRow, but the slope of sample %d depends on other rows: it was %v, and is %v", l.Name, i, slope, slopes[i])
		}
	}
	return nil
}

// judge adds the rewards to the metrics, once the log-probabilities of a step are known.
func (t *Trainer) judge(s *step) {
	if judge := t.options.Loss.Rewards; judge != nil {
		rewards := judge(s.bySample.samples, s.bySample.logProbs)
		s.metrics.Rewards = &rewards
	}
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

func largestWeight(s data.Sample) (largest float64) {
	for i := range s.Predicted() {
		largest = max(largest, float64(lossWeight(s, i)))
	}
	return largest
}

// addLogProbs adds the log-probabilities of this process's share of a step.
func (t *Trainer) addLogProbs(ctx context.Context, s *step) error {
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
		for i, number := range s.samplesIn(b, s.bySample.numbers) {
			s.bySample.logProbs[number] += sums[i]
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

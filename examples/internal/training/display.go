package training

import (
	"fmt"
	"io"
	"math"

	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/llm/train"
)

// A display shows the progress of a run.
type display struct {
	line   *progress.Line
	result Result
	steps  int      // of the whole run
	rate   float64  // tokens per second
	peak   float64  // tokens per second at the machine's measured peak; 0: not shown
	loss   smoothed // of the steps so far
}

func (f *Flags) newDisplay(w io.Writer, t *train.Trainer, result Result) *display {
	d := &display{result: result, steps: t.TotalSteps()}
	for _, m := range t.History { // steps of a resumed run
		d.loss.add(m.Loss)
	}
	d.line = progress.New(w, progress.Options{Total: int64(d.steps), Done: int64(t.Steps()), Unit: "tok", Rate: func() float64 { return d.rate }})
	if t.Done() {
		return d
	}
	if t.Steps() > 0 {
		d.line.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	f.warnOfWarmup(w, d.steps)
	return d
}

// step shows a step.
func (d *display) step(m train.StepMetrics, tokensPerSecond float64) {
	d.rate = tokensPerSecond
	d.loss.add(m.Loss)
	more := []string{fmt.Sprintf("mean %#.4g", d.loss.mean)}
	if r := m.Rewards; r != nil {
		if margin := r.Margin(); !math.IsNaN(margin) {
			more = append(more, fmt.Sprintf("margin %.3g", margin))
		}
		more = append(more, fmt.Sprintf("accuracy %.0f %%", 100*r.Accuracy))
	}
	if d := m.Distilled; d != nil {
		more = append(more, fmt.Sprintf("divergence %.3g", d.Divergence), fmt.Sprintf("cross-entropy %.4g", d.CrossEntropy))
	}
	more = append(more, fmt.Sprintf("grad %.2g", m.GradNorm), fmt.Sprintf("lr %.1e", m.LearningRate))
	if d.result.Note != nil {
		more = append(more, d.result.Note())
	}
	if d.result.Peak != nil {
		was := d.peak
		if d.peak = d.result.Peak(tokensPerSecond); was > 0 && d.peak == 0 {
			d.line.Printf("steps are faster than the measured peak, so the machine was busy when it was measured: shares of the peak are no longer shown")
		}
	}
	if d.peak > 0 {
		more = append(more, fmt.Sprintf("%.0f %% of peak", 100*tokensPerSecond/d.peak))
	}
	d.line.Update(int64(m.Step), fmt.Sprintf("step %d/%d  loss %#.4g", m.Step, d.steps, m.Loss), more...)
}

// evaluation shows an evaluation, with the program's remark.
func (d *display) evaluation(e train.Evaluation) {
	switch r := e.Rewards; {
	case r != nil:
		d.line.Printf("step %d: validation loss %.4f, rewards %.3g chosen and %.3g rejected, margin %.3g, accuracy %.1f %%",
			e.Step, e.Loss, r.Chosen, r.Rejected, r.Margin(), 100*e.Accuracy)
	case e.Distilled != nil:
		d.line.Printf("step %d: validation loss %.4f (divergence from the teacher), cross-entropy %.4f, perplexity %.4g, accuracy %.1f %%",
			e.Step, e.Loss, e.Distilled.CrossEntropy, e.Perplexity(), 100*e.Accuracy)
	default:
		d.line.Printf("step %d: validation loss %.4f, perplexity %.4g, accuracy %.1f %%", e.Step, e.Loss, e.Perplexity(), 100*e.Accuracy)
	}
	if d.result.Evaluated == nil || e.Step == 0 {
		return
	}
	if text := d.result.Evaluated(e.Step); text != "" {
		d.line.Printf("step %d: %s", e.Step, text)
	}
}

// smoothed is an exponential moving average: each value weighs 0.9 of the next. Batches differ; the average
// shows the trend.
type smoothed struct {
	mean float64
	has  bool
}

func (s *smoothed) add(x float64) {
	if !s.has {
		s.mean, s.has = x, true
	}
	s.mean += 0.1 * (x - s.mean)
}

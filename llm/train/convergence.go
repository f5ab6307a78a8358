package train

import (
	"errors"
	"fmt"
	"math"
)

// Convergence ends a run before its last step if further steps gain nothing. The zero value disables
// it. It depends on the history, which checkpoints contain: a run that has ended ends again as soon as
// it is resumed, unless its settings change.
//
// Past, Delta, Epsilon and MaxNoImprovement are settings of ggml's former optimiser.
type Convergence struct {
	// Patience ends the run after that many consecutive evaluations without an improvement (early
	// stopping). An evaluation improves if its loss is at least MinDelta nats below the last improvement or,
	// with [BestByAccuracy], its accuracy as much above.
	Patience int
	MinDelta float64

	// Past ends the run if the loss of a step differs from the loss Past steps earlier by less than the
	// fraction Delta of itself.
	Past  int
	Delta float64
	// Epsilon is like Delta, for the previous step.
	Epsilon float64
	// MaxNoImprovement ends the run after that many consecutive steps without a new lowest loss.
	MaxNoImprovement int
}

func (c Convergence) validate() error {
	for _, setting := range []struct {
		name  string
		value float64
	}{
		{"Patience", float64(c.Patience)}, {"MinDelta", c.MinDelta}, {"Past", float64(c.Past)}, {"Delta", c.Delta},
		{"Epsilon", c.Epsilon}, {"MaxNoImprovement", float64(c.MaxNoImprovement)},
	} {
		if !(setting.value >= 0) || !finite(setting.value) {
			return fmt.Errorf("the convergence has %s %v; it must be finite, and positive, or 0 for none", setting.name, setting.value)
		}
	}
	if c.Past > 0 && c.Delta == 0 {
		return errors.New("the convergence has Past but no Delta: the change of the loss within Past steps below which the run ends")
	}
	return nil
}

// BestBy selects the figure by which evaluations are compared, see [Trainer.Best] and [Convergence].
type BestBy int

const (
	BestByLoss     BestBy = iota // lowest loss
	BestByAccuracy               // highest accuracy; of equal ones, the lowest loss
)

// String returns "loss" or "accuracy".
func (b BestBy) String() string {
	if b == BestByAccuracy {
		return "accuracy"
	}
	return "loss"
}

// improves reports whether an evaluation is better than another, by at least delta. Every loss is better than NaN.
func (b BestBy) improves(e, other Evaluation, delta float64) bool {
	if math.IsNaN(e.Loss) || math.IsNaN(other.Loss) {
		return !math.IsNaN(e.Loss)
	}
	if b == BestByAccuracy && (delta > 0 || e.Accuracy != other.Accuracy) {
		return e.Accuracy > other.Accuracy && e.Accuracy >= other.Accuracy+delta
	}
	return e.Loss < other.Loss && e.Loss <= other.Loss-delta
}

// evaluated returns why the run ends after these evaluations, or "".
func (c Convergence) evaluated(list []Evaluation, by BestBy) string {
	best, since := 0, 0
	for i, e := range list {
		if i == 0 || by.improves(e, list[best], c.MinDelta) {
			best = i
		}
		since = i - best
	}
	if c.Patience == 0 || since < c.Patience {
		return ""
	}
	delta := ""
	if c.MinDelta > 0 {
		delta = fmt.Sprintf(" by %v", c.MinDelta)
	}
	return fmt.Sprintf("the validation %v has not improved%s for %s", by, delta, plural(since, "evaluation"))
}

// trained returns why the run ends after these steps, given the step with the lowest loss, or "".
func (c Convergence) trained(history []StepMetrics, lowest int) string {
	now := len(history) - 1
	unchanged := func(steps int, delta float64) bool {
		return now >= steps && math.Abs(history[now-steps].Loss-history[now].Loss) < delta*math.Abs(history[now].Loss)
	}
	switch {
	case now < 0:
	case c.MaxNoImprovement > 0 && now-lowest >= c.MaxNoImprovement:
		return fmt.Sprintf("the training loss has reached no new low for %s", plural(now-lowest, "step"))
	case c.Past > 0 && unchanged(c.Past, c.Delta):
		return fmt.Sprintf("the training loss has changed by less than %v of itself within %s", c.Delta, plural(c.Past, "step"))
	case c.Epsilon > 0 && unchanged(1, c.Epsilon):
		return fmt.Sprintf("the training loss has changed by less than %v of itself in a step", c.Epsilon)
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Ended returns the reason why the run has ended, such as "all 120 steps are done", "the validation
// loss has not improved for 3 evaluations" or "the limit of 2h is reached"; "" if it has not ended. A
// limit of [RunOptions] holds until the next Run.
func (t *Trainer) Ended() string {
	if t.step >= t.schedule.Steps {
		return fmt.Sprintf("all %s are done", plural(t.schedule.Steps, "step"))
	}
	if why := t.options.Convergence.evaluated(t.Evaluations, t.options.BestBy); why != "" {
		return why
	}
	if why := t.options.Convergence.trained(t.History, t.lowest); why != "" {
		return why
	}
	return t.limit
}

// Done reports whether the run has ended, see [Trainer.Ended].
func (t *Trainer) Done() bool { return t.Ended() != "" }

// Best returns the best evaluation by [Options].BestBy, the first of several; ok is false if none has a loss that is a number.
func (t *Trainer) Best() (best Evaluation, ok bool) {
	best.Loss = math.NaN()
	for _, e := range t.Evaluations {
		if t.options.BestBy.improves(e, best, 0) {
			best, ok = e, true
		}
	}
	return best, ok
}

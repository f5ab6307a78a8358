package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
)

// RunOptions control what happens around the steps of a run.
type RunOptions struct {
	// OnSave saves what is trained, and the state of the run by [Trainer.SaveCheckpoint], as far
	// as they are wanted: every SaveEvery steps, where that is not 0, at the end, and when the run
	// is stopped. What is trained has been checked by then.
	OnSave    func() error
	SaveEvery int

	EvalData  *data.Dataset // evaluated before the first step, every EvalEvery steps, and at the end; may be nil
	EvalEvery int

	// MaxTokens and MaxDuration end the run before its last step: by the tokens that it has
	// trained, including tokens from before it was resumed, and by the time since this Run began.
	// Both are checked before each step, so that 0 ends it at once; nil means no limit.
	MaxTokens   *int
	MaxDuration *time.Duration

	OnStep func(StepMetrics) // after each step
	OnEval func(Evaluation)  // after each evaluation
	// OnBest saves what is trained when an evaluation has the lowest loss so far, the first
	// one too; see [Trainer.Best]. An evaluation is in no checkpoint before it has returned
	// nil: a run that was killed meanwhile evaluates again when it is resumed.
	OnBest func(Evaluation) error
}

// ErrStopped is a run that was cancelled before its last step. What RunOptions.OnSave saved is of
// the last complete step.
var ErrStopped = errors.New("stopped before the end")

var errNoContext = errors.New("the context.Context is nil")

// A savedCheckpoint is the last one that the run wrote or read.
type savedCheckpoint struct {
	path string
	step int
}

// Run takes the run to its end, which [Trainer.Ended] explains, or until ctx is cancelled: then it
// saves the last complete step and returns [ErrStopped]. If the end is reached by then it returns
// nil; at most the last evaluation is missing.
//
// A step that makes the parameters, or a loss that is computed with them, other than
// finite ends the run with [ErrDiverged]. Nothing is saved then, and what is
// trained is of no use.
func (t *Trainer) Run(ctx context.Context, o RunOptions) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if ctx == nil {
		return errNoContext
	}
	if err := t.running.Acquire("Trainer.Run", "Trainer"); err != nil {
		return err
	}
	defer t.running.Release()
	err := t.run(ctx, o)
	switch {
	case ctx.Err() == nil && !errors.Is(err, ErrStopped): // as in a group that another process stops
	case t.Done():
		err = nil
	default:
		err = ErrStopped
	}
	if err == nil || errors.Is(err, ErrStopped) || t.Done() && !errors.Is(err, ErrDiverged) {
		if saveErr := t.save(context.WithoutCancel(ctx), o); saveErr != nil {
			err = errors.Join(err, saveErr)
		}
	}
	if d := (*DivergedError)(nil); errors.As(err, &d) && t.saved.path != "" {
		d.Saved = fmt.Sprintf("the last good checkpoint is %s, of step %d", t.saved.path, t.saved.step)
	}
	return err
}

// save checks what is trained, and saves.
func (t *Trainer) save(ctx context.Context, o RunOptions) error {
	if err := t.checkResult(ctx); err != nil {
		return err
	}
	if o.OnSave == nil {
		return nil
	}
	return o.OnSave()
}

func (t *Trainer) run(ctx context.Context, o RunOptions) error {
	if err := t.CheckGroup(ctx); err != nil {
		return err
	}
	if err := agreeOn(ctx, t.group, nil, nil, o.shared()...); err != nil {
		return err
	}
	first, begin := t.step, time.Now()
	for {
		if err := t.checkLimits(ctx, o, time.Since(begin)); err != nil {
			return err
		}
		if t.evalDue(o) {
			if err := t.evaluate(ctx, o); err != nil {
				return err
			}
		}
		if t.Done() {
			return nil
		}
		// After the evaluation, which the checkpoint then holds.
		if o.SaveEvery > 0 && t.step > first && t.step%o.SaveEvery == 0 {
			if err := agree(ctx, t.group, t.save(ctx, o), nil); err != nil {
				return err
			}
		}
		metrics, err := t.Step(ctx)
		if err != nil {
			return err
		}
		if o.OnStep != nil {
			o.OnStep(metrics)
		}
	}
}

// shared are the options that decide what the processes of a group do together.
func (o *RunOptions) shared() []shared {
	list := []shared{
		{name: "SaveEvery", value: o.SaveEvery}, {name: "EvalEvery", value: o.EvalEvery}, {name: "the number of held-out rows", value: o.EvalData.Len()},
		{name: "MaxTokens", value: "none"}, {name: "MaxDuration", value: "none"},
	}
	if o.MaxTokens != nil {
		list[3].value = *o.MaxTokens
	}
	if o.MaxDuration != nil {
		list[4].value = *o.MaxDuration
	}
	return list
}

// checkLimits finds the limit that the run has reached, on the clock of any process of the group.
func (t *Trainer) checkLimits(ctx context.Context, o RunOptions, passed time.Duration) error {
	if o.MaxDuration != nil {
		late := []float64{0}
		if passed >= *o.MaxDuration {
			late[0] = 1
		}
		if err := agree(ctx, t.group, nil, late); err != nil {
			return err
		}
		if late[0] > 0 {
			passed = max(passed, *o.MaxDuration)
		}
	}
	t.limit = t.limitReached(o, passed)
	return nil
}

// limitReached names the limit that the run has reached; "" if none.
func (t *Trainer) limitReached(o RunOptions, passed time.Duration) string {
	switch {
	case o.MaxTokens != nil && t.tokens >= *o.MaxTokens:
		return fmt.Sprintf("the limit of %s is reached", plural(*o.MaxTokens, "token"))
	case o.MaxDuration != nil && passed >= *o.MaxDuration:
		return fmt.Sprintf("the limit of %s is reached", shortDuration(*o.MaxDuration))
	}
	return ""
}

// shortDuration leaves out what is zero: 2h instead of 2h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (t *Trainer) evalDue(o RunOptions) bool {
	if o.EvalData == nil {
		return false
	}
	if n := len(t.Evaluations); n > 0 && t.Evaluations[n-1].Step == t.step {
		return false // resumed right after it
	}
	return t.step == 0 || t.Done() || o.EvalEvery > 0 && t.step%o.EvalEvery == 0
}

func (t *Trainer) evaluate(ctx context.Context, o RunOptions) error {
	e, err := t.Evaluate(ctx, o.EvalData)
	if err != nil {
		return err
	}
	if !finite(e.Loss) {
		return t.diverged(ctx, fmt.Sprintf("after step %d the loss of the evaluation is %v", t.step, e.Loss), ggml.F32)
	}
	best, had := t.Best()
	t.Evaluations = append(t.Evaluations, e)
	if o.OnEval != nil {
		o.OnEval(e)
	}
	if had && e.Loss >= best.Loss {
		return nil
	}
	if o.OnBest != nil { // as a rule on one process of a group
		if err = t.checkParameters(); err == nil {
			err = o.OnBest(e)
		}
	}
	if err = agree(ctx, t.group, err, nil); err != nil {
		t.Evaluations = t.Evaluations[:len(t.Evaluations)-1]
	}
	return err
}

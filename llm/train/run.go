package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/parallel"
)

// RunOptions control a run beyond its steps: saving, evaluation and limits.
type RunOptions struct {
	// OnSave saves the trained tensors and, with [Trainer.SaveCheckpoint], the state of the run, if
	// wanted. It is called every SaveEvery steps unless that is 0, at the end, and when the run is
	// stopped. The trained tensors have been checked before.
	OnSave    func() error
	SaveEvery int

	EvalData  *data.Dataset // evaluated before the first step, every EvalEvery steps, and at the end; may be nil
	EvalEvery int

	// MaxTokens and MaxDuration end the run before its last step: by the number of trained tokens,
	// including those from before a resume, and by the time since this Run began. Both are checked before
	// each step, so 0 ends the run at once; nil means no limit.
	MaxTokens   *int
	MaxDuration *time.Duration

	OnStep func(StepMetrics) // after each step
	OnEval func(Evaluation)  // after each evaluation
	// OnBest saves the trained tensors whenever an evaluation is the best so far, including the first; see
	// [Trainer.Best]. Checkpoints contain the evaluation only after OnBest has returned nil: a
	// run killed in between evaluates again when it is resumed.
	OnBest func(Evaluation) error
}

// ErrStopped reports that a run was cancelled before its last step. RunOptions.OnSave has saved the
// last complete step.
var ErrStopped = parallel.ErrStopped

var errNoContext = errors.New("the context.Context is nil")

// A savedCheckpoint is the last checkpoint that the run wrote or read.
type savedCheckpoint struct {
	path string
	step int
}

// Run runs to the end of the run, for the reason that [Trainer.Ended] returns, or until ctx is
// cancelled. If it is cancelled, it saves the last complete step and returns [ErrStopped]; if the run
// has ended by then, it returns nil, and at most the last evaluation is missing.
//
// If a step makes the parameters or their loss non-finite, the run fails with [ErrDiverged]. Then
// nothing is saved, and the trained tensors are unusable.
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
	case ctx.Err() == nil && !errors.Is(err, ErrStopped): // otherwise cancelled here, or by a process of the group
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

// save checks the trained tensors and saves them.
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
	if err := parallel.AgreeOn(ctx, t.group, nil, nil, o.shared()...); err != nil {
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
		// Save after the evaluation, so that the checkpoint contains it.
		if o.SaveEvery > 0 && t.step > first && t.step%o.SaveEvery == 0 {
			if err := parallel.Agree(ctx, t.group, t.save(ctx, o), nil); err != nil {
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

// shared returns the options that must be equal on all processes of a group.
func (o *RunOptions) shared() []parallel.Shared {
	list := []parallel.Shared{
		{Name: "SaveEvery", Value: o.SaveEvery}, {Name: "EvalEvery", Value: o.EvalEvery}, {Name: "the number of held-out rows", Value: o.EvalData.Len()},
		{Name: "MaxTokens", Value: "none"}, {Name: "MaxDuration", Value: "none"},
	}
	if o.MaxTokens != nil {
		list[3].Value = *o.MaxTokens
	}
	if o.MaxDuration != nil {
		list[4].Value = *o.MaxDuration
	}
	return list
}

// checkLimits sets the limit that the run has reached, by the clock of whichever process reaches it
// first.
func (t *Trainer) checkLimits(ctx context.Context, o RunOptions, passed time.Duration) error {
	if o.MaxDuration != nil {
		late := []float64{0}
		if passed >= *o.MaxDuration {
			late[0] = 1
		}
		if err := parallel.Agree(ctx, t.group, nil, late); err != nil {
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

// shortDuration omits zero units: 2h instead of 2h0m0s.
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
		return false // resumed just after this evaluation
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
	if had && !t.options.BestBy.improves(e, best, 0) {
		return nil
	}
	if o.OnBest != nil { // usually set on one process of a group only
		if err = t.checkParameters(); err == nil {
			err = o.OnBest(e)
		}
	}
	if err = parallel.Agree(ctx, t.group, err, nil); err != nil {
		t.Evaluations = t.Evaluations[:len(t.Evaluations)-1]
	}
	return err
}

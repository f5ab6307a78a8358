package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml/llm/data"
)

// RunOptions say what happens around the steps of a run.
type RunOptions struct {
	Checkpoint string       // file to write; "" writes none
	OnSave     func() error // saves what is trained, when a checkpoint is due, before it; may be nil
	SaveEvery  int          // steps between both; 0: only at the end, or when stopped

	EvalData  *data.Dataset // evaluated before the first step, every EvalEvery steps, and at the end; may be nil
	EvalEvery int

	OnStep func(StepMetrics) // after each step
	OnEval func(Evaluation)  // after each evaluation
}

// ErrStopped is a run that was cancelled before its last step. Its checkpoint, if it
// writes one, holds the last complete step.
var ErrStopped = errors.New("stopped before the end")

// A savedCheckpoint is the last one that the run wrote or read.
type savedCheckpoint struct {
	path string
	step int
}

// Run takes the run to its end, or until ctx is cancelled: then it saves the last
// complete step and returns [ErrStopped]. When all steps are done by then it
// returns nil; at most the last evaluation is missing.
//
// A step that makes the parameters, or a loss that is computed with them, other than
// finite ends the run with [ErrDiverged]. Nothing is saved then, and what is
// trained is of no use.
func (t *Trainer) Run(ctx context.Context, o RunOptions) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	err := t.run(ctx, o)
	switch {
	case ctx.Err() == nil:
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
	if errors.Is(err, ErrDiverged) && t.saved.path != "" {
		return fmt.Errorf("%w; the last good checkpoint is %s, of step %d", err, t.saved.path, t.saved.step)
	}
	return err
}

// save checks the parameters and saves them, and the state of the run, as far as they
// are wanted.
func (t *Trainer) save(ctx context.Context, o RunOptions) error {
	if err := t.checkResult(ctx); err != nil {
		return err
	}
	var err error
	if o.OnSave != nil {
		err = o.OnSave()
	}
	if o.Checkpoint != "" {
		err = errors.Join(err, t.SaveCheckpoint(o.Checkpoint))
	}
	return err
}

func (t *Trainer) run(ctx context.Context, o RunOptions) error {
	for {
		if t.evalDue(o) {
			if err := t.evaluate(ctx, o); err != nil {
				return err
			}
		}
		if t.Done() {
			return nil
		}
		metrics, err := t.Step(ctx)
		if err != nil {
			return err
		}
		if o.OnStep != nil {
			o.OnStep(metrics)
		}
		if o.SaveEvery > 0 && t.step%o.SaveEvery == 0 && !t.Done() {
			if err := t.save(ctx, o); err != nil {
				return err
			}
		}
	}
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
		return t.diverged(fmt.Sprintf("after step %d the loss of the evaluation is %v", t.step, e.Loss))
	}
	t.Evaluations = append(t.Evaluations, e)
	if o.OnEval != nil {
		o.OnEval(e)
	}
	return nil
}

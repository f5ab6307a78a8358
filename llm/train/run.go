package train

import (
	"context"
	"errors"

	"github.com/goggml/ggml/llm/data"
)

// RunOptions say what happens around the steps of a run.
type RunOptions struct {
	Checkpoint string // file to write; "" writes none
	SaveEvery  int    // steps between checkpoints; 0: only at the end, or when stopped

	Valid      *data.Dataset // evaluated before the first step, every ValidEvery steps, and at the end; may be nil
	ValidEvery int

	OnStep  func(Point) // after each step
	OnValid func(Point) // after each evaluation
}

// ErrStopped is a run that was cancelled before its last step. Its checkpoint, if it
// writes one, holds the last complete step.
var ErrStopped = errors.New("stopped before the end")

// Run takes the run to its end, or until ctx is cancelled: then it writes a
// checkpoint of the last complete step and returns [ErrStopped]. When all steps
// are done by then it returns nil; at most the last evaluation is missing.
func (t *Trainer) Run(ctx context.Context, o RunOptions) error {
	err := t.run(ctx, o)
	switch {
	case ctx.Err() == nil:
	case t.Done():
		err = nil
	default:
		err = ErrStopped
	}
	if err != nil && !errors.Is(err, ErrStopped) {
		return err // what the last checkpoint holds is better
	}
	if o.Checkpoint != "" {
		if saveErr := t.SaveCheckpoint(o.Checkpoint); saveErr != nil {
			return errors.Join(err, saveErr)
		}
	}
	return err
}

func (t *Trainer) run(ctx context.Context, o RunOptions) error {
	for {
		if t.validDue(o) {
			if err := t.validate(ctx, o); err != nil {
				return err
			}
		}
		if t.Done() {
			return nil
		}
		point, err := t.Step(ctx)
		if err != nil {
			return err
		}
		if o.OnStep != nil {
			o.OnStep(point)
		}
		if o.Checkpoint != "" && o.SaveEvery > 0 && t.step%o.SaveEvery == 0 && !t.Done() {
			if err := t.SaveCheckpoint(o.Checkpoint); err != nil {
				return err
			}
		}
	}
}

func (t *Trainer) validDue(o RunOptions) bool {
	if o.Valid == nil {
		return false
	}
	if n := len(t.Valid); n > 0 && t.Valid[n-1].Step == t.step {
		return false // resumed right after it
	}
	return t.step == 0 || t.Done() || o.ValidEvery > 0 && t.step%o.ValidEvery == 0
}

func (t *Trainer) validate(ctx context.Context, o RunOptions) error {
	loss, err := t.Evaluate(ctx, o.Valid)
	if err != nil {
		return err
	}
	point := Point{Step: t.step, Loss: loss}
	t.Valid = append(t.Valid, point)
	if o.OnValid != nil {
		o.OnValid(point)
	}
	return nil
}

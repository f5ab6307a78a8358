package training

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// Run trains to the end, calls save for the result, and reports progress to w.
// When it is interrupted it saves a checkpoint, and returns an
// cli.ErrInterrupted that says how to go on.
func (f *Flags) Run(ctx context.Context, w io.Writer, t *train.Trainer, valid *data.Dataset, steps int, save func() error) error {
	// The bar is that of the steps of this process: those before a checkpoint say nothing about its speed.
	tokens, perStep := int64(0), int64(t.StepTokens())
	report := progress.New(w, int64(min(float64(steps-t.Steps())*float64(perStep), 1<<53)), "tok")
	if t.Steps() > 0 {
		report.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	err := t.Run(ctx, train.RunOptions{
		Checkpoint: f.CheckpointOut, SaveEvery: f.SaveEvery, EvalData: valid, EvalEvery: f.ValidEvery,
		OnStep: func(m train.StepMetrics) {
			tokens += perStep
			report.Update(tokens, fmt.Sprintf("step %d/%d  loss %#.4g", m.Step, steps, m.Loss), fmt.Sprintf("lr %.1e", m.LearningRate))
		},
		OnEval: func(e train.Evaluation) { report.Printf("step %d: validation loss %.4f", e.Step, e.Loss) },
	})
	stopped := err == train.ErrStopped // and nothing else went wrong, as errors.Is would allow
	if stopped {
		err = fmt.Errorf("%w; %s", cli.ErrInterrupted, f.hint(t.Steps()))
	}
	// The result comes before all that can go wrong in showing it.
	if t.Done() && !errors.Is(err, train.ErrDiverged) {
		err = errors.Join(err, save())
	}
	shown := report.Close()
	if err == nil || stopped {
		shown = errors.Join(shown, f.drawLossCurve(t))
	}
	if err == nil && shown != nil {
		return fmt.Errorf("the run is complete and its result saved, but: %w", shown)
	}
	return errors.Join(err, shown)
}

// hint tells how to continue a run that was interrupted after some steps.
func (f *Flags) hint(steps int) string {
	if f.CheckpointOut == "" {
		return "without --checkpoint-out nothing was saved"
	}
	return fmt.Sprintf("step %d is saved in %[2]s: the same command with --checkpoint-in %[2]s continues the run", steps, f.CheckpointOut)
}

func (f *Flags) drawLossCurve(t *train.Trainer) error {
	if f.LossCurve == "" || len(t.History) == 0 {
		return nil
	}
	return saveLossCurve(f.LossCurve, t.History, t.Evaluations)
}

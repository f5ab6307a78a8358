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

// A Result is the file that a run is for, and how it is written.
type Result struct {
	cli.File
	Save func(path string) error
}

// Run trains to the end and reports progress to w. The result is saved there and with
// each checkpoint, so that a run that is interrupted or killed leaves one that can be
// used. After an interrupt the error is a cli.ErrInterrupted that says how to go on.
func (f *Flags) Run(ctx context.Context, w io.Writer, t *train.Trainer, valid *data.Dataset, steps int, result Result) error {
	// The bar is that of the steps of this process: those before a checkpoint say nothing about its speed.
	tokens, perStep := int64(0), int64(t.StepTokens())
	report := progress.New(w, int64(min(float64(steps-t.Steps())*float64(perStep), 1<<53)), "tok")
	if t.Steps() > 0 {
		report.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	saved := 0 // steps of the result that is in the file
	err := t.Run(ctx, train.RunOptions{
		Checkpoint: f.CheckpointOut, SaveEvery: f.SaveEvery, EvalData: valid, EvalEvery: f.ValidEvery,
		OnSave: func() error {
			// A pipe takes one result.
			if t.Steps() == 0 || !t.Done() && !cli.IsReplaced(result.Path) {
				return nil
			}
			if err := result.Save(result.Path); err != nil {
				return fmt.Errorf("%s: %w", result.Flag, err)
			}
			saved = t.Steps()
			return nil
		},
		OnStep: func(m train.StepMetrics) {
			tokens += perStep
			report.Update(tokens, fmt.Sprintf("step %d/%d  loss %#.4g", m.Step, steps, m.Loss), fmt.Sprintf("lr %.1e", m.LearningRate))
		},
		OnEval: func(e train.Evaluation) { report.Printf("step %d: validation loss %.4f", e.Step, e.Loss) },
	})
	stopped := err == train.ErrStopped // and nothing else went wrong, as errors.Is would allow
	switch {
	case stopped:
		err = fmt.Errorf("%w; %s", cli.ErrInterrupted, f.hint(t.Steps(), saved, result.Path))
	case err != nil && saved > 0:
		err = fmt.Errorf("%w; %s is the result of step %d", err, result.Path, saved)
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

// hint tells what a run that was interrupted after some steps has left, and how to
// continue it.
func (f *Flags) hint(steps, saved int, result string) string {
	hint := "nothing was trained yet"
	if steps > 0 {
		hint = "nothing was saved"
	}
	if saved > 0 {
		hint = fmt.Sprintf("%s is the result of step %d", result, saved)
	}
	if f.CheckpointOut == "" {
		return hint + "; without --checkpoint-out the run cannot be continued"
	}
	return fmt.Sprintf("%s; the same command with --checkpoint-in %s continues the run", hint, f.CheckpointOut)
}

func (f *Flags) drawLossCurve(t *train.Trainer) error {
	if f.LossCurve == "" || len(t.History) == 0 {
		return nil
	}
	return saveLossCurve(f.LossCurve, t.History, t.Evaluations)
}

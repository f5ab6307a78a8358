package training

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/goggml/ggml/internal/lossplot"
	"github.com/goggml/ggml/internal/progress"
	"github.com/goggml/ggml/llm/train"
)

// Run trains to the end, calls save for the result, and reports progress to w.
// When it is interrupted it saves a checkpoint, and returns an Interrupted that
// tells how to go on.
func (f *Flags) Run(ctx context.Context, w io.Writer, t *train.Trainer, valid *train.Dataset, steps int, save func() error) error {
	report := progress.New(w, progress.Options{Total: steps, Start: t.Steps(), Label: "training"})
	if t.Steps() > 0 {
		report.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	tokens := int64(0)
	err := t.Run(ctx, train.RunOptions{
		Checkpoint: f.CheckpointOut, SaveEvery: f.SaveEvery, Valid: valid, ValidEvery: f.ValidEvery,
		OnStep: func(p train.Point) {
			tokens += int64(t.StepTokens())
			report.Update(progress.State{Step: p.Step, Tokens: tokens, Loss: p.Loss, LR: p.Rate})
		},
		OnValid: func(p train.Point) { report.Printf("step %d: validation loss %.4f", p.Step, p.Loss) },
	})
	stopped := err == train.ErrStopped // and nothing else went wrong, as errors.Is would allow
	if stopped {
		err = &Interrupted{f.hint(t.Steps())}
	}
	// The result comes before all that can go wrong in showing it.
	if t.Done() {
		err = errors.Join(err, save())
	}
	shown := report.Close()
	if err == nil || stopped {
		shown = errors.Join(shown, f.plot(t))
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

func (f *Flags) plot(t *train.Trainer) error {
	if f.LossCurve == "" || len(t.History) == 0 {
		return nil
	}
	series := []lossplot.Series{curve("training", lossplot.Smoothed, t.History)}
	if len(t.Valid) > 0 {
		series = append(series, curve("validation", lossplot.Points, t.Valid))
	}
	figure := lossplot.Figure{Title: "Loss", XLabel: "step", YLabel: "cross-entropy, nats a token", Series: series}
	for _, ext := range []string{".svg", ".png"} {
		if err := figure.Save(f.LossCurve + ext); err != nil {
			return err
		}
	}
	return nil
}

func curve(name string, style lossplot.Style, points []train.Point) lossplot.Series {
	s := lossplot.Series{Name: name, Style: style}
	for _, p := range points {
		s.X = append(s.X, float64(p.Step))
		s.Y = append(s.Y, p.Loss)
	}
	return s
}

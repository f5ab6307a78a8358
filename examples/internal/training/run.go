package training

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/goggml/ggml/internal/lossplot"
	"github.com/goggml/ggml/internal/progress"
	"github.com/goggml/ggml/llm/train"
)

// Interruptible returns a context that an interrupt or a termination signal
// cancels. A second one ends the program at once.
func Interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Run trains to the end and reports progress to w. When it is interrupted it
// returns train.ErrStopped after saving a checkpoint, and tells how to go on.
func (f *Flags) Run(ctx context.Context, w io.Writer, t *train.Trainer, valid *train.Dataset, steps int) error {
	resumed, err := f.Resume(t)
	if err != nil {
		return err
	}
	report := progress.New(w, progress.Options{Total: steps, Start: t.Steps(), Label: "training"})
	if resumed {
		report.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	tokens := int64(0)
	err = t.Run(ctx, train.RunOptions{
		Checkpoint: f.CheckpointOut, SaveEvery: f.SaveEvery, Valid: valid, ValidEvery: f.ValidEvery,
		OnStep: func(p train.Point) {
			tokens += int64(t.StepTokens())
			report.Update(progress.State{Step: p.Step, Tokens: tokens, Loss: p.Loss, LR: p.Rate})
		},
		OnValid: func(p train.Point) { report.Printf("step %d: validation loss %.4f", p.Step, p.Loss) },
	})
	if closeErr := report.Close(); err == nil {
		err = closeErr
	}
	if err == nil || f.LossCurve != "" && len(t.History) > 0 {
		if plotErr := f.plot(t); err == nil {
			err = plotErr
		}
	}
	return err
}

// StoppedHint tells how to continue a run that was interrupted.
func (f *Flags) StoppedHint() string {
	if f.CheckpointOut == "" {
		return "interrupted; without --checkpoint-out nothing was saved"
	}
	return fmt.Sprintf("interrupted; the run is saved in %[1]s: the same command with --checkpoint-in %[1]s continues it", f.CheckpointOut)
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

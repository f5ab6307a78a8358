package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/rpcrelay"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// A Result is the file that a run produces, and how to write it.
type Result struct {
	run.SavedFile
	Write func(path string) error
	// Peak is documented in [run.Options].
	Peak func(reached float64) float64
	// Note returns a remark for the progress of each step; may be nil.
	Note func() string
	// Evaluated returns a remark for the evaluation after a step, except the one before the first; may be nil.
	Evaluated func(step int) string
	// Ended is called at the end of the run; may be nil.
	Ended func(out run.Outcome, err error) error
}

// Run trains to the end and reports progress to w, see [run.Train]. After an interrupt the error is a
// cli.ErrInterrupted that says how to continue.
func (f *Flags) Run(ctx context.Context, w io.Writer, t *train.Trainer, valid *data.Dataset, result Result) error {
	d := f.newDisplay(w, t, result)
	before := t.Steps()
	f.processes.began = time.Now()
	servers := rpcrelay.Waits()
	stopShowing := f.processes.reports.above(d.line)
	out, err := run.Train(ctx, t, run.Options{
		Result: result.SavedFile, Write: result.Write, Checkpoint: f.Checkpoint(), SaveEvery: f.SaveEvery,
		Valid: valid, ValidEvery: f.ValidEvery, Metrics: run.File{Name: f.Named("metrics"), Path: f.Metrics}, Events: f.events,
		Peak: result.Peak, MaxTokens: f.MaxTokens, MaxDuration: f.MaxTime, OnStep: d.step, OnEval: d.evaluation,
		OnRetry: func(err error, wait time.Duration) { d.line.Printf("%v; saving again in %v", f.NameFlags(err), wait) },
	})
	stopShowing()
	if result.Ended != nil {
		out.Lost = errors.Join(out.Lost, result.Ended(out, err))
	}
	switch err = f.NameFlags(err); {
	case out.Stopped:
		err = errors.Join(fmt.Errorf("%w; %s", cli.Cause(ctx), f.hint(out, result.SavedFile)), out.Lost)
	case out.Complete:
		d.line.Complete()
		steps := t.Steps() - before
		for _, text := range []string{f.traffic(ctx, steps), serverWaits(servers, steps, time.Since(f.processes.began)), f.ended(out)} {
			if text != "" {
				d.line.Printf("%s", text)
			}
		}
	case err != nil:
		lost, isLost := cli.LostServer(err, "start it again: "+f.hint(out, result.SavedFile))
		if isLost {
			err = lost
		} else if out.Saved > 0 {
			err = fmt.Errorf("%w; %s has the result of step %d", err, result.LatestPath(), out.Saved)
		}
	}
	shown := d.line.Close()
	if out.Complete || out.Stopped {
		shown = errors.Join(shown, f.drawLossCurve(t))
	}
	if out.Complete && shown != nil {
		shown = fmt.Errorf("the run is complete and its result is saved, but: %w", shown)
	}
	return errors.Join(err, shown)
}

// ended reports that the run is complete, if its last step does not show it, and how to continue.
func (f *Flags) ended(out run.Outcome) string {
	switch early := out.Steps < out.Total; {
	case out.WasDone && early:
		return fmt.Sprintf("%s; without %s the run continues", out, f.endFlags())
	case out.WasDone:
		return fmt.Sprintf("%s; %s continues it", out, f.longer(out.Steps))
	case early:
		return out.String()
	}
	return ""
}

// longer returns the flags that lengthen a run whose steps are done.
func (f *OptimizerFlags) longer(steps int) string {
	var flags []string
	if f.epochs() > 0 {
		flags = append(flags, fmt.Sprintf("--epochs %d", f.epochs()+1))
	}
	if f.Iter > 0 && f.Iter <= steps {
		flags = append(flags, fmt.Sprintf("--adam-iter %d", 2*f.Iter))
	}
	return strings.Join(flags, " with ")
}

// endFlags returns the flags by which a run converges before its last step.
func (f *OptimizerFlags) endFlags() string {
	var flags []string
	for _, end := range []struct {
		flag  string
		given bool
	}{
		{"--patience", f.Patience > 0}, {"--opt-past", f.past() > 0}, {"--opt-max-no-improvement", f.OptNoImprovement > 0},
		{"--adam-epsf", f.EpsF > 0},
	} {
		if end.given {
			flags = append(flags, end.flag)
		}
	}
	return strings.Join(flags, ", ")
}

// hint says what an interrupted run has saved, and how to continue it.
func (f *Flags) hint(out run.Outcome, result run.SavedFile) string {
	hint := "nothing was trained yet"
	if out.Steps > 0 {
		hint = "nothing was saved"
	}
	if out.Saved > 0 {
		hint = fmt.Sprintf("%s has the result of step %d", result.LatestPath(), out.Saved)
	}
	switch checkpoint := f.Checkpoint().LatestPath(); {
	case f.CheckpointOut == "":
		return hint + "; without --checkpoint-out the run cannot be continued"
	case f.ownFolder != "":
		return fmt.Sprintf("%s; the same command with %s continues the run", hint, cli.ShellArg("--run-dir", f.ownFolder))
	case !out.Stopped && cli.CheckRegular(checkpoint) != nil:
		return hint + "; the same command starts the run over"
	case cli.SameFile(checkpoint, f.CheckpointIn):
		return hint + "; the same command continues the run"
	default:
		return fmt.Sprintf("%s; the same command with %s continues the run", hint, cli.ShellArg("--checkpoint-in", checkpoint))
	}
}

func (f *RunFlags) drawLossCurve(t *train.Trainer) error {
	if f.LossCurve == "" || len(t.History) == 0 {
		return nil
	}
	return saveLossCurve(f.LossCurve, t.History, t.Evaluations)
}

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
	SavedFile
	Write func(path string) error
}

// A runner takes a trainer to the end of its run.
type runner struct {
	*Flags
	trainer *train.Trainer
	result  Result
	steps   int // of the whole run
	line    *progress.Line
	metrics *metricsFile
	tokens  int64 // computed by this process
	saved   int   // steps of the result that is in the file
}

// Run trains to the end and reports progress to w. The result is saved there and with
// each checkpoint, so that a run that is interrupted or killed leaves one that can be
// used, and that of the best evaluation beside it. After an interrupt the error is a
// cli.ErrInterrupted that says how to go on.
func (f *Flags) Run(ctx context.Context, w io.Writer, t *train.Trainer, valid *data.Dataset, result Result) error {
	metrics, err := openMetrics(f.Metrics, t)
	if err != nil {
		return err
	}
	r := &runner{Flags: f, trainer: t, result: result, steps: t.TotalSteps(), metrics: metrics}
	// The bar is that of the steps of this process: those before a checkpoint say nothing about its speed.
	r.line = progress.New(w, int64(min(float64(r.steps-t.Steps())*float64(t.StepTokens()), 1<<53)), "tok")
	if t.Steps() > 0 {
		r.line.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	err = t.Run(ctx, train.RunOptions{
		SaveEvery: f.SaveEvery, EvalData: valid, EvalEvery: f.ValidEvery,
		OnSave: r.save, OnStep: r.step, OnEval: r.evaluated, OnBest: r.saveBest,
		MaxTokens: f.MaxTokens, MaxDuration: f.MaxTime,
	})
	return r.finish(err)
}

func (r *runner) step(m train.StepMetrics) {
	r.tokens += int64(r.trainer.StepTokens())
	r.metrics.add(stepLine(m))
	r.line.Update(r.tokens, fmt.Sprintf("step %d/%d  loss %#.4g", m.Step, r.steps, m.Loss), fmt.Sprintf("lr %.1e", m.LearningRate))
}

func (r *runner) evaluated(e train.Evaluation) {
	r.metrics.add(evalLine(e))
	r.line.Printf("step %d: validation loss %.4f, perplexity %.4g, accuracy %.1f %%", e.Step, e.Loss, e.Perplexity(), 100*e.Accuracy)
}

// save writes the result, and then the checkpoint: one that is older than the result is
// harmless.
func (r *runner) save() error {
	// A pipe takes one result.
	if r.trainer.Steps() > 0 && (r.trainer.Done() || cli.IsReplaced(r.result.LatestPath())) {
		if err := r.result.Save(r.trainer.Steps(), r.result.Write); err != nil {
			return err
		}
		r.saved = r.trainer.Steps()
	}
	if r.CheckpointOut == "" {
		return nil
	}
	return r.Checkpoint().Save(r.trainer.Steps(), r.trainer.SaveCheckpoint)
}

// saveBest writes what is the best so far; the start is no result.
func (r *runner) saveBest(e train.Evaluation) error {
	if e.Step == 0 || !cli.IsReplaced(r.result.LatestPath()) {
		return nil
	}
	return r.result.named(r.result.Write(r.result.BestPath()))
}

// finish reports how the run ended.
func (r *runner) finish(err error) error {
	stopped := err == train.ErrStopped // and nothing else went wrong, as errors.Is would allow
	switch {
	case stopped:
		err = fmt.Errorf("%w; %s", cli.ErrInterrupted, r.hint())
	case err != nil && r.saved > 0:
		err = fmt.Errorf("%w; %s is the result of step %d", err, r.result.LatestPath(), r.saved)
	case err == nil && r.trainer.Steps() < r.steps:
		r.line.Printf("ended after step %d: %s", r.trainer.Steps(), r.trainer.Ended())
	}
	shown := errors.Join(r.line.Close(), r.metrics.close())
	if err == nil || stopped {
		shown = errors.Join(shown, r.drawLossCurve(r.trainer))
	}
	if err == nil && shown != nil {
		return fmt.Errorf("the run is complete and its result saved, but: %w", shown)
	}
	return errors.Join(err, shown)
}

// hint tells what a run that was interrupted has left, and how to continue it.
func (r *runner) hint() string {
	hint := "nothing was trained yet"
	if r.trainer.Steps() > 0 {
		hint = "nothing was saved"
	}
	if r.saved > 0 {
		hint = fmt.Sprintf("%s is the result of step %d", r.result.LatestPath(), r.saved)
	}
	switch checkpoint := r.Checkpoint().LatestPath(); {
	case r.CheckpointOut == "":
		return hint + "; without --checkpoint-out the run cannot be continued"
	case cli.SameFile(checkpoint, r.CheckpointIn):
		return hint + "; the same command continues the run"
	default:
		return fmt.Sprintf("%s; the same command with --checkpoint-in %s continues the run", hint, checkpoint)
	}
}

func (f *RunFlags) drawLossCurve(t *train.Trainer) error {
	if f.LossCurve == "" || len(t.History) == 0 {
		return nil
	}
	return saveLossCurve(f.LossCurve, t.History, t.Evaluations)
}

package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

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
	wasDone bool // before it began
	steps   int  // of the whole run
	line    *progress.Line
	metrics *metricsFile
	speed   speed
	saved   int // steps of the result that is in the file
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
	r := &runner{Flags: f, trainer: t, result: result, wasDone: t.Done(), steps: t.TotalSteps(), metrics: metrics}
	r.line = progress.New(w, progress.Options{Total: int64(r.steps), Done: int64(t.Steps()), Unit: "tok", Rate: func() float64 { return r.speed.mean() }})
	if t.Steps() > 0 && !r.wasDone {
		r.line.Printf("continuing from %s at step %d", f.CheckpointIn, t.Steps())
	}
	if !r.wasDone {
		f.warnOfWarmup(w, r.steps)
	}
	r.speed.start()
	err = t.Run(ctx, train.RunOptions{
		SaveEvery: f.SaveEvery, EvalData: valid, EvalEvery: f.ValidEvery,
		OnSave: r.save, OnStep: r.step, OnEval: r.evaluated, OnBest: r.saveBest,
		MaxTokens: f.MaxTokens, MaxDuration: f.MaxTime,
	})
	return r.finish(f.nameFlags(err))
}

func (r *runner) step(m train.StepMetrics) {
	defer r.speed.start()
	rate := r.speed.add(m.RowTokens)
	r.metrics.addNow(stepLine(m), rate)
	r.line.Update(int64(m.Step), fmt.Sprintf("step %d/%d  loss %#.4g", m.Step, r.steps, m.Loss), fmt.Sprintf("lr %.1e", m.LearningRate))
}

func (r *runner) evaluated(e train.Evaluation) {
	defer r.speed.start()
	r.metrics.addNow(evalLine(e, r.trainer.History), 0)
	r.line.Printf("step %d: validation loss %.4f, perplexity %.4g, accuracy %.1f %%", e.Step, e.Loss, e.Perplexity(), 100*e.Accuracy)
}

// A speed is that of the steps of this process, without evaluations and saves between
// them.
type speed struct {
	tokens int // without padding
	took   time.Duration
	began  time.Time // of the step
}

func (s *speed) start() { s.began = time.Now() }

// add counts the tokens of a step that ends now, and gives those of a second.
func (s *speed) add(tokens int) float64 {
	took := time.Since(s.began)
	s.tokens, s.took = s.tokens+tokens, s.took+took
	return perSecond(tokens, took)
}

func (s *speed) mean() float64 { return perSecond(s.tokens, s.took) }

func perSecond(n int, d time.Duration) float64 { return float64(n) / max(d, 1).Seconds() }

// save writes the result, and then the checkpoint: one that is older than the result is
// harmless.
func (r *runner) save() error {
	defer r.speed.start()
	// A pipe takes one result.
	if r.trainer.Done() || r.trainer.Steps() > 0 && cli.IsReplaced(r.result.LatestPath()) {
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
	defer r.speed.start()
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
	case err == nil:
		r.ended()
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

// ended says that the run is complete, where its last step does not.
func (r *runner) ended() {
	r.line.Complete()
	done, why := r.trainer.Steps(), r.trainer.Ended()
	early, steps := done < r.steps, cli.Count(r.steps, "step")
	switch {
	case r.wasDone && early:
		r.line.Printf("already complete (%d of %s): %s, and nothing is left to do; without %s the run goes on", done, steps, why, r.endFlags())
	case r.wasDone:
		r.line.Printf("already complete (%d of %s): nothing is left to do; %s goes on", done, steps, r.longer(done))
	case early:
		r.line.Printf("ended after step %d of %d: %s", done, r.steps, why)
	}
}

// longer are the flags that lengthen a run that has done its steps.
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

// endFlags are the flags by which a run has converged before its last step.
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
	case r.ownFolder != "":
		return fmt.Sprintf("%s; the same command with %s continues the run", hint, cli.ShellArg("--run-dir", r.ownFolder))
	case cli.SameFile(checkpoint, r.CheckpointIn):
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

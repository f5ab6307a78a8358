package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// Options control what a run writes, and when. [Folder.Options] returns the options for a folder.
type Options struct {
	// Result is the file that Write writes at each save, so that an interrupted or killed run leaves a usable one,
	// and at the end. The file of the best evaluation is beside it, see [SavedFile.BestPath].
	Result SavedFile
	Write  func(path string) error
	// Checkpoint is the file from which the run can be continued; without a path it is not written.
	Checkpoint SavedFile
	// Resume is the checkpoint that Train continues from, if the file exists.
	Resume    string
	SaveEvery int // steps between saves; 0 saves only at the end

	Valid      *data.Dataset // held-out data; may be nil
	ValidEvery int           // steps between evaluations; 0 evaluates only at the start and the end

	Metrics File   // one [Line] of JSON per step and evaluation
	Events  string // folder of TensorBoard event files, one per start; "" for none

	// Peak returns the tokens per second that the machine would train at the speed of large GEMMs, see PeakFLOPS of
	// [github.com/goggml/ggml/llm/device.Engine]; metrics contain the share of it that a step reached. It is called
	// after each step with the tokens per second that the step reached, which may show that the machine was busy
	// when the peak was measured. 0 means unknown, and so does a nil Peak.
	Peak func(reached float64) float64

	// MaxTokens and MaxDuration are as in [train.RunOptions].
	MaxTokens   *int
	MaxDuration *time.Duration

	// Inputs are files that the run reads, such as model and data, for the manifest. They must not change after the
	// run began.
	Inputs []Input

	OnStep func(m train.StepMetrics, tokensPerSecond float64) // called after each step, with the mean speed so far; may be nil
	OnEval func(train.Evaluation)                             // called after each evaluation; may be nil

	// OnRetry is called before retrying a save that failed for lack of file descriptors or disk space, which other
	// programs may release. It gets the error and how long the run waits. It may be nil.
	OnRetry func(err error, wait time.Duration)

	folder *Folder
}

// Options returns the options of a run whose files have this package's names and that writes a manifest. write saves
// what is trained, as an adapter's Save does.
func (f *Folder) Options(write func(path string) error) Options {
	saved := func(name string) SavedFile { return SavedFile{File: File{Path: f.File(name)}, Keep: Kept} }
	return Options{
		Result: saved(Adapter), Write: write, Checkpoint: saved(Checkpoint), Resume: f.File(Checkpoint),
		Metrics: File{Path: f.File(Metrics)}, Events: f.Path, folder: f,
	}
}

// An Outcome says how far a run has come.
type Outcome struct {
	Steps, Total int    // steps done, and of the whole run
	WasDone      bool   // nothing was left to do
	Stopped      bool   // cancelled by the context before its end, without another error
	Ended        string // why the run ended, see [train.Trainer.Ended]; "" if it has not
	Saved        int    // step of the last result that this call saved; 0 if none
	Complete     bool   // the run has ended and its result is saved: an error concerns only the metrics
	Lost         error  // why some metrics were not written; the run continues
}

// String describes the outcome in words; it refers to the error of Train, if any.
func (o Outcome) String() string {
	steps := counted.Of(o.Total, "step")
	switch {
	case o.Total == 0:
		return "not started; see the error"
	case !o.Complete && !o.Stopped:
		return fmt.Sprintf("failed after step %d of %d; see the error", o.Steps, o.Total)
	case o.WasDone && o.Steps < o.Total:
		return fmt.Sprintf("already complete (%d of %s): %s, and nothing is left to do", o.Steps, steps, o.Ended)
	case o.WasDone:
		return fmt.Sprintf("already complete (%d of %s): nothing is left to do", o.Steps, steps)
	case o.Ended == "":
		return fmt.Sprintf("stopped after step %d of %d", o.Steps, o.Total)
	}
	return fmt.Sprintf("ended after step %d of %d: %s", o.Steps, o.Total, o.Ended)
}

// Train runs the trainer to the end of its run, or until ctx is cancelled, when it returns [train.ErrStopped]. It
// continues from the last checkpoint, if any: the same program, started again, continues the run, and does nothing
// if the run is complete. Each save writes the result before the checkpoint: a checkpoint that is older than the
// result is harmless.
func Train(ctx context.Context, t *train.Trainer, o Options) (Outcome, error) {
	if err := o.begin(t); err != nil {
		return Outcome{}, err
	}
	metrics, err := openMetrics(o.Metrics, o.Events, o.Peak, t)
	if err != nil {
		return Outcome{}, err
	}
	r := &runner{Options: o, trainer: t, metrics: metrics}
	wasDone := t.Done()
	r.speed.start()
	err = t.Run(ctx, train.RunOptions{
		SaveEvery: o.SaveEvery, EvalData: o.Valid, EvalEvery: o.ValidEvery,
		OnSave: func() error { return r.retry(ctx, r.save) }, OnStep: r.step, OnEval: r.evaluated,
		OnBest: func(e train.Evaluation) error {
			return r.retry(ctx, func() error { return r.saveBest(e) })
		},
		MaxTokens: o.MaxTokens, MaxDuration: o.MaxDuration,
	})
	lost := metrics.close()
	out := Outcome{
		Steps: t.Steps(), Total: t.TotalSteps(), WasDone: wasDone, Ended: t.Ended(), Saved: r.saved, Complete: err == nil, Lost: lost,
		Stopped: err == train.ErrStopped, // not errors.Is, which other errors also satisfy
	}
	lost = errors.Join(lost, o.folder.End(out, err))
	if err == nil && lost != nil {
		return out, fmt.Errorf("the run is complete and its result is saved, but: %w", lost)
	}
	return out, errors.Join(err, lost)
}

// Resume continues from a checkpoint, if the file exists, and reports whether it does.
func Resume(t *train.Trainer, checkpoint string) (bool, error) {
	if _, err := os.Stat(checkpoint); checkpoint == "" || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	err := t.LoadCheckpoint(checkpoint)
	return err == nil, err
}

// begin checks before any work that files can be written, resumes the run, and writes its manifest.
func (o *Options) begin(t *train.Trainer) error {
	if t == nil || o.Write == nil {
		return errors.New("the trainer, or the function that writes its result, is nil")
	}
	for _, f := range []File{{o.Result.Name, o.Result.LatestPath()}, {o.Checkpoint.Name, o.Checkpoint.LatestPath()}, o.Metrics} {
		if f.Path == "" {
			continue
		}
		if err := filelink.CheckWritable(f.Path); err != nil {
			return f.named(fmt.Errorf("%s cannot be written: %w", f.Path, err))
		}
	}
	if o.folder == nil {
		_, err := Resume(t, o.Resume)
		return err
	}
	if err := o.folder.acquire("Folder.Options"); err != nil {
		return err
	}
	o.folder.access.Release()
	before, err := o.folder.Continued(o.Resume)
	if err != nil {
		return err
	}
	inputs, err := o.folder.CheckInputs(before, nil, o.Inputs)
	if err != nil {
		return err
	}
	if _, err := Resume(t, o.Resume); err != nil {
		return err
	}
	err = o.folder.Describe(Manifest{
		Steps: t.TotalSteps(), Adapter: o.Result.LatestPath(), Best: o.Result.BestPath(), Metrics: o.Metrics.Path, Files: inputs,
	})
	if err != nil {
		return err
	}
	return o.folder.AddCommand(strings.Join(os.Args, " "))
}

// A runner runs a trainer to the end of its run.
type runner struct {
	Options
	trainer *train.Trainer
	metrics *metricsFile
	speed   speed
	saved   int // step of the last saved result
}

func (r *runner) step(m train.StepMetrics) {
	defer r.speed.start()
	r.metrics.addNow(stepLine(m), r.speed.add(m.RowTokens))
	if r.OnStep != nil {
		r.OnStep(m, r.speed.mean())
	}
}

func (r *runner) evaluated(e train.Evaluation) {
	defer r.speed.start()
	r.metrics.addNow(evalLine(e, r.trainer.History), 0)
	if r.OnEval != nil {
		r.OnEval(e)
	}
}

// scarce are errors of resources that other programs may release: file descriptors and disk space.
var scarce = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT}

// retry calls save, again after each wait if a resource is scarce. An interrupted run does not wait.
func (r *runner) retry(ctx context.Context, save func() error) error {
	for _, wait := range testhook.SaveWaits {
		err := save()
		if !slices.ContainsFunc(scarce, func(e error) bool { return errors.Is(err, e) }) {
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		if r.OnRetry != nil {
			r.OnRetry(err, wait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return save()
}

// save writes the result, and then the checkpoint.
func (r *runner) save() error {
	defer r.speed.start()
	// A pipe gets only the final result.
	if r.Result.Path != "" && (r.trainer.Done() || r.trainer.Steps() > 0 && filelink.IsReplaced(r.Result.LatestPath())) {
		if err := r.Result.Save(r.trainer.Steps(), r.Write); err != nil {
			return err
		}
		r.saved = r.trainer.Steps()
	}
	if r.Checkpoint.Path == "" {
		return nil
	}
	return r.Checkpoint.Save(r.trainer.Steps(), r.trainer.SaveCheckpoint)
}

// saveBest saves the best result so far, except for an evaluation before the first step.
func (r *runner) saveBest(e train.Evaluation) error {
	defer r.speed.start()
	if e.Step == 0 || r.Result.Path == "" || !filelink.IsReplaced(r.Result.LatestPath()) {
		return nil
	}
	return r.Result.named(r.Write(r.Result.BestPath()))
}

// A speed measures the steps of this process, without the evaluations and saves between them.
type speed struct {
	tokens int // tokens without padding
	took   time.Duration
	began  time.Time // of the current step
}

func (s *speed) start() { s.began = time.Now() }

// add counts the tokens of a step that ends now, and returns its tokens per second.
func (s *speed) add(tokens int) float64 {
	took := time.Since(s.began)
	s.tokens, s.took = s.tokens+tokens, s.took+took
	return perSecond(tokens, took)
}

func (s *speed) mean() float64 { return perSecond(s.tokens, s.took) }

func perSecond(n int, d time.Duration) float64 { return float64(n) / max(d, 1).Seconds() }

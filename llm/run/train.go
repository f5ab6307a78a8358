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

// Options control what a run writes, and when. [Folder.Options] returns the options of a folder.
type Options struct {
	// Result is the file that the run makes, by Write: at each save, so that an interrupted or killed run leaves a usable
	// one, and at the end. The file of the best evaluation is beside it, see [SavedFile.BestPath].
	Result SavedFile
	Write  func(path string) error
	// Checkpoint is the file from which the run continues another time; without a path it is not
	// written.
	Checkpoint SavedFile
	// Resume is the checkpoint that Train goes on from, if there is such a file.
	Resume    string
	SaveEvery int // steps between saves; 0 for the end only

	Valid      *data.Dataset // held-out data; may be nil
	ValidEvery int           // steps between its evaluations; 0 for the start and the end only

	Metrics File   // a line of JSON for each step and evaluation, see [Line]
	Events  string // folder for the same as event files of TensorBoard, one of each start; "" for none

	// Peak returns how many tokens a second would be trained at the speed of large products, see PeakFLOPS of
	// [github.com/goggml/ggml/llm/device.Engine]; metrics have the share of it that a step reached. It is called after each
	// step with that step's tokens a second, which may show that the machine was busy when it was measured. 0 means
	// unknown, and so does nil.
	Peak func(reached float64) float64

	// MaxTokens and MaxDuration are as in [train.RunOptions].
	MaxTokens   *int
	MaxDuration *time.Duration

	// Inputs are files that the run reads, such as model and data, for the manifest of a folder. They must not change
	// after the run began.
	Inputs []Input

	OnStep func(m train.StepMetrics, tokensPerSecond float64) // after each, with the mean speed so far; may be nil
	OnEval func(train.Evaluation)                             // after each; may be nil

	// OnRetry is called before a save is tried again that failed because files or room on the disk ran out: others may give
	// some back. It has the error, and how long the run waits. It may be nil.
	OnRetry func(err error, wait time.Duration)

	folder *Folder
}

// Options returns options for a run whose files have this package's names, and whose manifest describes it to others. write
// saves what is trained, as Save of an adapter does.
func (f *Folder) Options(write func(path string) error) Options {
	saved := func(name string) SavedFile { return SavedFile{File: File{Path: f.File(name)}, Keep: Kept} }
	return Options{
		Result: saved(Adapter), Write: write, Checkpoint: saved(Checkpoint), Resume: f.File(Checkpoint),
		Metrics: File{Path: f.File(Metrics)}, Events: f.Path, folder: f,
	}
}

// An Outcome is how far a run has come.
type Outcome struct {
	Steps, Total int    // that are done, and of the whole run
	WasDone      bool   // there was nothing left to do
	Stopped      bool   // before its end, by the context, and nothing went wrong
	Ended        string // why the run has come to its end, see [train.Trainer.Ended]; "" where it has not
	Saved        int    // step of the result that this call has saved last; 0 where it has not
	Complete     bool   // it has, and its result is saved: an error is of the metrics alone
	Lost         error  // why some of the metrics are not written; the run continues all the same
}

// String is the outcome in words. Where an error is beside it, it says so.
func (o Outcome) String() string {
	steps := counted.Of(o.Total, "step")
	switch {
	case o.Total == 0:
		return "not begun; the error beside it says why"
	case !o.Complete && !o.Stopped:
		return fmt.Sprintf("failed after step %d of %d; the error beside it says why", o.Steps, o.Total)
	case o.WasDone && o.Steps < o.Total:
		return fmt.Sprintf("already complete (%d of %s): %s, and nothing is left to do", o.Steps, steps, o.Ended)
	case o.WasDone:
		return fmt.Sprintf("already complete (%d of %s): nothing is left to do", o.Steps, steps)
	case o.Ended == "":
		return fmt.Sprintf("stopped after step %d of %d", o.Steps, o.Total)
	}
	return fmt.Sprintf("ended after step %d of %d: %s", o.Steps, o.Total, o.Ended)
}

// Train takes a trainer to the end of its run, or until ctx is cancelled, which is [train.ErrStopped]. It continues from
// the last checkpoint, if there is one: the same program, started again, continues the run, and does nothing if the run is
// complete. It saves on the way, the result first: a checkpoint that is older than the result is harmless.
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
		Stopped: err == train.ErrStopped, // and nothing else, as errors.Is would allow
	}
	lost = errors.Join(lost, o.folder.End(out, err))
	if err == nil && lost != nil {
		return out, fmt.Errorf("the run is complete and its result saved, but: %w", lost)
	}
	return out, errors.Join(err, lost)
}

// Resume goes on from a checkpoint, if there is such a file, and reports whether.
func Resume(t *train.Trainer, checkpoint string) (bool, error) {
	if _, err := os.Stat(checkpoint); checkpoint == "" || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	err := t.LoadCheckpoint(checkpoint)
	return err == nil, err
}

// begin finds out before the work whether files cannot be written, resumes the run, and writes what it is into its folder.
func (o *Options) begin(t *train.Trainer) error {
	if t == nil || o.Write == nil {
		return errors.New("there is no trainer, or no function that writes its result: it is nil")
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

// A runner takes a trainer to the end of its run.
type runner struct {
	Options
	trainer *train.Trainer
	metrics *metricsFile
	speed   speed
	saved   int // step of the result that is in the file
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

// scarce are errors of a system that lacks what others may give back: files, or room on the disk.
var scarce = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT}

// retry saves, and a few times again where the system lacks something. An interrupted run does not wait.
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
	// A pipe takes one result.
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

// saveBest writes what is the best so far; the start is no result.
func (r *runner) saveBest(e train.Evaluation) error {
	defer r.speed.start()
	if e.Step == 0 || r.Result.Path == "" || !filelink.IsReplaced(r.Result.LatestPath()) {
		return nil
	}
	return r.Result.named(r.Write(r.Result.BestPath()))
}

// A speed measures the steps of this process, without the evaluations and saves between them.
type speed struct {
	tokens int // without padding
	took   time.Duration
	began  time.Time // of the step
}

func (s *speed) start() { s.began = time.Now() }

// add counts the tokens of a step that ends now, and returns the tokens per second.
func (s *speed) add(tokens int) float64 {
	took := time.Since(s.began)
	s.tokens, s.took = s.tokens+tokens, s.took+took
	return perSecond(tokens, took)
}

func (s *speed) mean() float64 { return perSecond(s.tokens, s.took) }

func perSecond(n int, d time.Duration) float64 { return float64(n) / max(d, 1).Seconds() }

package training

import (
	"errors"
	"fmt"
	"io"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// highRate is a learning rate above which hardly anything learns, adapters or weights.
const highRate = 1e-2

// checkStep reports, before anything is read, a step that is too long.
func (f *OptimizerFlags) checkStep() error {
	if f.Batch > train.MaxStepRows/f.GradAcc {
		return fmt.Errorf("--batch %d with --grad-acc %d: a step can have at most %d samples", f.Batch, f.GradAcc, train.MaxStepRows)
	}
	return nil
}

// warnOfRate warns of a learning rate that is likely a mistake.
func (f *OptimizerFlags) warnOfRate(w io.Writer) {
	if f.Rate > highRate {
		fmt.Fprintf(w, "warning: --adam-alpha %v is far too high for most runs: above %v the loss usually rises\n", f.Rate, highRate)
	}
}

// warnOfWarmup warns of a warm-up that is longer than the run of steps: the rate never reaches its peak.
func (f *OptimizerFlags) warnOfWarmup(w io.Writer, steps int) {
	if f.Warmup > steps && !f.hasNoWarmup() {
		fmt.Fprintf(w, "warning: --warmup %d is longer than the run of %s: the learning rate never reaches --adam-alpha %v\n", f.Warmup, cli.Count(steps, "step"), f.Rate)
	}
}

// NewTrainer returns the trainer of the run. If something is too large for a graph or for the memory, the error
// names its flag.
func (f *Flags) NewTrainer(m *model.Model, trained train.Trainables, d *data.Dataset, o train.Options) (*train.Trainer, error) {
	t, err := train.New(m, trained, d, o)
	if err != nil {
		return nil, f.NameFlags(err)
	}
	if o.Checkpointing == train.CheckpointingAuto {
		if err := t.CheckMemory(); err != nil {
			t.Close()
			return nil, f.NameFlags(err)
		}
	}
	return t, nil
}

// NameFlags adds to an error the flags that decide what is too large, or that made the run diverge.
func (f *Flags) NameFlags(err error) error {
	var diverged *train.DivergedError
	var batch *lossgraph.BatchSizeError
	var memory *train.MemoryError
	switch {
	case errors.As(err, &diverged):
		switch diverged.Option {
		case "Schedule":
			diverged.Remedy += " (--adam-alpha)"
		case "ComputeType":
			diverged.Remedy += " (--compute-type f32)"
		}
	case errors.As(err, &batch) && batch.MaxTokens >= batch.Length:
		return fmt.Errorf("--batch %d: with samples of %s, a batch can have at most %d; a larger --grad-acc keeps the number of samples per step",
			batch.Batch, cli.Count(batch.Length, "token"), batch.MaxTokens/batch.Length)
	case errors.As(err, &batch):
		return fmt.Errorf("--ctx %d: a sample of %s is too long: this model can train on %d at a time", f.Ctx, cli.Count(batch.Length, "token"), batch.MaxTokens)
	case errors.As(err, &memory) && f.Batch > 1:
		return fmt.Errorf("--batch %d: %w; a smaller --batch with a larger --grad-acc trains on as many samples per step; --use-checkpointing tries this batch all the same", f.Batch, memory)
	case errors.As(err, &memory):
		return fmt.Errorf("--ctx %d: %w; --use-checkpointing tries it all the same", f.Ctx, memory)
	}
	return err
}

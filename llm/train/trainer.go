package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/weightcache"
)

// StepMetrics are the metrics of one optimiser step.
type StepMetrics struct {
	Step         int     // counted from 1
	Loss         float64 // mean cross-entropy per token, nats, or Options.Loss
	LearningRate float64
	GradNorm     float64    // global gradient norm before clipping
	Tokens       int        // number of trained tokens, with nonzero weight
	RowTokens    int        // number of tokens of its rows, without padding; 0 in checkpoints from before Epoch existed
	Epoch        float64    // passes over the data completed after it, such as 0.25
	Rewards      *Rewards   // of a Loss that has them; otherwise nil
	Distilled    *Distilled // of a Loss with a Teacher; otherwise nil
}

// A Trainer fits parameters to a data set. It is used by one goroutine. Close it before the model, the
// adapters and the data.
type Trainer struct {
	m         *model.Model
	data      *data.Dataset
	options   Options
	engine    *device.Engine
	group     parallel.Group
	opt       *optimizer
	reduction *reduction // all-reduce of gradients; nil for one process
	adapters  model.Adapters
	shape     batchShape // of the batches of steps
	loss      *bucketGraphs
	scores    *bucketGraphs      // log-probabilities for Options.Loss, in the memory of loss; nil if no step needs them first
	computing *step              // the step whose batches are being computed
	copies    *weightcache.Cache // copies of weights that loss multiplies with; nil if none
	// checkpointing reports whether loss recomputes results of layers, except as many as take keep bytes.
	checkpointing bool
	keep          int64
	scalesLoss    *bool // as agreed by the group; nil before the first step
	evaluator     *Evaluator
	shuffler      data.Shuffler
	shuffle       shuffle
	schedule      Schedule // the options' schedule with the number of steps, see plan
	closed        bool
	access        exclusive.Access // for all methods except Run, which calls them
	running       exclusive.Access // for Run

	fixed   []setting // settings compared with checkpoints, read on first use
	changes []Difference
	saved   savedCheckpoint
	limit   string // limit of RunOptions that has been reached, in words

	step        int           // completed optimiser steps
	position    int           // rows seen in completed steps, counted across epochs
	tokens      int           // trained tokens
	computed    int           // tokens computed by this trainer, with padding
	laidOut     int           // tokens that full rows would have had
	lowest      int           // index in History of the lowest loss
	History     []StepMetrics // of all steps
	Evaluations []Evaluation  // made by Run
}

// New returns a trainer.
func New(m *model.Model, trained Trainables, d *data.Dataset, o Options) (*Trainer, error) {
	t, err := prepare(m, trained, d, o)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(t.opt.clear(), t.makeCopies()); err != nil {
		t.Close()
		return nil, err
	}
	t.plan()
	return t, nil
}

// prepare creates a trainer without clearing its optimizer and filling copies.
func prepare(m *model.Model, trained Trainables, d *data.Dataset, o Options) (*Trainer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := m.CheckOpen(); err != nil {
		return nil, err
	}
	if err := CheckModel(m); err != nil {
		return nil, err
	}
	params, err := trained.params(m, o.LoRAPlus)
	if err != nil {
		return nil, err
	}
	if err := d.Check(m.Config().Vocab); err != nil {
		return nil, err
	}
	t := &Trainer{
		m: m, data: d, options: o, group: parallel.OrAlone(o.Group), adapters: lora.Join(trained.Adapters, trained.Frozen),
		shuffler: data.Shuffler{Seed: o.Seed, N: d.Len()}, shuffle: shuffle{seed: o.Seed},
	}
	if err := t.open(params); err != nil {
		t.Close()
		return nil, err
	}
	if o.GroupByLength {
		t.shuffler.Group = o.Batch
		t.shuffler.Bucket = func(row int) int { return t.loss.bucket(d.Predicted(row)) }
	}
	return t, nil
}

func (t *Trainer) open(params []parameter) error {
	var err error
	if t.engine = t.options.Engine; t.engine == nil {
		if t.engine, err = device.New(device.Options{Layout: t.m.Layout(), Threads: t.options.Threads}); err != nil {
			return err
		}
	}
	if n, devices := len(t.options.Memory), len(t.engine.Devices()); t.options.Memory != nil && n != devices {
		return fmt.Errorf("Memory has the limits of %d devices, and the engine has %d; it needs one for each", n, devices)
	}
	t.evaluator, err = NewEvaluator(t.m, EvaluatorOptions{Engine: t.engine, Batch: t.options.Batch, Group: t.group})
	if err != nil {
		return err
	}
	if t.shape, err = t.options.stepShape(t.m.Architecture(), t.data, t.batchRows()); err != nil {
		return err
	}
	if t.opt, err = newOptimizer(t.engine, t.options.AdamW, params, t.shape); err != nil {
		return err
	}
	t.reduction = newReduction(t.group, t.opt)
	return t.buildStep()
}

// plan computes the total number of steps from the current position.
func (t *Trainer) plan() {
	t.schedule = t.options.Schedule
	t.schedule.Steps = t.options.stepsFrom(t.step, t.position, t.data.Len())
}

// perStep returns the number of rows of a full step.
func (t *Trainer) perStep() int { return t.options.perStep() }

// LearningRate returns the learning rate of a step of the run, counted from 1, see [Schedule.At].
func (t *Trainer) LearningRate(step int) float64 { return t.schedule.At(step) }

// TotalSteps returns the number of optimiser steps of the whole run.
func (t *Trainer) TotalSteps() int { return t.schedule.Steps }

func (t *Trainer) checkOpen() error {
	switch {
	case t == nil:
		return errors.New("the trainer is nil")
	case t.m == nil:
		return fmt.Errorf("the trainer is a zero value; New makes one: %w", ggml.ErrZeroValue)
	case t.closed:
		return fmt.Errorf("trainer: %w", ggml.ErrClosed)
	}
	return t.m.CheckOpen()
}

// Close frees the trainer; model and adapters stay open. It fails only while another call uses the trainer.
func (t *Trainer) Close() error {
	if t == nil {
		return nil
	}
	if err := t.access.Acquire("Trainer.Close", "Trainer"); err != nil {
		return err
	}
	defer t.access.Release()
	t.closed = true
	t.closeGraphs()
	t.copies.Close()
	t.evaluator.Close()
	t.opt.close()
	if t.options.Engine != nil {
		return nil
	}
	return t.engine.Close()
}

// Steps returns the number of completed optimiser steps.
func (t *Trainer) Steps() int { return t.step }

// PaddingSaved returns the fraction of tokens that this trainer did not compute because batches were
// shorter than full rows.
func (t *Trainer) PaddingSaved() float64 {
	if t.laidOut == 0 {
		return 0
	}
	return 1 - float64(t.computed)/float64(t.laidOut)
}

// Memory returns the memory of gradients, moments, weight copies, and the results of steps and
// evaluations. It is known after the first of each; [EstimateMemory] computes it before.
func (t *Trainer) Memory() layout.Sizes {
	if t.opt == nil { // zero value
		return nil
	}
	return t.opt.sizes().Plus(t.copies.Sizes()).Plus(t.loss.Memory()).Plus(t.evaluator.Memory())
}

// Step runs one optimiser step. If it fails or is cancelled, the parameters are unchanged, and it can
// be called again.
func (t *Trainer) Step(ctx context.Context) (StepMetrics, error) {
	if err := t.checkOpen(); err != nil {
		return StepMetrics{}, err
	}
	if ctx == nil {
		return StepMetrics{}, errNoContext
	}
	if err := t.access.Acquire("Trainer.Step", "Trainer"); err != nil {
		return StepMetrics{}, err
	}
	defer t.access.Release()
	s, err := t.compute(ctx)
	if err != nil {
		return StepMetrics{}, errors.Join(err, t.opt.grads.Clear(0))
	}
	t.step++
	t.position += s.drawn
	t.record(s.metrics)
	return s.metrics, nil
}

// record adds a step to the history.
func (t *Trainer) record(m StepMetrics) {
	t.History = append(t.History, m)
	t.tokens += m.Tokens
	if m.Loss < t.History[t.lowest].Loss {
		t.lowest = len(t.History) - 1
	}
}

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

// StepMetrics are the figures of one optimiser step.
type StepMetrics struct {
	Step         int     // from 1
	Loss         float64 // mean cross-entropy of the tokens of the step, nats
	LearningRate float64
	GradNorm     float64 // global norm of the gradient, before it is clipped
	Tokens       int     // that were trained: those whose weight is not 0
	RowTokens    int     // of its rows, without padding; 0 in checkpoints of before there was an Epoch
	Epoch        float64 // how often the data has been seen after it, such as 0.25
}

// A Trainer fits parameters to a data set. It is used by one goroutine. Close it before the
// model, the adapters and the data.
type Trainer struct {
	m         *model.Model
	data      *data.Dataset
	options   Options
	engine    *device.Engine
	group     parallel.Group
	opt       *optimizer
	reduction *reduction // of the gradients of a group; nil for one process
	adapters  model.Adapters
	loss      *bucketGraphs
	copies    *weightcache.Cache // that loss multiplies with; nil for none
	// checkpointing is whether loss recomputes each layer
	checkpointing bool
	scalesLoss    *bool // as the ranks of the group have agreed; nil before the first step
	evaluator     *Evaluator
	shuffler      data.Shuffler
	shuffle       shuffle
	schedule      Schedule // with the number of steps that there are, see plan
	closed        bool
	access        exclusive.Access // for all but Run, which calls the others
	running       exclusive.Access // for Run

	fixed   []setting // those that checkpoints compare, once they are needed
	changes []Difference
	saved   savedCheckpoint
	limit   string // of RunOptions that has been reached, in words

	step        int           // optimiser steps that are done
	position    int           // rows that they have seen, counted on through the epochs
	tokens      int           // that they trained
	computed    int           // tokens with padding, by this trainer
	laidOut     int           // tokens of as many full rows
	lowest      int           // index in History of the lowest loss
	History     []StepMetrics // of each step
	Evaluations []Evaluation  // that Run made
}

// New makes a trainer.
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

// prepare makes a trainer up to what takes memory.
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
		m: m, data: d, options: o, group: groupOf(o.Group), adapters: lora.Join(trained.Adapters, trained.Frozen),
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
	t.evaluator, err = NewEvaluator(t.m, EvaluatorOptions{Engine: t.engine, Batch: t.options.Batch, Group: t.group})
	if err != nil {
		return err
	}
	shape := shapeOfBatches(t.data, t.batchRows())
	if t.opt, err = newOptimizer(t.engine, t.options.AdamW, params, shape.tokens()); err != nil {
		return err
	}
	t.reduction = newReduction(t.group, t.opt)
	return t.buildStep()
}

// plan counts the steps of the run from where it is.
func (t *Trainer) plan() {
	t.schedule = t.options.Schedule
	t.schedule.Steps = t.options.stepsFrom(t.step, t.position, t.data.Len())
}

// perStep is the number of rows of a full step.
func (t *Trainer) perStep() int { return t.options.perStep() }

// LearningRate returns the learning rate of a step of the run, counted from 1, see [Schedule.At].
func (t *Trainer) LearningRate(step int) float64 { return t.schedule.At(step) }

// TotalSteps is the number of optimiser steps of the whole run.
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
	if t.loss != nil {
		t.loss.Close()
	}
	t.copies.Close()
	t.evaluator.Close()
	t.opt.close()
	if t.options.Engine != nil {
		return nil
	}
	return t.engine.Close()
}

// Steps is the number of optimiser steps that are done.
func (t *Trainer) Steps() int { return t.step }

// PaddingSaved is the share of the tokens of all steps, in full rows, that this trainer did
// not compute because batches were shorter.
func (t *Trainer) PaddingSaved() float64 {
	if t.laidOut == 0 {
		return 0
	}
	return 1 - float64(t.computed)/float64(t.laidOut)
}

// Memory returns the sizes of gradients, moments, copies of weights and the results of steps and
// evaluations; known after the first of each, and before by [EstimateMemory].
func (t *Trainer) Memory() layout.Sizes {
	if t.opt == nil { // of a zero value
		return nil
	}
	return t.opt.sizes().Plus(t.copies.Sizes()).Plus(t.loss.Memory()).Plus(t.evaluator.Memory())
}

// Step runs one optimiser step. If it fails or is cancelled, the parameters stay as they were, and
// it can be called again.
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
	t.position += len(s.rows)
	t.record(s.metrics)
	return s.metrics, nil
}

// record adds to the history.
func (t *Trainer) record(m StepMetrics) {
	t.History = append(t.History, m)
	t.tokens += m.Tokens
	if m.Loss < t.History[t.lowest].Loss {
		t.lowest = len(t.History) - 1
	}
}

package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Options are the settings of a run. All but Engine and Threads decide its result;
// Checkpointing does so by rounding alone.
type Options struct {
	Schedule Schedule
	// Epochs ends the run once each sample has been seen that many times, in a step that
	// is shorter where need be; 0 leaves that to Schedule.Steps. With both the run ends at
	// what comes first.
	Epochs int
	AdamW  AdamW
	// LoRAPlus is the learning rate of the B matrices of adapters over that of all else
	// (LoRA+, arXiv 2402.12354, which advises 16); 0 stands for 1.
	LoRAPlus float64
	// Convergence ends the run before its last step.
	Convergence Convergence
	Batch       int // rows of the data set computed together
	Accumulate  int // batches of one optimiser step
	Seed        uint64
	// GroupByLength puts rows of similar length into a batch, which is then as short as they
	// are: random rows of a bucket of lengths, in batches of random order. Steps of one
	// batch then see short rows alone, or long ones. Rows of a step are sorted into its
	// batches in any case, which changes nothing.
	GroupByLength bool

	// Dropout and NEFTune make the steps noisy, and evaluations not, see
	// [model.TrainGraphOptions]; 0 is none. They draw by Seed and step: a run that is
	// continued draws the same.
	Dropout, NEFTune float32

	// Engine computes, on the device of the model; nil makes one of Threads threads (0 for
	// [ggml.DefaultThreads]), which Close closes.
	Engine  *device.Engine
	Threads int
	// Checkpointing trades time for memory; by default where there is too little of it.
	Checkpointing Checkpointing
	// ComputeType is the type of the products with frozen weights in the steps, see
	// [model.TrainGraphOptions]: ggml.F32, the zero value, ggml.BF16 or ggml.F16. Evaluations are
	// always in F32, and so comparable between machines.
	ComputeType ggml.Type
}

func (o *Options) validate() error {
	switch {
	case o.Batch < 1 || o.Accumulate < 1:
		return fmt.Errorf("a step of %d batches of %d samples is empty", o.Accumulate, o.Batch)
	case o.Batch > math.MaxInt32 || o.Accumulate > math.MaxInt32 || o.Schedule.Steps > math.MaxInt32:
		return fmt.Errorf("a run of %d steps of %d batches of %d samples is too long; each can be at most %d", o.Schedule.Steps, o.Accumulate, o.Batch, math.MaxInt32)
	case o.Schedule.Steps < 0 || o.Epochs < 0 || o.Schedule.Steps == 0 && o.Epochs == 0:
		return fmt.Errorf("a run of %d steps and %d epochs is empty", o.Schedule.Steps, o.Epochs)
	case !belowOne(o.AdamW.Beta1) || !belowOne(o.AdamW.Beta2):
		return fmt.Errorf("β₁ is %v and β₂ %v; they must be in [0, 1), in single precision too: at most 0.9999999", o.AdamW.Beta1, o.AdamW.Beta2)
	case !positive(o.AdamW.Epsilon) || !(o.AdamW.Decay >= 0) || !(o.AdamW.Clip >= 0) || !finite(o.AdamW.Decay, o.AdamW.Clip):
		return fmt.Errorf("ε is %v, the weight decay %v, the gradient clip %v; all must be finite, ε positive, the others not negative", o.AdamW.Epsilon, o.AdamW.Decay, o.AdamW.Clip)
	case o.Checkpointing < CheckpointingAuto || o.Checkpointing > CheckpointingOff:
		return fmt.Errorf("the checkpointing is %d; it is CheckpointingAuto, CheckpointingOn or CheckpointingOff", int(o.Checkpointing))
	case o.AdamW.DecayMinDims < 0:
		return fmt.Errorf("parameters decay from %d dimensions on; it must be 0, for all, or more", o.AdamW.DecayMinDims)
	case o.LoRAPlus != 0 && (!positive(o.LoRAPlus) || !finite(o.LoRAPlus*o.Schedule.Peak)):
		return fmt.Errorf("the learning rate of B is %v times that of A; it must be positive and finite, or 0 for 1", o.LoRAPlus)
	}
	return errors.Join(o.Schedule.validate(), o.Convergence.validate())
}

// The optimiser computes in single precision: settings count as what they are there.

// finite reports whether all are numbers below infinity.
func finite(list ...float64) bool {
	return !slices.ContainsFunc(list, func(x float64) bool { return math.IsNaN(x) || math.IsInf(float64(float32(x)), 0) })
}

func positive(x float64) bool { return float32(x) > 0 && finite(x) }

// belowOne reports whether a decay rate lets anything new in.
func belowOne(beta float64) bool { return beta >= 0 && float32(beta) < 1 }

// StepMetrics are the figures of one optimiser step.
type StepMetrics struct {
	Step         int     // from 1
	Loss         float64 // mean cross-entropy of the tokens of the step, nats
	LearningRate float64
	GradNorm     float64 // global norm of the gradient, before it is clipped
	Tokens       int     // that were learned: those whose weight is not 0
}

// A Trainer fits parameters to a data set. It is used by one goroutine. Close it before the
// model, the adapters and the data.
type Trainer struct {
	m        *model.Model
	data     *data.Dataset
	options  Options
	engine   *device.Engine
	opt      *optimizer
	adapters model.Adapters
	loss     *bucketGraphs
	// checkpointing is whether loss recomputes each layer
	checkpointing bool
	evals         []*evalGraph // the one used last is first
	sampler       data.Sampler
	shuffle       shuffle
	schedule      Schedule // with the number of steps that there are, see plan
	closed        bool

	fixed   []setting // those that checkpoints compare, once they are needed
	changes []Difference
	saved   savedCheckpoint
	limit   string // of RunOptions that has been reached, in words

	step        int           // optimiser steps that are done
	position    int           // rows that they have seen, counted on through the epochs
	tokens      int           // that they learned
	computed    int           // tokens with padding, by this trainer
	laidOut     int           // tokens of as many full rows
	lowest      int           // index in History of the lowest loss
	History     []StepMetrics // of each step
	Evaluations []Evaluation  // that Run made
}

// Trainables are what a run trains, and what takes part unchanged.
type Trainables struct {
	Adapters model.Adapters // of which A and B are trained, F32 tensors on the model's device
	Frozen   model.Adapters // further adapters, which stay as they are
	Weights  []*ggml.Tensor // of the model, F32
}

// params lists the tensors that are trained: those of adapters in the order of the
// model's weights, then the weights.
func (x Trainables) params(m *model.Model, loraPlus float64) ([]parameter, error) {
	var list []parameter
	const matrix = 2 // dimensions, which a rank of 1 hides
	for _, w := range m.Config.Weights() {
		for _, p := range x.Adapters[w.Name] {
			if p.Scale == 0 {
				return nil, fmt.Errorf("the adapter of %s cannot be trained: its scale is 0", w.Name)
			}
			list = append(list, parameter{p.A, matrix, 1}, parameter{p.B, matrix, cmp.Or(loraPlus, 1)})
		}
	}
	for _, w := range x.Weights {
		own := m.Weight(w.Name())
		switch {
		case own == nil || !w.Is(own):
			return nil, fmt.Errorf("the parameter %v is no weight of the model", w)
		case m.Repacked():
			return nil, fmt.Errorf("the weight %v cannot be trained: sessions compute with copies of matrices; load the model without Repack", w)
		case !m.Trainable(w.Name()):
			return nil, fmt.Errorf("the weight %v cannot be trained: no gradient flows to it", w)
		}
		list = append(list, parameter{own, own.NumDims(), 1})
	}
	return list, checkParams(list)
}

// New makes a trainer.
func New(m *model.Model, trained Trainables, d *data.Dataset, o Options) (*Trainer, error) {
	t, err := prepare(m, trained, d, o)
	if err != nil {
		return nil, err
	}
	if err := t.opt.clear(); err != nil {
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
	params, err := trained.params(m, o.LoRAPlus)
	if err != nil {
		return nil, err
	}
	if err := d.Check(m.Vocab); err != nil {
		return nil, err
	}
	t := &Trainer{
		m: m, data: d, options: o, adapters: lora.Join(trained.Adapters, trained.Frozen),
		sampler: data.Sampler{Seed: o.Seed, N: d.Len()}, shuffle: shuffle{seed: o.Seed},
	}
	if err := t.open(params); err != nil {
		t.Close()
		return nil, err
	}
	if o.GroupByLength {
		t.sampler.Group = o.Batch
		t.sampler.Bucket = func(row int) int { return t.loss.bucket(d.Predicted(row)) }
	}
	return t, nil
}

func (t *Trainer) open(params []parameter) error {
	var err error
	if t.engine = t.options.Engine; t.engine == nil {
		if t.engine, err = device.New(device.Options{Device: t.m.Device(), Threads: t.options.Threads}); err != nil {
			return err
		}
	}
	if t.opt, err = newOptimizer(t.engine, t.options.AdamW, params); err != nil {
		return err
	}
	return t.choose()
}

// plan counts the steps of the run from where it is.
func (t *Trainer) plan() {
	t.schedule = t.options.Schedule
	if t.options.Epochs == 0 {
		return
	}
	left := (float64(t.options.Epochs)*float64(t.data.Len()) - float64(t.position)) / float64(t.perStep())
	byEpochs := int(min(float64(t.step)+math.Ceil(max(0, left)), math.MaxInt32))
	if t.schedule.Steps == 0 || byEpochs < t.schedule.Steps {
		t.schedule.Steps = byEpochs
	}
}

// perStep is the number of rows of a full step.
func (t *Trainer) perStep() int { return t.options.Batch * t.options.Accumulate }

// TotalSteps is the number of optimiser steps of the whole run.
func (t *Trainer) TotalSteps() int { return t.schedule.Steps }

func (t *Trainer) checkOpen() error {
	if t.closed {
		return fmt.Errorf("trainer: %w", ggml.ErrClosed)
	}
	return t.m.CheckOpen()
}

// checkParams demands parameters in F32, under names of their own: a checkpoint tells
// them apart by name.
func checkParams(params []parameter) error {
	if len(params) == 0 {
		return errors.New("there are no parameters to train")
	}
	seen := map[string]bool{}
	for _, p := range params {
		switch {
		case seen[p.Name()]:
			return fmt.Errorf("%q names two matrices; a parameter needs a name of its own", p.Name())
		case p.Type() != ggml.F32:
			return fmt.Errorf("the parameter %v cannot be trained: only F32 can", p.Tensor)
		}
		seen[p.Name()] = true
	}
	return nil
}

// Close frees the trainer; model and adapters stay open. It never fails.
func (t *Trainer) Close() error {
	t.closed = true
	if t.loss != nil {
		t.loss.Close()
	}
	for _, e := range t.evals {
		e.graph.Close()
	}
	t.evals = nil
	t.opt.close()
	if t.options.Engine != nil {
		return nil
	}
	return t.engine.Close()
}

// Steps is the number of optimiser steps that are done.
func (t *Trainer) Steps() int { return t.step }

// StepTokens is the number of tokens in the rows of a full step, which it computes at most.
func (t *Trainer) StepTokens() int { return t.data.Length * t.perStep() }

// PaddingSaved is the share of the tokens of all steps, of [Trainer.StepTokens] each, that
// this trainer did not compute because batches were shorter than full rows.
func (t *Trainer) PaddingSaved() float64 {
	if t.laidOut == 0 {
		return 0
	}
	return 1 - float64(t.computed)/float64(t.laidOut)
}

// Memory is the size in bytes of gradients, moments and the results of steps and
// evaluations; known after the first of each, and before by [EstimateMemory].
func (t *Trainer) Memory() int64 {
	n := t.opt.memory() + t.loss.Memory()
	for _, e := range t.evals {
		n += e.graph.Memory()
	}
	return n
}

// Step runs one optimiser step. When it fails, or is cancelled, the parameters
// are those of the step before, and it can be called again.
func (t *Trainer) Step(ctx context.Context) (StepMetrics, error) {
	if err := t.checkOpen(); err != nil {
		return StepMetrics{}, err
	}
	rows, err := t.nextRows()
	if err != nil {
		return StepMetrics{}, err
	}
	if len(rows) == 0 {
		return StepMetrics{}, fmt.Errorf("step %d: all samples have been seen as often as Epochs says", t.step+1)
	}
	batches := t.loss.batches(rows)
	total := weightOf(batches)
	if total == 0 {
		return StepMetrics{}, fmt.Errorf("step %d: no token of its samples is learned; check the data and its masks", t.step+1)
	}
	metrics := StepMetrics{Step: t.step + 1, LearningRate: t.schedule.At(t.step + 1), Tokens: learned(batches...)}
	err = t.accumulate(ctx, batches, total, &metrics)
	if err == nil {
		err = t.apply(ctx, &metrics)
	}
	if err != nil {
		return StepMetrics{}, errors.Join(err, t.opt.grads.Clear(0))
	}
	t.step++
	t.position += len(rows)
	t.record(metrics)
	return metrics, nil
}

// record adds to the history.
func (t *Trainer) record(m StepMetrics) {
	t.History = append(t.History, m)
	t.tokens += m.Tokens
	if m.Loss < t.History[t.lowest].Loss {
		t.lowest = len(t.History) - 1
	}
}

func (t *Trainer) accumulate(ctx context.Context, batches []model.Batch, total float64, metrics *StepMetrics) error {
	for n, b := range batches {
		b.Noise = model.Noise{Seed: t.options.Seed, Step: metrics.Step, Row: n * t.options.Batch}
		for i := range b.Weights {
			b.Weights[i] = float32(float64(b.Weights[i]) / total)
		}
		losses, err := t.loss.Compute(ctx, b)
		if err != nil {
			return err
		}
		t.computed += len(b.Tokens)
		t.laidOut += t.options.Batch * t.data.Length
		for i, l := range losses {
			if b.Weights[i] != 0 {
				metrics.Loss += float64(b.Weights[i]) * float64(l)
			}
		}
	}
	return nil
}

func (t *Trainer) apply(ctx context.Context, metrics *StepMetrics) error {
	var err error
	if metrics.GradNorm, err = t.opt.gradientNorm(ctx); err != nil {
		return err
	}
	if x := metrics.Loss + metrics.GradNorm; math.IsNaN(x) || math.IsInf(x, 0) {
		return t.diverged(fmt.Sprintf("step %d: the loss is %v, the norm of the gradient %v", metrics.Step, metrics.Loss, metrics.GradNorm))
	}
	return t.opt.step(metrics.Step, metrics.LearningRate, metrics.GradNorm)
}

// nextRows are those of the next step: fewer than usual at the end of the last epoch.
func (t *Trainer) nextRows() ([]data.Row, error) {
	n := t.perStep()
	if e := t.options.Epochs; e > 0 {
		n = int(min(float64(n), max(0, float64(e)*float64(t.data.Len())-float64(t.position))))
	}
	return readRows(t.data, n, func(i int) int { return t.row(t.position + i) })
}

// weightOf adds up the weights of all tokens.
func weightOf(batches []model.Batch) float64 {
	total := 0.0
	for _, b := range batches {
		for _, w := range b.Weights {
			total += float64(w)
		}
	}
	return total
}

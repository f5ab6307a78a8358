package ggml

import (
	"context"
	"time"
)

// EpochProgress is the argument of the progress function of [Optimizer.Epoch], called after each
// batch.
type EpochProgress struct {
	Train   bool          // false during evaluation
	Batch   int64         // batches done, from 1
	Batches int64         // total batches of this part
	Result  *OptResult    // result of this part so far, as passed to Epoch; may be nil
	Elapsed time.Duration // since the part began
}

// EpochOptions are the settings of [Optimizer.Epoch]. The zero value evaluates all samples, without
// progress reports.
type EpochOptions struct {
	// TrainSamples is the number of samples at the start to train on; the rest is evaluated. A
	// negative number means all.
	TrainSamples int64
	Train, Eval  *OptResult          // result of each part is added here; may be nil
	Progress     func(EpochProgress) // called after each batch; may be nil
}

// Epoch trains on the first samples of the data set, in their current order, and then evaluates the
// rest. The graph must be static.
//
// The inputs determine the batch size. It divides TrainSamples and the number of samples, and a
// period of batches divides TrainSamples. Cancelling ctx ends the epoch before the next batch, with
// the cause. C: ggml_opt_epoch.
func (o *Optimizer) Epoch(ctx context.Context, d *Dataset, e EpochOptions) error {
	if o == nil || d == nil || ctx == nil {
		return optError(errNil, "the optimizer, the data set or the context.Context is nil")
	}
	for _, h := range []*handle{o.h, d.h} {
		if err := h.acquire(); err != nil {
			return during(err)
		}
		defer h.release()
	}
	if !o.epoch.TryLock() {
		return optError(nil, "the optimizer runs an epoch already")
	}
	defer o.epoch.Unlock()
	if e.TrainSamples < 0 {
		e.TrainSamples = d.NumSamples()
	}
	batch, err := o.checkEpoch(d, e.TrainSamples)
	if err != nil {
		return err
	}
	parts := []epochPart{
		{train: true, first: 0, last: e.TrainSamples / batch, result: e.Train},
		{train: false, first: e.TrainSamples / batch, last: d.NumSamples() / batch, result: e.Eval},
	}
	for _, p := range parts {
		if err := o.runPart(ctx, d, p, e.Progress); err != nil {
			return err
		}
	}
	return nil
}

// An epochPart is a range of batches.
type epochPart struct {
	train       bool
	first, last int64
	result      *OptResult
}

func (o *Optimizer) runPart(ctx context.Context, d *Dataset, p epochPart, progress func(EpochProgress)) error {
	start := time.Now()
	for i := p.first; i < p.last; i++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := o.Allocate(p.train); err != nil {
			return err
		}
		t := o.present() // after Allocate: a large graph then has new labels
		if err := d.CopyBatch(t.inputs, t.labels, i); err != nil {
			return err
		}
		if err := o.Eval(p.result); err != nil {
			return err
		}
		if progress != nil {
			progress(EpochProgress{
				Train: p.train, Batch: i + 1 - p.first, Batches: p.last - p.first,
				Result: p.result, Elapsed: time.Since(start),
			})
		}
	}
	return nil
}

// checkEpoch returns the size of a batch.
func (o *Optimizer) checkEpoch(d *Dataset, trained int64) (batch int64, err error) {
	if !o.IsStatic() {
		return 0, optError(nil, "the optimizer has dynamic graphs; give Inputs and Outputs to NewOptimizer")
	}
	t := o.present()
	release, err := retainChecked(o.ctx.withDependencies())
	if err != nil {
		return 0, during(err)
	}
	defer release()
	if t.labels == nil && o.options.Loss.hasLabels() {
		t.labels = t.outputs // of this shape, once made
	}
	batch = t.inputs.ne[1]
	n, period := d.NumSamples(), int64(o.options.Period)
	switch {
	case t.inputs.ne[2] != 1 || t.inputs.ne[3] != 1 || t.inputs.ne[0] != d.data.ne[0]:
		return 0, t.inputs.errorf(nil, "the inputs must be [%d, k] for k samples of the data set", d.data.ne[0])
	case t.outputs.ne[1] != batch:
		return 0, t.outputs.errorf(nil, "the outputs must have a row for each of the %d samples of the inputs", batch)
	case t.labels == nil && d.labels != nil:
		return 0, optError(nil, "the data set has labels, which the loss %q ignores; set Loss to LossMeanSquaredError or LossCrossEntropy, or make the data set with labels of 0 elements", o.options.Loss)
	case t.labels != nil && d.labels == nil:
		return 0, optError(nil, "the loss needs labels, but the data set has none")
	case batch > n:
		return 0, optError(nil, "the batch takes %d samples; the data set has only %d: make ne1 of the inputs no larger", batch, n)
	case n%batch != 0:
		return 0, optError(nil, "the data set has %d samples; that must be a multiple of the batch, %d: leave out %d samples, or make ne1 of the inputs a divisor", n, batch, n%batch)
	case trained > n:
		return 0, optError(nil, "TrainSamples is %d; the data set has only %d samples", trained, n)
	case trained%(batch*period) != 0:
		return 0, optError(nil, "TrainSamples is %d; it must be a multiple of %d batches of %d samples", trained, period, batch)
	case trained > 0 && o.options.Build != BuildOptimizer:
		return 0, optError(nil, "the optimizer is only for evaluation: TrainSamples must be 0")
	case batch%d.shard != 0:
		return 0, optError(nil, "the batch takes %d samples; that must be a multiple of the shard, %d", batch, d.shard)
	}
	return batch, d.fits(t.inputs, t.labels)
}

// FitOptions are the settings of [Fit].
type FitOptions struct {
	// Inputs and Outputs belong to the network, a static graph.
	Inputs, Outputs *Tensor

	// Loss is usually LossMeanSquaredError or LossCrossEntropy. The zero value, LossMean, takes no
	// labels: the outputs are the losses of the samples.
	Loss      LossType
	Optimizer OptimizerType

	// LearningRate is the learning rate of every step; 0 means the default. DefaultOptimizerParams has
	// all other settings.
	LearningRate float32
	// Params, if given, returns the settings, such as the learning rate, of each step instead;
	// epoch and iteration count from 1.
	Params func(epoch int, iteration int64) OptimizerParams

	Epochs int // at least 1

	// LogicalBatch is the number of samples per step, a multiple of the batch size, which is the
	// second dimension of Inputs; 0 means that batch size. It must divide the number of samples.
	LogicalBatch int64

	// Validation is the fraction of samples, 0 ≤ Validation < 1, to evaluate after each epoch
	// instead of training on them.
	Validation float64

	// Progress is called after each batch; it may be nil.
	Progress func(FitProgress)
}

// FitProgress is the argument of the progress function of [Fit], called after each batch.
type FitProgress struct {
	EpochProgress
	Epoch  int // counts from 1
	Epochs int
}

// Fit trains the parameters of Outputs on the data set: it makes an [Optimizer] with a static graph
// of Inputs and Outputs, shuffles the samples, reserves the last ones for validation, and runs the
// epochs, each in a new order (reproducible: ggml shuffles with a fixed seed).
//
// Inputs and parameters must be allocated, see [Context.Allocate]; results of ops may be. To
// predict afterwards, make a graph of the outputs, allocate it, write the inputs (they hold the
// last batch), and compute.
//
// It prints nothing. Cancelling ctx ends it before the next batch, with the cause, and leaves the
// parameters as they are then. C: ggml_opt_fit.
func Fit(ctx context.Context, d *Dataset, options FitOptions, backends ...*Backend) error {
	if d == nil || ctx == nil {
		return optError(errNil, "the data set or the context.Context is nil")
	}
	for _, t := range []*Tensor{options.Inputs, options.Outputs} {
		if err := t.missing(); err != nil {
			return err
		}
	}
	period, trained, err := options.plan(d, options.Inputs.ne[1])
	if err != nil {
		return err
	}
	epoch := 1
	var params func(int64) OptimizerParams
	switch {
	case options.Params != nil:
		params = func(iteration int64) OptimizerParams { return options.Params(epoch, iteration) }
	case options.LearningRate != 0:
		constant := DefaultOptimizerParams()
		constant.AdamW.LearningRate, constant.SGD.LearningRate = options.LearningRate, options.LearningRate
		params = ConstantParams(constant)
	}
	o, err := NewOptimizer(OptimizerOptions{
		Loss: options.Loss, Optimizer: options.Optimizer, Period: period, Params: params,
		Inputs: options.Inputs, Outputs: options.Outputs,
	}, backends...)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := d.Shuffle(o, -1); err != nil {
		return err
	}
	for ; epoch <= options.Epochs; epoch++ {
		if err := o.fitEpoch(ctx, d, trained, epoch, options); err != nil {
			return err
		}
	}
	return nil
}

func (o *Optimizer) fitEpoch(ctx context.Context, d *Dataset, trained int64, epoch int, options FitOptions) error {
	if err := d.Shuffle(o, trained); err != nil {
		return err
	}
	train, err := NewOptResult()
	if err != nil {
		return err
	}
	defer train.Close()
	eval, err := NewOptResult()
	if err != nil {
		return err
	}
	defer eval.Close()
	var progress func(EpochProgress)
	if options.Progress != nil {
		progress = func(p EpochProgress) { options.Progress(FitProgress{p, epoch, options.Epochs}) }
	}
	return o.Epoch(ctx, d, EpochOptions{TrainSamples: trained, Train: train, Eval: eval, Progress: progress})
}

// plan checks the numbers, and returns the number of batches per step and the number of samples to
// train on.
func (f *FitOptions) plan(d *Dataset, batch int64) (period int, trained int64, err error) {
	n, logical := d.NumSamples(), f.LogicalBatch
	if logical == 0 {
		logical = batch
	}
	switch {
	case f.Epochs < 1:
		return 0, 0, optError(nil, "%d epochs: there must be at least 1", f.Epochs)
	case logical < 1 || logical%batch != 0 || logical/batch > 1<<30:
		return 0, 0, optError(nil, "the logical batch is %d samples; it must be a multiple of the batch of the inputs, %d", logical, batch)
	case logical > n:
		return 0, 0, optError(nil, "a step takes %d samples; the data set has only %d: make ne1 of the inputs, which is the batch, or LogicalBatch smaller", logical, n)
	case n%logical != 0:
		return 0, 0, optError(nil, "the data set has %d samples; that must be a multiple of the %d of a step: leave out %d samples, or make ne1 of the inputs, which is the batch, a divisor", n, logical, n%logical)
	case batch%d.shard != 0:
		return 0, 0, optError(nil, "the batch takes %d samples; that must be a multiple of the shard, %d", batch, d.shard)
	case !(f.Validation >= 0 && f.Validation < 1):
		return 0, 0, optError(nil, "the part for validation is %v; it must be at least 0 and below 1", f.Validation)
	}
	// Rounded, so that 0.1 of 10 steps is one step.
	held := int64(f.Validation*float64(n/logical) + 0.5)
	if held == n/logical {
		held--
	}
	return int(logical / batch), n - held*logical, nil
}

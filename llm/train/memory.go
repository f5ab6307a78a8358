package train

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// Checkpointing selects which results of layers steps keep for the backward pass, which recomputes the
// others from the inputs of layers (gradient checkpointing, arXiv 1604.06174). Recomputing all is about
// a third slower and takes a fraction of the memory. Losses, gradients and parameters are the same bytes
// whatever is kept.
type Checkpointing int

// CheckpointingAuto keeps as many results as fit into [Options].Memory: those that save most work for their
// memory. CheckpointingOn recomputes all, CheckpointingOff keeps all.
const (
	CheckpointingAuto Checkpointing = iota
	CheckpointingOn
	CheckpointingOff
)

// String returns "auto", "on" or "off".
func (c Checkpointing) String() string {
	names := []string{"auto", "on", "off"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Checkpointing(%d)", int(c))
	}
	return names[c]
}

// resolved returns CheckpointingOn or CheckpointingOff.
func resolved(on bool) Checkpointing {
	if on {
		return CheckpointingOn
	}
	return CheckpointingOff
}

// A MemoryEstimate is the memory of a run on each device of a layout, by purpose.
type MemoryEstimate struct {
	Weights     layout.Sizes // of the model
	Adapters    layout.Sizes
	Optimizer   layout.Sizes // gradients, moments and results of the update
	Copies      layout.Sizes // copies of frozen weights, see [Options]
	Step        layout.Sizes // results of a step
	Evaluations layout.Sizes // results of evaluations, and of the check before saving
	Program     layout.Sizes // memory outside of tensors, see [Plan]

	Keep       int64   // Options.Keep of the run
	Recomputed float64 // see [Trainer.Recomputed]
}

// Total returns the sum for each device.
func (e MemoryEstimate) Total() layout.Sizes {
	return e.Weights.Plus(e.Adapters).Plus(e.Optimizer).Plus(e.Copies).Plus(e.Step).Plus(e.Evaluations).Plus(e.Program)
}

// EstimateMemory returns the memory that a run of [New] would take in a layout, including evaluations
// of these data sets. Plans use the same figures, see [AddEstimate]. The model is on the CPU, mapped
// from its file; its data is not read, and nothing is computed. CheckpointingAuto is treated as off,
// and nil WeightCopies as none.
func EstimateMemory(l layout.Layout, m *model.Model, trained Trainables, d *data.Dataset, o Options, evaluated ...*data.Dataset) (MemoryEstimate, error) {
	e, _, err := estimateMemory(l, m, trained, d, o, evaluated...)
	return e, err
}

// estimateMemory is EstimateMemory with the values of Options.Keep by which a step recomputes less, in ascending order.
func estimateMemory(l layout.Layout, m *model.Model, trained Trainables, d *data.Dataset, o Options, evaluated ...*data.Dataset) (MemoryEstimate, []int64, error) {
	needs := estimate.NewIn(l)
	sums, recomputed, err := addEstimate(needs, m, trained, d, o, evaluated...)
	if err != nil {
		return MemoryEstimate{}, nil, err
	}
	parts, err := needs.Parts(l)
	return MemoryEstimate{
		Weights: parts[model.WeightsPart], Adapters: parts[model.AdaptersPart],
		Optimizer: parts[optimizerPart], Copies: parts[copiesPart], Step: parts[stepPart], Evaluations: parts[evaluationsPart],
		Keep: o.Keep, Recomputed: recomputed,
	}, sums, err
}

// buildEvaluations builds the graphs for evaluating these data sets, and for the check before saving.
func (t *Trainer) buildEvaluations(sets []*data.Dataset) error {
	check := data.New(checkTokens, []data.Sample{{Tokens: make([]int32, checkTokens+1)}})
	for _, d := range append([]*data.Dataset{check}, sets...) {
		if err := d.Check(t.m.Config().Vocab); err != nil {
			return err
		}
		if _, err := t.evaluator.graph(t.adapters, d, t.measured()); err != nil {
			return err
		}
	}
	return nil
}

// buildStep builds the graph of a step as Options.Checkpointing says, then with the weight copies that
// fit beside it, and keeps as many results of layers as then fit.
func (t *Trainer) buildStep() error {
	isAuto := t.options.Checkpointing == CheckpointingAuto
	if err := t.buildGraphs(t.options.Checkpointing == CheckpointingOn, t.options.Keep); err != nil {
		return err
	}
	if isAuto || t.options.Memory != nil {
		fits, err := t.fits()
		if err == nil && !fits && isAuto {
			if err = t.buildGraphs(true, 0); err == nil {
				fits, err = t.fits()
			}
		}
		if err == nil && !fits && t.options.Memory != nil {
			err = t.stepError()
		}
		if err != nil {
			return err
		}
	}
	if err := t.buildWithCopies(); err != nil || !isAuto || !t.checkpointing {
		return err
	}
	return t.keepMost()
}

// keepMost rebuilds the graph of a step that keeps no results of layers with as many as fit.
func (t *Trainer) keepMost() error {
	sums := t.loss.graphs[0].Recomputed()
	return searchKeep(sums, func(keep int64) (bool, error) {
		if keep == t.keep {
			return true, nil // as it is, even if it does not fit
		}
		if err := t.buildGraphs(true, keep); err != nil {
			return false, err
		}
		return t.fits()
	})
}

// searchKeep finds the largest of the sums, or 0, that fits, which it calls last. More memory never finds less.
func searchKeep(sums []int64, fits func(keep int64) (bool, error)) error {
	low, high := 0, len(sums) // the number that fits, and the most
	keep := func(n int) int64 {
		if n == 0 {
			return 0
		}
		return sums[n-1]
	}
	last := 0
	for low < high {
		last = (low + high + 1) / 2
		ok, err := fits(keep(last))
		switch {
		case err != nil:
			return err
		case ok:
			low = last
		default:
			high = last - 1
		}
	}
	if last == low {
		return nil
	}
	_, err := fits(keep(low))
	return err
}

// batchRows returns the largest number of rows in a batch: fewer than Options.Batch if the whole
// run, or a process's share of a step, has fewer, because the rest would be empty.
func (t *Trainer) batchRows() int {
	size := t.group.Size()
	rows := min(t.options.Batch, (t.perStep()+size-1)/size)
	if t.options.Epochs == 0 || rows/t.options.Epochs < t.data.Len() {
		return rows
	}
	return t.options.Epochs * t.data.Len()
}

// buildGraphs rebuilds the graphs of a step. With checkpointing they keep results of layers in so many bytes.
func (t *Trainer) buildGraphs(checkpointing bool, keep int64) error {
	var slopes func(logProbs []float64) ([]float64, error)
	if t.takesOnePass() {
		slopes = t.slopesInPass
	}
	graphs, err := newBucketGraphs(t.m, t.engine, t.shape, lossgraph.Options{
		Adapters: t.adapters, Grads: t.opt.grad, Losses: t.opt.report, CrossEntropy: t.opt.entropy, Checkpoint: checkpointing, Keep: keep, ComputeType: t.options.ComputeType,
		Dropout: t.options.Dropout, NEFTune: t.options.NEFTune, Copies: t.copies, Hooks: t.reduction.hooks(),
		Layers: t.options.layers, LayerHook: t.options.layerHook, Slopes: slopes,
	})
	if err != nil {
		return err
	}
	t.closeGraphs()
	t.loss, t.checkpointing, t.keep = graphs, checkpointing, keep
	if !t.options.Loss.isOfSamples() || slopes != nil {
		return nil
	}
	t.scores, err = newBucketGraphs(t.m, t.engine, t.shape, lossgraph.Options{
		Adapters: t.adapters, ComputeType: t.options.ComputeType, Copies: t.copies, Workspace: graphs.workspace, Layers: t.options.layers,
		LogitsChunk: 128, // so that it needs no more memory than the step
	})
	return err
}

// closeGraphs closes the graphs of a step.
func (t *Trainer) closeGraphs() {
	t.scores.Close()
	t.loss.Close()
}

// availableMemory is replaced by tests.
var availableMemory = (*device.Engine).AvailableMemory

// fits reports whether the results of a step, with weight copies, fit.
func (t *Trainer) fits() (bool, error) {
	need, err := t.measure()
	return err == nil && within(need.Plus(t.copySizes()), t.room()), err
}

// room returns the memory for the results of a step and for weight copies: Options.Memory or, by default, four fifths of the
// available memory. The rest is left for evaluations, tokens and other programs. The system still reports the memory of
// the optimizer and of mapped weights as available.
func (t *Trainer) room() layout.Sizes {
	if t.options.Memory != nil {
		return t.options.Memory
	}
	room := slices.Clone(availableMemory(t.engine))
	for i := range room {
		room[i] = room[i] / 5 * 4
	}
	cpu := len(room) - 1
	room[cpu] -= t.opt.sizes()[cpu] + t.mapped()
	return room
}

// A StepMemoryError reports that no step fits into [Options].Memory.
type StepMemoryError struct {
	Device       string // name of the device
	Need, Memory int64  // least memory of a step, and the limit
}

// Error states the figures and the remedy.
func (e *StepMemoryError) Error() string {
	return fmt.Sprintf("a step takes at least %s of memory of %s, but Options.Memory is %s; raise it, or use smaller batches or shorter samples",
		layout.Bytes(e.Need), e.Device, layout.Bytes(e.Memory))
}

// stepError returns the error for a step that does not fit into Options.Memory.
func (t *Trainer) stepError() error {
	need, err := t.measure()
	if err != nil {
		return err
	}
	for i, n := range need {
		if memory := t.options.Memory[i]; n > memory {
			return &StepMemoryError{Device: t.engine.Devices()[i].Name(), Need: n, Memory: memory}
		}
	}
	return nil
}

// A MemoryError reports that a step needs more memory of a device than is available.
type MemoryError struct {
	Device          string // name of the device
	Need, Available int64  // memory in bytes, excluding the model
}

// Error states the figures and the remedy.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("a step takes %s of memory beside the model, but %s has only %s available; use smaller batches or shorter samples", gibibytes(e.Need), e.Device, gibibytes(e.Available))
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// CheckMemory returns a *MemoryError if steps take more memory than is available now. Steps do not
// check this themselves: some systems provide more than they report, by swapping.
func (t *Trainer) CheckMemory() error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	need, err := t.need()
	if err != nil {
		return err
	}
	for i, available := range availableMemory(t.engine) {
		if need[i] > available {
			return &MemoryError{Device: t.engine.Devices()[i].Name(), Need: need[i], Available: available}
		}
	}
	return nil
}

// need returns the memory of a step; on the CPU including the optimizer's, which is allocated but not
// yet written, so the system still reports it as available.
func (t *Trainer) need() (layout.Sizes, error) {
	need, err := t.measure()
	if err == nil {
		cpu := len(need) - 1
		need[cpu] += t.opt.sizes()[cpu]
	}
	return need, err
}

// measure returns the memory of the results of a step.
func (t *Trainer) measure() (layout.Sizes, error) {
	need, err := t.loss.Measure()
	if err != nil {
		return nil, err
	}
	if t.scores != nil { // in the same memory
		scores, err := t.scores.Measure()
		if err != nil {
			return nil, err
		}
		for i, n := range scores {
			need[i] = max(need[i], n)
		}
	}
	return need, nil
}

// mapped returns the size of the weights mapped from a file; the system reports their memory as
// available.
func (t *Trainer) mapped() int64 {
	var size int64
	for w := range t.m.Weights() {
		if bt := w.BufferType(); bt.IsHost() && bt.Name() != ggml.CPUBufferType().Name() {
			size += w.NumBytes()
		}
	}
	return size
}

// HasCheckpointing reports whether steps recompute results of layers, see [Checkpointing].
func (t *Trainer) HasCheckpointing() bool { return t.checkpointing }

// Recomputed returns the share of the work of layers' forward pass that steps repeat: 0 if they keep all results, 1 if none.
func (t *Trainer) Recomputed() float64 {
	if t.loss == nil { // zero value
		return 0
	}
	return t.loss.graphs[0].RecomputedShare()
}

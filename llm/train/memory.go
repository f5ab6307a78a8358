package train

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// Checkpointing selects whether steps recompute each layer in the backward pass from its input
// (gradient checkpointing, arXiv 1604.06174). That is about a third slower, takes a fraction of the
// memory, and changes results only by rounding.
type Checkpointing int

// CheckpointingAuto recomputes if a step that keeps all results would not fit into four fifths of the
// available memory. A resumed run keeps its original choice, if that fits.
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
	needs := estimate.NewIn(l)
	if err := AddEstimate(needs, m, trained, d, o, evaluated...); err != nil {
		return MemoryEstimate{}, err
	}
	parts, err := needs.Parts(l)
	return MemoryEstimate{
		Weights: parts[model.WeightsPart], Adapters: parts[model.AdaptersPart],
		Optimizer: parts[optimizerPart], Copies: parts[copiesPart], Step: parts[stepPart], Evaluations: parts[evaluationsPart],
	}, err
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
// fit beside it.
func (t *Trainer) buildStep() error {
	if err := t.buildAsMemoryAllows(); err != nil {
		return err
	}
	return t.buildWithCopies()
}

func (t *Trainer) buildAsMemoryAllows() error {
	if t.options.Checkpointing != CheckpointingAuto {
		return t.buildGraphs(t.options.Checkpointing == CheckpointingOn)
	}
	if err := t.buildGraphs(false); err != nil {
		return err
	}
	fits, err := t.fits()
	if err != nil || fits {
		return err
	}
	return t.buildGraphs(true)
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

// buildGraphs rebuilds the graphs of a step.
func (t *Trainer) buildGraphs(checkpointing bool) error {
	graphs, err := newBucketGraphs(t.m, t.engine, t.shape, lossgraph.Options{
		Adapters: t.adapters, Grads: t.opt.grad, Losses: t.opt.report, Checkpoint: checkpointing, ComputeType: t.options.ComputeType,
		Dropout: t.options.Dropout, NEFTune: t.options.NEFTune, Copies: t.copies, Hooks: t.reduction.hooks(),
		Layers: t.options.layers, LayerHook: t.options.layerHook,
	})
	if err != nil {
		return err
	}
	t.closeGraphs()
	t.loss, t.checkpointing = graphs, checkpointing
	if !t.options.Loss.isOfSamples() {
		return nil
	}
	t.scores, err = newBucketGraphs(t.m, t.engine, t.shape, lossgraph.Options{
		Adapters: t.adapters, ComputeType: t.options.ComputeType, Copies: t.copies, Workspace: graphs.workspace, Layers: t.options.layers,
		LogitsChunk: 128, // as few as a step with checkpointing has, so that it needs no more memory
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

// fits reports whether the graph of a step fits into four fifths of the memory. The rest is left for
// evaluations, tokens and other programs.
func (t *Trainer) fits() (bool, error) {
	need, err := t.need()
	if err != nil {
		return false, err
	}
	need[len(need)-1] += t.mapped()
	for i, available := range availableMemory(t.engine) {
		if need[i] > available/5*4 {
			return false, nil
		}
	}
	return true, nil
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
	cpu := len(need) - 1
	need[cpu] += t.opt.sizes()[cpu]
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

// HasCheckpointing reports whether steps recompute each layer, see [Checkpointing].
func (t *Trainer) HasCheckpointing() bool { return t.checkpointing }

// resumeCheckpointing keeps the checkpoint's choice, if the choice is left to the trainer and the
// memory allows it, so that rounding is the same.
func (t *Trainer) resumeCheckpointing(g *ggml.GGUF) error {
	was, err := ggml.GGUFValue[string](g, freeKeys+string(SettingCheckpointing))
	if t.options.Checkpointing != CheckpointingAuto || err != nil || was == resolved(t.checkpointing).String() {
		return nil
	}
	if was != CheckpointingOn.String() {
		return nil // does not fit here
	}
	return t.buildGraphs(true)
}

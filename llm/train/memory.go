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

// Checkpointing says whether steps recompute each layer in the backward pass, from its
// input (gradient checkpointing, arXiv 1604.06174): about a third slower, in a fraction of
// the memory. It changes results by no more than rounding does.
type Checkpointing int

// CheckpointingAuto recomputes where a step that keeps all results would not fit into four
// fifths of the memory that is available. A run that is resumed computes as before, if that
// fits.
const (
	CheckpointingAuto Checkpointing = iota
	CheckpointingOn
	CheckpointingOff
)

// String is "auto", "on" or "off".
func (c Checkpointing) String() string {
	names := []string{"auto", "on", "off"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Checkpointing(%d)", int(c))
	}
	return names[c]
}

// resolved is a choice that has been made.
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
	Optimizer   layout.Sizes // gradients and moments, and results of their update
	Copies      layout.Sizes // of frozen weights, see [Options]
	Step        layout.Sizes // results of a step
	Evaluations layout.Sizes // results of evaluations, and of the check of what is saved
	Program     layout.Sizes // memory outside of tensors, see [Prospect]
}

// Total is the sum, of each device.
func (e MemoryEstimate) Total() layout.Sizes {
	return e.Weights.Plus(e.Adapters).Plus(e.Optimizer).Plus(e.Copies).Plus(e.Step).Plus(e.Evaluations).Plus(e.Program)
}

// EstimateMemory says how much memory a run takes in a layout that [New] would begin, with evaluations
// of these data sets and without: what [AddEstimate] says of it, by which layouts are planned. The model lies on the
// CPU, as mapped from its file; nothing of it is read, and nothing computed. CheckpointingAuto stands for off,
// and WeightCopies of nil for none.
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

// buildEvaluations builds the graphs of the evaluations of data sets, and of the check of what is saved.
func (t *Trainer) buildEvaluations(sets []*data.Dataset) error {
	check := data.New(checkTokens, []data.Sample{{Tokens: make([]int32, checkTokens+1)}})
	for _, d := range append([]*data.Dataset{check}, sets...) {
		if err := d.Check(t.m.Config().Vocab); err != nil {
			return err
		}
		if _, err := t.evaluator.graph(t.adapters, d); err != nil {
			return err
		}
	}
	return nil
}

// buildStep builds the graph of a step as Options.Checkpointing says, and then with the copies of
// weights for which there is memory beside it.
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

// buildGraphs makes the graphs of a step, in place of those before.
func (t *Trainer) buildGraphs(checkpointing bool) error {
	graphs, err := newBucketGraphs(t.m, t.engine, shapeOfBatches(t.data, t.batchRows()), lossgraph.Options{
		Adapters: t.adapters, Grads: t.opt.grad, Losses: t.opt.report, Checkpoint: checkpointing, ComputeType: t.options.ComputeType,
		Dropout: t.options.Dropout, NEFTune: t.options.NEFTune, Copies: t.copies, Hooks: t.reduction.hooks(),
		Layers: t.options.layers, Watch: t.options.watch,
	})
	if err != nil {
		return err
	}
	if t.loss != nil {
		t.loss.Close()
	}
	t.loss, t.checkpointing = graphs, checkpointing
	return nil
}

// availableMemory is replaced by tests.
var availableMemory = (*device.Engine).AvailableMemory

// fits reports whether the graph of a step fits into four fifths of the memory: the rest is
// for evaluations, the tokens, and other programs.
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

// A MemoryError is a step that takes more memory of a device than there is.
type MemoryError struct {
	Device          string // its name
	Need, Available int64  // bytes, beside the model
}

// Error says how much, and what to do.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("a step takes %s of memory beside the model, and %s has %s available; use smaller batches or shorter samples", gibibytes(e.Need), e.Device, gibibytes(e.Available))
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// CheckMemory returns a *MemoryError if the steps take more memory than is available now. No
// step checks it: some systems give more than they say, by swapping.
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

// need returns what a step takes of the available memory; on the CPU also the optimizer's memory,
// which is allocated but not written to yet.
func (t *Trainer) need() (layout.Sizes, error) {
	need, err := t.loss.Measure()
	if err != nil {
		return nil, err
	}
	cpu := len(need) - 1
	need[cpu] += t.opt.sizes()[cpu]
	return need, nil
}

// mapped is the size of the weights that are mapped from a file, whose memory the system calls
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
		return nil // it does not fit here
	}
	return t.buildGraphs(true)
}

package train

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/weightcache"
)

// Parts of an estimate besides the model's.
const (
	optimizerPart   = "optimizer"
	copiesPart      = "copies"
	stepPart        = "step"
	evaluationsPart = "evaluations"
)

// AddEstimate adds the memory of a run of [New] to an estimate, including evaluations of these data
// sets: the parts of [EstimateMemory]. The model is on the CPU, and its data is not read;
// [estimate.Memory.In] estimates other layouts. CheckpointingAuto is treated as off, and nil
// WeightCopies as none: copies take what memory layers leave.
func AddEstimate(to *estimate.Memory, m *model.Model, trained Trainables, d *data.Dataset, o Options, evaluated ...*data.Dataset) error {
	_, _, err := addEstimate(to, m, trained, d, o, evaluated...)
	return err
}

func addEstimate(to *estimate.Memory, m *model.Model, trained Trainables, d *data.Dataset, o Options, evaluated ...*data.Dataset) (sums []int64, recomputed float64, err error) {
	if err := m.AddEstimate(to, lora.Join(trained.Adapters, trained.Frozen)); err != nil {
		return nil, 0, err
	}
	e, err := to.Engine(m.Layout())
	if err != nil {
		return nil, 0, err
	}
	defer e.Close()
	o.Engine, o.Memory = e, nil
	if o.Checkpointing == CheckpointingAuto {
		o.Checkpointing = CheckpointingOff
	}
	if none := weightcache.None; o.WeightCopies == nil {
		o.WeightCopies = &none
	}
	t, err := prepare(m, trained, d, o)
	if err != nil {
		return nil, 0, err
	}
	defer t.Close()
	if err := t.buildEvaluations(evaluated); err != nil {
		return nil, 0, err
	}
	to.Part(optimizerPart)
	for i, p := range t.opt.params {
		to.Hold(p.weight.Layer, p.weight.Kind, p.Tensor, t.opt.grad[p.Tensor], t.opt.first[i], t.opt.second[i])
	}
	to.Hold(nn.NoLayer, layout.Output, t.opt.exchanged()...)
	if !to.IsCPU() {
		if err := t.opt.addRunsEstimate(to); err != nil {
			return nil, 0, err
		}
	}
	to.Part(copiesPart)
	if t.copies != nil {
		if err := t.copies.AddEstimate(to); err != nil {
			return nil, 0, err
		}
	}
	to.Part(optimizerPart)
	to.Compute(t.opt.update.Graph)
	to.Part(stepPart)
	step := []*ggml.Graph{t.loss.graphs[0].Graph}
	if t.scores != nil {
		step = append(step, t.scores.graphs[0].Graph)
	}
	to.Compute(step...)
	t.evaluator.addEstimate(to)
	g := t.loss.graphs[0]
	return g.Recomputed(), g.RecomputedShare(), to.Check()
}

// addRunsEstimate adds the results of updates on devices, where parameters of adapters form runs: the
// update of one run, divided among the parameters.
func (o *optimizer) addRunsEstimate(to *estimate.Memory) error {
	lowerings, err := o.engine.Lowerings(device.Use{})
	if err != nil {
		return err
	}
	var all int64
	for _, p := range o.params {
		if p.isAdapter() {
			all += p.NumElements()
		}
	}
	for i, p := range o.params {
		if !p.isAdapter() {
			continue
		}
		part := func(x *ggml.Tensor) *ggml.Tensor {
			return o.graphCtx.View(x, []int64{max(1, x.NumElements()*min(all, runElements)/all)}, nil, 0)
		}
		t := &nn.Tape{C: o.graphCtx, Lowering: o.loweringOf(i, lowerings)}
		to.Compute(o.graphCtx.NewGraph(nn.AdamWStep.Build(t, nn.AdamWOperands{
			Param: part(p.Tensor).SetParam(), Grad: part(o.grad[p.Tensor]), M: part(o.first[i]), V: part(o.second[i]), Settings: o.graphCtx.View(o.numbers, []int64{8}, nil, 0),
		})...))
	}
	return nil
}

// isAdapter reports whether the parameter belongs to a weight, rather than being one.
func (p parameter) isAdapter() bool { return p.Name() != p.weight.Name }

// AddEvaluationEstimate adds the memory of an [Evaluator] for these data sets to an estimate: the
// model with its adapters, and the results. The model is on the CPU, and its data is not read.
func AddEvaluationEstimate(to *estimate.Memory, m *model.Model, adapters model.Adapters, o EvaluatorOptions, sets ...*data.Dataset) error {
	if err := m.AddEstimate(to, adapters); err != nil {
		return err
	}
	e, err := to.Engine(m.Layout())
	if err != nil {
		return err
	}
	defer e.Close()
	o.Engine = e
	evaluator, err := NewEvaluator(m, o)
	if err != nil {
		return err
	}
	defer evaluator.Close()
	for _, d := range sets {
		if err := d.Check(m.Config().Vocab); err != nil {
			return err
		}
		if _, err := evaluator.graph(adapters, d, measured{}); err != nil {
			return err
		}
	}
	evaluator.addEstimate(to)
	return to.Check()
}

func (e *Evaluator) addEstimate(to *estimate.Memory) {
	to.Part(evaluationsPart)
	for _, g := range e.graphs { // data sets of equal shape share a graph
		to.Compute(g.graph.graphs[0].Graph)
	}
}

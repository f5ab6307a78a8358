package train

import (
	"errors"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// AdamW are the settings of the optimiser (arXiv 1711.05101).
type AdamW struct {
	Beta1, Beta2 float64
	Epsilon      float64 // added to the root of the second moment
	Decay        float64 // weight decay per step, divided by the learning rate
	// DecayMinDims is the smallest number of dimensions of a parameter that decays: 2 excludes norms and
	// biases, 0 excludes nothing. Matrices of an adapter have 2, whatever its rank.
	DecayMinDims int
	Clip         float64 // maximum norm of the gradient of all parameters; 0 means no clipping
}

// DefaultAdamW returns the usual settings: β 0.9 and 0.999, ε 1e-8, gradients clipped to norm 1, and
// no decay. If Decay is set, only matrices decay.
func DefaultAdamW() AdamW {
	return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, DecayMinDims: 2, Clip: 1}
}

// A parameter is a trained tensor.
type parameter struct {
	*ggml.Tensor
	weight *arch.Weight // the weight that it is, or belongs to
	dims   int          // number of dimensions, for DecayMinDims
	rate   float64      // factor of the learning rate
}

// A paramGroup holds the settings of parameters that are updated alike.
type paramGroup struct {
	rate   float64 // factor of the learning rate
	decays bool
}

// An optimizer updates parameters from accumulated gradients. The update is a graph that runs directly
// after the loss graph: it measures the norm and clips. If a value is not finite, the update changes
// no parameter.
type optimizer struct {
	settings AdamW
	engine   *device.Engine
	params   []parameter
	groups   []paramGroup
	runs     []run

	stateCtx, graphCtx *ggml.Context
	grads, moments     *layout.Memory                // moments also holds the inputs and outputs of the update
	first, second      []*ggml.Tensor                // moments m and v, by parameter
	grad               map[*ggml.Tensor]*ggml.Tensor // by parameter

	numbers *ggml.Tensor // input: see [nn.GateOperands]
	weights *ggml.Tensor // input: loss weights [tokens]
	report  *ggml.Tensor // output [tokens+2]: losses of the tokens, squared norm, 1 if the step was taken
	entropy *ggml.Tensor // output [tokens]: cross-entropy of the tokens beside a teacher; otherwise nil
	update  device.Work
}

// newOptimizer creates an optimizer for batches of a shape. Moments and gradients are uninitialised; see clear.
func newOptimizer(e *device.Engine, settings AdamW, params []parameter, batches batchShape) (*optimizer, error) {
	o := &optimizer{
		settings: settings, engine: e, params: params,
		stateCtx: ggml.NewContext(), graphCtx: ggml.NewContext(),
		grads: layout.NewMemory(e.Layout()), moments: layout.NewMemory(e.Layout()),
		grad: map[*ggml.Tensor]*ggml.Tensor{},
	}
	for _, p := range params {
		p.SetParam()
	}
	o.runs = runsOf(params, o.groupParams())
	for i, r := range o.runs {
		o.runs[i].grad, o.runs[i].first, o.runs[i].second = o.beside(r, o.grads), o.beside(r, o.moments), o.beside(r, o.moments)
	}
	if batches.teacher != nil {
		o.entropy = o.stateCtx.NewTensor(ggml.F32, int64(batches.tokens())).SetName("cross-entropy")
	}
	if err := o.build(int64(batches.tokens())); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *optimizer) build(tokens int64) error {
	for _, p := range o.params {
		if err := o.engine.Check(p.weight.Layer, p.weight.Kind, p.Tensor); err != nil {
			return err
		}
	}
	lowerings, err := o.engine.Lowerings(device.Use{})
	if err != nil {
		return err
	}
	c := o.graphCtx
	t := &nn.Tape{C: c, Lowering: lowerings(nn.NoLayer, "")}
	o.numbers = o.stateCtx.NewTensor(ggml.F32, 8, int64(len(o.groups)+1)).SetName("adamw")
	o.weights = o.stateCtx.NewTensor(ggml.F32, tokens).SetName("loss weights")
	o.report = o.stateCtx.NewTensor(ggml.F32, tokens+2).SetName("report")
	o.moments.Add(nn.NoLayer, layout.Output, o.exchanged()...) // on the device that computes the losses
	if err := errors.Join(o.grads.Allocate(), o.moments.Allocate()); err != nil {
		return err
	}
	o.divide()
	gated := nn.GateStep.Build(t, nn.GateOperands{
		Squares: o.sumSquares(t, lowerings), Losses: c.View(o.report, []int64{tokens}, nil, 0), Weights: o.weights, Settings: o.numbers, Clip: o.settings.Clip,
	})
	nodes := []*ggml.Tensor{c.Copy(gated.Status, c.View(o.report, []int64{2}, nil, tokens*o.report.Stride(0)))}
	for _, r := range o.runs {
		step := nn.AdamWOperands{Param: o.parameters(r), Grad: r.grad, M: r.first, V: r.second, Settings: gated.Settings[r.group]}
		nodes = append(nodes, nn.AdamWStep.Build(t.By(o.loweringOf(r.members[0], lowerings)), step)...)
	}
	if o.update.Workspace, err = o.engine.NewWorkspace(); err != nil {
		return err
	}
	o.update.Graph = c.NewGraph().Expand(nodes...)
	return o.update.Workspace.Allocate(o.update.Graph)
}

// exchanged returns the inputs and outputs of a step and its update.
func (o *optimizer) exchanged() []*ggml.Tensor {
	list := []*ggml.Tensor{o.numbers, o.weights, o.report}
	if o.entropy != nil {
		list = append(list, o.entropy)
	}
	return list
}

// loweringOf returns the lowering of the weight that a parameter belongs to.
func (o *optimizer) loweringOf(i int, of nn.Lowerings) *nn.Lowering {
	w := o.params[i].weight
	return of(w.Layer, w.Kind)
}

// sumSquares returns the sum of squares of all gradients, each computed by the ops of its lowering.
func (o *optimizer) sumSquares(t *nn.Tape, of nn.Lowerings) *ggml.Tensor {
	var list []*nn.Lowering
	gradients := map[*nn.Lowering]*nn.Gradients{}
	by := func(i int) *nn.Gradients {
		l := o.loweringOf(i, of)
		if gradients[l] == nil {
			gradients[l] = &nn.Gradients{}
			list = append(list, l)
		}
		return gradients[l]
	}
	for i, p := range o.params {
		g := by(i)
		g.Each = append(g.Each, o.grad[p.Tensor])
	}
	for _, r := range o.runs {
		g := by(r.members[0])
		g.Runs = append(g.Runs, r.grad)
	}
	sum := nn.SumSquares.Build(t.By(list[0]), *gradients[list[0]])
	for _, l := range list[1:] {
		sum = t.C.Add(sum, nn.SumSquares.Build(t.By(l), *gradients[l]))
	}
	return sum
}

// clear zeroes gradients and moments.
func (o *optimizer) clear() error { return errors.Join(o.grads.Clear(0), o.moments.Clear(0)) }

// groupParams returns the group of each parameter.
func (o *optimizer) groupParams() []int {
	list := make([]int, len(o.params))
	for i, p := range o.params {
		g := paramGroup{rate: p.rate, decays: p.dims >= o.settings.DecayMinDims}
		if list[i] = slices.Index(o.groups, g); list[i] < 0 {
			list[i] = len(o.groups)
			o.groups = append(o.groups, g)
		}
	}
	return list
}

// prepare writes the inputs of a step's update, with the loss weights of its last batch. If the loss
// of an earlier batch is not finite, the update changes no parameter.
func (o *optimizer) prepare(s *step, weights []float32) error {
	still := []float32{0, 1, 1, float32(o.settings.Epsilon), 0, 1, 1, 0}
	var numbers []float32
	for _, g := range o.groups {
		if loss := s.metrics.Loss; loss-loss == 0 {
			numbers = append(numbers, o.numbersOf(g, s)...)
		} else {
			numbers = append(numbers, still...)
		}
	}
	all := make([]float32, o.weights.NumElements())
	copy(all, weights)
	return errors.Join(ggml.Write(o.numbers, append(numbers, still...)), ggml.Write(o.weights, all))
}

// numbersOf returns the settings of a group, see [nn.AdamWOperands]. The last one divides the gradient
// by the loss scale, before clipping.
func (o *optimizer) numbersOf(g paramGroup, s *step) []float32 {
	a, number, decay := o.settings, float64(s.metrics.Step), 0.0
	if g.decays {
		decay = a.Decay
	}
	return []float32{
		float32(s.metrics.LearningRate * g.rate), float32(a.Beta1), float32(a.Beta2), float32(a.Epsilon), float32(decay),
		float32(1 / (1 - math.Pow(a.Beta1, number))), float32(1 / (1 - math.Pow(a.Beta2, number))), float32(1 / s.scale),
	}
}

// read adds the report to a step: the losses of a batch times their weights and, after an update, the
// gradient's norm and whether the step was taken.
func (o *optimizer) read(s *step, weights []float32) error {
	report, err := ggml.Read[float32](o.report)
	if err != nil {
		return err
	}
	s.metrics.Loss += s.sum(report, weights)
	if o.entropy != nil {
		entropy, err := ggml.Read[float32](o.entropy)
		if err != nil {
			return err
		}
		s.crossEntropy += s.sum(entropy, weights)
	}
	status := report[len(report)-2:]
	s.metrics.GradNorm, s.taken = math.Sqrt(float64(status[0]))/s.scale, status[1] == 1
	return nil
}

// sum returns Σ weight · value of the tokens of a batch.
func (s *step) sum(values, weights []float32) (sum float64) {
	for i, w := range weights {
		if w != 0 {
			sum += float64(w) / s.scale * float64(values[i])
		}
	}
	return sum
}

// divide splits the gradients and moments of runs into one view per parameter.
func (o *optimizer) divide() {
	o.first, o.second = make([]*ggml.Tensor, len(o.params)), make([]*ggml.Tensor, len(o.params))
	for _, r := range o.runs {
		grads, first, second := o.parts(r, r.grad), o.parts(r, r.first), o.parts(r, r.second)
		for j, i := range r.members {
			o.grad[o.params[i].Tensor], o.first[i], o.second[i] = grads[j], first[j], second[j]
		}
	}
}

// sizes returns the memory that the optimizer has allocated.
func (o *optimizer) sizes() layout.Sizes {
	return o.grads.Sizes().Plus(o.moments.Sizes()).Plus(o.update.Workspace.Sizes())
}

func (o *optimizer) close() {
	if o == nil {
		return
	}
	o.update.Workspace.Close()
	o.graphCtx.Close()
	o.stateCtx.Close()
	o.moments.Close()
	o.grads.Close()
}

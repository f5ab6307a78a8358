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
	Decay        float64 // weight decay: the share that a parameter loses in a step, over the rate
	// DecayMinDims is the number of dimensions from which on a parameter decays: 2 leaves
	// out norms and biases, 0 nothing. The matrices of an adapter have 2, whatever its rank.
	DecayMinDims int
	Clip         float64 // largest norm of the gradient of all parameters; 0 for any
}

// DefaultAdamW are the usual settings: β 0.9 and 0.999, ε 1e-8, no decay (of matrices
// alone, where it is set), a gradient of at most 1.
func DefaultAdamW() AdamW {
	return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, DecayMinDims: 2, Clip: 1}
}

// A parameter is a tensor that is trained.
type parameter struct {
	*ggml.Tensor
	weight *arch.Weight // that it is, or belongs to
	dims   int          // by which its decay is decided
	rate   float64      // factor of the learning rate
}

// A paramGroup are the parameters that move by the same settings.
type paramGroup struct {
	rate   float64 // factor of the learning rate
	decays bool
}

// An optimizer updates parameters from the gradients that accumulate beside them. The update is a
// graph that runs directly after the losses' graph: it measures the norm and clips; if something is
// not finite, it moves nothing.
type optimizer struct {
	settings AdamW
	engine   *device.Engine
	params   []parameter
	groups   []paramGroup
	runs     []run

	stateCtx, graphCtx *ggml.Context
	grads, moments     *layout.Memory                // of gradients; of moments, and what the update takes and gives
	first, second      []*ggml.Tensor                // moments m and v, by parameter
	grad               map[*ggml.Tensor]*ggml.Tensor // by parameter

	numbers *ggml.Tensor // input: see [nn.GateOperands]
	weights *ggml.Tensor // input: of the losses
	report  *ggml.Tensor // the losses of as many tokens; the square of the norm, and whether the step was taken
	update  device.Work
}

// newOptimizer makes an optimizer whose moments and gradients are yet to be cleared, for batches of
// so many tokens.
func newOptimizer(e *device.Engine, settings AdamW, params []parameter, tokens int) (*optimizer, error) {
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
	if err := o.build(int64(tokens)); err != nil {
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
	o.moments.Add(nn.NoLayer, layout.Output, o.numbers, o.weights, o.report) // where the losses are computed
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

// loweringOf returns the lowering of the weight that a parameter belongs to.
func (o *optimizer) loweringOf(i int, of nn.Lowerings) *nn.Lowering {
	w := o.params[i].weight
	return of(w.Layer, w.Kind)
}

// sumSquares adds up the squares of all gradients, each by the ops of its lowering.
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

// clear sets gradients and moments to zero, as they are before the first step.
func (o *optimizer) clear() error { return errors.Join(o.grads.Clear(0), o.moments.Clear(0)) }

// groupParams gives the group of each parameter.
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

// prepare writes the inputs of a step's update, with the weights of the losses that are in the
// report by then. If losses of earlier batches are not finite, the update moves nothing.
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

// numbersOf returns the settings of a group, as in [nn.AdamWOperands]. The factor divides the
// gradient by the scale of the loss; clipping comes after.
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

// read adds to a step what the report has: the losses of a batch by their scaled weights, and of the
// update, where there was one, the norm of the gradient and whether the step was taken.
func (o *optimizer) read(s *step, weights []float32) error {
	report, err := ggml.Read[float32](o.report)
	if err != nil {
		return err
	}
	for i, w := range weights {
		if w != 0 {
			s.metrics.Loss += float64(w) / s.scale * float64(report[i])
		}
	}
	status := report[len(report)-2:]
	s.metrics.GradNorm, s.taken = math.Sqrt(float64(status[0]))/s.scale, status[1] == 1
	return nil
}

// divide splits the gradients and moments of runs into views, one for each parameter.
func (o *optimizer) divide() {
	o.first, o.second = make([]*ggml.Tensor, len(o.params)), make([]*ggml.Tensor, len(o.params))
	for _, r := range o.runs {
		grads, first, second := o.parts(r, r.grad), o.parts(r, r.first), o.parts(r, r.second)
		for j, i := range r.members {
			o.grad[o.params[i].Tensor], o.first[i], o.second[i] = grads[j], first[j], second[j]
		}
	}
}

// sizes returns the sizes of all that the optimizer has allocated.
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

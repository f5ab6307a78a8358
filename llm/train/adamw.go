package train

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
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

// A paramGroup are the parameters that move with the same numbers.
type paramGroup struct {
	rate    float64 // factor of the learning rate
	decays  bool
	numbers *ggml.Tensor // input: the settings of [nn.AdamWOperands]
}

// An optimizer updates parameters from the gradients that accumulate beside
// them.
type optimizer struct {
	settings AdamW
	engine   *device.Engine
	params   []parameter
	groups   []*paramGroup

	stateCtx, graphCtx *ggml.Context
	grads, moments     *device.Memory                // of gradients; of moments, and inputs of the update
	first, second      []*ggml.Tensor                // moments m and v
	grad               map[*ggml.Tensor]*ggml.Tensor // by parameter

	norm    *ggml.Tensor // squared norm of the gradient
	measure *graph
	update  *graph
}

// A graph is one with its memory.
type graph struct {
	*ggml.Graph
	workspace *device.Workspace
}

func (g *graph) compute(ctx context.Context) error { return g.workspace.Compute(ctx, g.Graph) }

func (g *graph) close() {
	if g != nil {
		g.workspace.Close()
	}
}

// newOptimizer makes an optimizer whose moments and gradients are yet to be cleared.
func newOptimizer(e *device.Engine, settings AdamW, params []parameter) (*optimizer, error) {
	o := &optimizer{
		settings: settings, engine: e, params: params,
		stateCtx: ggml.NewContext(), graphCtx: ggml.NewContext(),
		grads: device.NewMemory(e.Layout()), moments: device.NewMemory(e.Layout()),
		grad: map[*ggml.Tensor]*ggml.Tensor{},
	}
	for _, p := range params {
		p.SetParam()
		beside := func(m *device.Memory) *ggml.Tensor {
			x := o.stateCtx.NewTensor(ggml.F32, p.Shape()...)
			m.Add(p.weight.Layer, p.weight.Kind, x)
			return x
		}
		o.grad[p.Tensor] = beside(o.grads)
		o.first, o.second = append(o.first, beside(o.moments)), append(o.second, beside(o.moments))
	}
	if err := o.build(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *optimizer) build() error {
	for _, p := range o.params {
		if err := o.engine.Check(p.weight.Layer, p.weight.Kind, p.Tensor); err != nil {
			return err
		}
	}
	lowerings, err := o.engine.Lowerings(device.Use{})
	if err != nil {
		return err
	}
	c, lowering := o.graphCtx, lowerings(nn.NoLayer)
	groups := o.groupParams()
	if err := errors.Join(o.grads.Allocate(), o.moments.Allocate()); err != nil {
		return err
	}
	var updates []*ggml.Tensor
	for i, p := range o.params {
		grad := o.grad[p.Tensor]
		square := lowering.SumSquares(c, grad)
		if o.norm == nil {
			o.norm = square
		} else {
			o.norm = c.Add(o.norm, square)
		}
		step := nn.AdamWOperands{Param: p.Tensor, Grad: grad, M: o.first[i], V: o.second[i], Settings: groups[i].numbers}
		updates = append(updates, lowering.AdamWStep(c, step)...)
	}
	if o.measure, err = o.graph(c.NewGraph(o.norm)); err != nil {
		return err
	}
	o.update, err = o.graph(c.NewGraph().Expand(updates...))
	return err
}

// clear sets gradients and moments to zero, as they are before the first step.
func (o *optimizer) clear() error { return errors.Join(o.grads.Clear(0), o.moments.Clear(0)) }

// groupParams gives the group of each parameter.
func (o *optimizer) groupParams() []*paramGroup {
	list := make([]*paramGroup, len(o.params))
	for i, p := range o.params {
		decays := p.dims >= o.settings.DecayMinDims
		at := slices.IndexFunc(o.groups, func(g *paramGroup) bool { return g.rate == p.rate && g.decays == decays })
		if at < 0 {
			at = len(o.groups)
			numbers := o.graphCtx.NewTensor(ggml.F32, 8).SetName("adamw")
			o.moments.Add(p.weight.Layer, p.weight.Kind, numbers)
			o.groups = append(o.groups, &paramGroup{rate: p.rate, decays: decays, numbers: numbers})
		}
		list[i] = o.groups[at]
	}
	return list
}

func (o *optimizer) graph(g *ggml.Graph) (*graph, error) {
	w, err := o.engine.NewWorkspace()
	if err != nil {
		return nil, err
	}
	if err := w.Allocate(g); err != nil {
		w.Close()
		return nil, err
	}
	return &graph{g, w}, nil
}

// gradientNorm is the Euclidean norm over all parameters.
func (o *optimizer) gradientNorm(ctx context.Context) (float64, error) {
	if err := o.measure.compute(ctx); err != nil {
		return 0, err
	}
	square, err := ggml.Read[float32](o.norm)
	if err != nil {
		return 0, err
	}
	return math.Sqrt(float64(square[0])), nil
}

// step moves the parameters by the gradients, whose norm is given, and sets
// these to zero. It cannot be interrupted: half a step would be lost work.
func (o *optimizer) step(step int, rate, norm float64) error {
	scale := 1.0
	if o.settings.Clip > 0 && norm > o.settings.Clip {
		scale = o.settings.Clip / norm
	}
	for _, g := range o.groups {
		if err := ggml.Write(g.numbers, o.numbers(g, step, rate, scale)); err != nil {
			return err
		}
	}
	return o.update.compute(context.Background())
}

// numbers are those of a group, as [nn.AdamWOperands] has them.
func (o *optimizer) numbers(g *paramGroup, step int, rate, scale float64) []float32 {
	s, decay := o.settings, 0.0
	if g.decays {
		decay = s.Decay
	}
	return []float32{
		float32(rate * g.rate), float32(s.Beta1), float32(s.Beta2), float32(s.Epsilon), float32(decay),
		float32(1 / (1 - math.Pow(s.Beta1, float64(step)))), float32(1 / (1 - math.Pow(s.Beta2, float64(step)))),
		float32(scale),
	}
}

// sizes are those of all that it has allocated.
func (o *optimizer) sizes() device.Sizes {
	return o.grads.Sizes().Plus(o.moments.Sizes()).Plus(o.measure.workspace.Sizes()).Plus(o.update.workspace.Sizes())
}

func (o *optimizer) close() {
	if o == nil {
		return
	}
	o.measure.close()
	o.update.close()
	o.graphCtx.Close()
	o.stateCtx.Close()
	o.moments.Close()
	o.grads.Close()
}

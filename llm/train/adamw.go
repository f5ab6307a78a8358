package train

import (
	"context"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
)

// AdamW are the settings of the optimiser (arXiv 1711.05101).
type AdamW struct {
	Beta1, Beta2 float64
	Epsilon      float64
	Decay        float64 // weight decay
	Clip         float64 // largest norm of the gradient of all parameters; 0 for any
}

// DefaultAdamW are the usual settings: β 0.9 and 0.999, ε 1e-8, no decay, a
// gradient of at most 1.
func DefaultAdamW() AdamW { return AdamW{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Clip: 1} }

// An optimizer updates parameters from the gradients that accumulate beside
// them.
type optimizer struct {
	settings AdamW
	engine   *device.Engine
	params   []*ggml.Tensor

	gradCtx, momentCtx, graphCtx *ggml.Context
	grads, moments, inputs       *ggml.Buffers
	first, second                []*ggml.Tensor                // moments m and v
	grad                         map[*ggml.Tensor]*ggml.Tensor // by parameter

	adam    *ggml.Tensor // input: AdamW's numbers, and the factor of the gradient
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

func newOptimizer(e *device.Engine, settings AdamW, params []*ggml.Tensor) (*optimizer, error) {
	o := &optimizer{
		settings: settings, engine: e, params: params,
		gradCtx: ggml.NewContext(), momentCtx: ggml.NewContext(), graphCtx: ggml.NewContext(),
		grad: map[*ggml.Tensor]*ggml.Tensor{},
	}
	for _, p := range params {
		p.SetParam()
		o.grad[p] = o.gradCtx.NewTensor(ggml.F32, p.Shape()...)
		o.first = append(o.first, o.momentCtx.NewTensor(ggml.F32, p.Shape()...))
		o.second = append(o.second, o.momentCtx.NewTensor(ggml.F32, p.Shape()...))
	}
	if err := o.build(); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *optimizer) build() error {
	if err := o.engine.Check(o.params...); err != nil {
		return err
	}
	lowering, err := o.engine.Training(ggml.F32)
	if err != nil {
		return err
	}
	c := o.graphCtx
	o.adam = c.NewTensor(ggml.F32, 8).SetName("adamw")
	for _, a := range []struct {
		ctx *ggml.Context
		to  **ggml.Buffers
	}{{o.gradCtx, &o.grads}, {o.momentCtx, &o.moments}, {c, &o.inputs}} {
		buffers, err := a.ctx.Allocate(o.engine.BufferType())
		if err != nil {
			return err
		}
		*a.to = buffers
		if err := buffers.Clear(0); err != nil {
			return err
		}
	}
	var updates []*ggml.Tensor
	for i, p := range o.params {
		grad := o.grad[p]
		square := lowering.SumSquares(c, grad)
		if o.norm == nil {
			o.norm = square
		} else {
			o.norm = c.Add(o.norm, square)
		}
		state := kernels.AdamW{Param: p, Grad: grad, M: o.first[i], V: o.second[i]}
		updates = append(updates, lowering.AdamWStep(c, state, o.adam)...)
	}
	if o.measure, err = o.graph(c.NewGraph(o.norm)); err != nil {
		return err
	}
	o.update, err = o.graph(c.NewGraph().Expand(updates...))
	return err
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
	s := o.settings
	numbers := []float32{
		float32(rate), float32(s.Beta1), float32(s.Beta2), float32(s.Epsilon), float32(s.Decay),
		float32(1 / (1 - math.Pow(s.Beta1, float64(step)))), float32(1 / (1 - math.Pow(s.Beta2, float64(step)))),
		float32(scale),
	}
	if err := ggml.Write(o.adam, numbers); err != nil {
		return err
	}
	return o.update.compute(context.Background())
}

func (o *optimizer) memory() int64 {
	return o.grads.Size() + o.moments.Size() + o.inputs.Size()
}

func (o *optimizer) close() {
	if o == nil {
		return
	}
	o.measure.close()
	o.update.close()
	for _, c := range []*ggml.Context{o.graphCtx, o.momentCtx, o.gradCtx} {
		c.Close()
	}
	for _, b := range []*ggml.Buffers{o.inputs, o.moments, o.grads} {
		b.Close()
	}
}

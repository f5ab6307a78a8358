package train

import (
	"context"
	"fmt"
	"math"

	"github.com/goggml/ggml"
)

// A ComputeCheck compares the gradients of a step in [Options.ComputeType] with F32's.
type ComputeCheck struct {
	Loss, LossF32 float64
	Cosine        float64          // between the gradients of all parameters together
	Parameters    []GradientCosine // in the order of the parameters, without those whose gradients are 0 in F32
}

// A GradientCosine is the cosine between two gradients of a parameter.
type GradientCosine struct {
	Name   string // of the parameter's tensor
	Cosine float64
}

// CheckCompute computes the gradients of the next step in [Options.ComputeType] and in F32, and compares them. It
// changes no parameter, and the next step is the same as without it. The trainer must be alone, without a group.
func (t *Trainer) CheckCompute(ctx context.Context) (*ComputeCheck, error) {
	if err := t.checkOpen(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext
	}
	if err := t.access.Acquire("Trainer.CheckCompute", "Trainer"); err != nil {
		return nil, err
	}
	defer t.access.Release()
	if n := t.group.Size(); n > 1 {
		return nil, fmt.Errorf("gradients are compared by one process, and there are %d; start one", n)
	}
	loss, got, err := t.gradients(ctx)
	if err != nil {
		return nil, err
	}
	compute, copies := t.options.ComputeType, t.copies
	t.options.ComputeType, t.copies = ggml.F32, nil
	lossF32, want, err := 0.0, [][]float32(nil), t.buildGraphs(t.checkpointing, t.keep)
	if err == nil {
		lossF32, want, err = t.gradients(ctx)
	}
	t.options.ComputeType, t.copies = compute, copies
	if buildErr := t.buildGraphs(t.checkpointing, t.keep); err == nil {
		err = buildErr
	}
	if err != nil {
		return nil, err
	}
	check := &ComputeCheck{Loss: loss, LossF32: lossF32}
	var all gradientProducts
	for i, p := range t.opt.params {
		var one gradientProducts
		one.add(got[i], want[i])
		all.add(got[i], want[i])
		if one.want > 0 {
			check.Parameters = append(check.Parameters, GradientCosine{p.Name(), one.cosine()})
		}
	}
	check.Cosine = all.cosine()
	return check, nil
}

// gradients computes the loss and the gradients of the next step, and clears the accumulators.
func (t *Trainer) gradients(ctx context.Context) (loss float64, grads [][]float32, err error) {
	s, err := t.planStep(ctx)
	if t.options.Loss.isOfSamples() {
		err = t.findSlopes(ctx, s, err)
	}
	if err != nil {
		return 0, nil, err
	}
	err = t.accumulate(ctx, s)
	for _, p := range t.opt.params {
		if err == nil {
			var grad []float32
			grad, err = ggml.Read[float32](t.opt.grad[p.Tensor])
			grads = append(grads, grad)
		}
	}
	if clearErr := t.opt.grads.Clear(0); err == nil {
		err = clearErr
	}
	return s.loss(), grads, err
}

// gradientProducts are the scalar products of two gradients.
type gradientProducts struct{ both, got, want float64 }

func (p *gradientProducts) add(got, want []float32) {
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		p.both += g * w
		p.got += g * g
		p.want += w * w
	}
}

// cosine returns NaN if a gradient is 0.
func (p *gradientProducts) cosine() float64 { return p.both / math.Sqrt(p.got*p.want) }

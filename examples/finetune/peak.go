package main

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/train"
)

// worthPeak is how many operations a run has at least for which the peak of the machine is measured: those of a few seconds.
const worthPeak = 2e11

// A measuredPeak is how many tokens a second the machine would train at the speed of large products, if it took no time for all
// else.
type measuredPeak struct {
	tokens  float64 // 0 where it is not known
	measure func() (float64, error)
}

// measurePeak measures the peak for a run; that of one that is too short is not known, nor where it fails, which is told.
func (p *trainCommand) measurePeak(ctx context.Context, e *device.Engine, c arch.Config, d *data.Dataset, o train.Options) (*measuredPeak, error) {
	steps := train.Prospect{Data: d, Options: o}.Steps()
	share := float64(steps*o.Batch*o.Accumulate) / float64(d.Len()) // of the data, that the run sees
	perToken := c.AdapterFLOPs(d.NumTokens() / d.NumSamples())
	if share*float64(d.NumTokens())*perToken < worthPeak {
		return &measuredPeak{}, nil
	}
	all := float64(p.Group().Size()) / perToken
	k := &measuredPeak{measure: func() (float64, error) {
		flops, err := e.PeakFLOPS(ctx, o.ComputeType, c.Layers)
		return flops * all, err
	}}
	var err error
	if k.tokens, err = k.measure(); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		fmt.Fprintf(p.Log(), "the peak of the machine is not measured: %v\n", err)
		return &measuredPeak{}, nil
	}
	fmt.Fprintf(p.Log(), "measured peak: %s in %v, %.0f tokens/s of this model\n", flopsText(k.tokens/all), o.ComputeType, k.tokens)
	return k, nil
}

// at is the peak after a step that reached so many tokens a second. A step that was faster shows that the machine was busy
// when the peak was measured, which it then is again; what is still less than a step reached is not known any more.
func (k *measuredPeak) at(reached float64) float64 {
	if k.tokens > 0 && reached > k.tokens {
		again, err := k.measure()
		if err != nil || again < reached {
			again = 0
		}
		k.tokens = again
	}
	return k.tokens
}

func flopsText(x float64) string {
	if x < 1e12 {
		return fmt.Sprintf("%.3g GFLOP/s", x/1e9)
	}
	return fmt.Sprintf("%.3g TFLOP/s", x/1e12)
}

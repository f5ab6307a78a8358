package main

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/train"
)

// worthPeak is the least number of operations of a run, a few seconds' worth, for which the peak of the machine is
// measured.
const worthPeak = 2e11

// A measuredPeak is how many tokens a second the machine would train at the speed of large products, if everything else
// took no time; 0 if unknown.
type measuredPeak float64

// measurePeak measures the peak for a run. It leaves out runs that are too short, and logs a failure.
func (p *trainCommand) measurePeak(ctx context.Context, e *device.Engine, c arch.Config, d *data.Dataset, o train.Options) (measuredPeak, error) {
	steps := train.Prospect{Data: d, Options: o}.Steps()
	share := float64(steps*o.Batch*o.Accumulate) / float64(d.Len()) // of the data, that the run sees
	perToken := c.AdapterFLOPs(d.NumTokens() / d.NumSamples())
	if share*float64(d.NumTokens())*perToken < worthPeak {
		return 0, nil
	}
	peak, err := e.PeakFLOPS(ctx, o.ComputeType, c.Layers)
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		fmt.Fprintf(p.Log(), "the peak of the machine is not measured: %v\n", err)
		return 0, nil
	}
	peak *= float64(p.Group().Size())
	fmt.Fprintf(p.Log(), "measured peak: %s in %v, %.0f tokens/s of this model\n", flopsText(peak), o.ComputeType, peak/perToken)
	return measuredPeak(peak / perToken), nil
}

// at is the peak after a step that reached so many tokens a second. A step that was faster shows that the machine was busy
// when the peak was measured, and that it is not known. To measure it again would take memory that the run has not planned.
func (k *measuredPeak) at(reached float64) float64 {
	if reached > float64(*k) {
		*k = 0
	}
	return float64(*k)
}

func flopsText(x float64) string {
	if x < 1e12 {
		return fmt.Sprintf("%.3g GFLOP/s", x/1e9)
	}
	return fmt.Sprintf("%.3g TFLOP/s", x/1e12)
}

package main

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/train"
)

// worthPeak is the smallest number of operations in a run, a few seconds' worth, for which the machine's peak
// is measured.
const worthPeak = 2e11

// A measuredPeak is the tokens per second that the machine would train at the speed of large GEMMs if nothing
// else took time; 0 if unknown.
type measuredPeak float64

// measurePeak measures the peak for a run. It skips runs that are too short, and logs failures.
func (p *trainCommand) measurePeak(ctx context.Context, e *device.Engine, c arch.Config, d *data.Dataset, o train.Options) (measuredPeak, error) {
	steps := train.Plan{Data: d, Options: o}.Steps()
	share := float64(steps*o.Batch*o.Accumulate) / float64(d.Len()) // fraction of the data that the run sees
	perToken := c.AdapterFLOPs(d.NumTokens() / d.NumSamples())
	if share*float64(d.NumTokens())*perToken < worthPeak {
		return 0, nil
	}
	peak, err := e.PeakFLOPS(ctx, o.ComputeType, c.Layers)
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		fmt.Fprintf(p.Log(), "the machine's peak speed could not be measured: %v\n", err)
		return 0, nil
	}
	peak *= float64(p.Group().Size())
	fmt.Fprintf(p.Log(), "measured peak: %s in %v, %.0f tokens/s with this model\n", flopsText(peak), computeTypeName(o.ComputeType), peak/perToken)
	return measuredPeak(peak / perToken), nil
}

// at returns the peak after a step with this many tokens per second. If a step exceeds the peak, the machine
// was busy when the peak was measured, so it becomes unknown. Measuring it again would take memory that the run
// has not planned.
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

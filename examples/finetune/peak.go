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

// peakTokens measures how many tokens a second the machine would train at the speed of large products, if it took no time
// for all else; 0 for a run that is too short, and where it fails, which is told.
func (p *trainCommand) peakTokens(ctx context.Context, e *device.Engine, c arch.Config, d *data.Dataset, o train.Options) (float64, error) {
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
	return peak / perToken, nil
}

func flopsText(x float64) string {
	if x < 1e12 {
		return fmt.Sprintf("%.3g GFLOP/s", x/1e9)
	}
	return fmt.Sprintf("%.3g TFLOP/s", x/1e12)
}

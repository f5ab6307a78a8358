package main

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/train"
)

// The peak is measured for runs that take longer than the measurement, in tokens of their model.
func TestMeasurePeak(t *testing.T) {
	e := need.Value(device.New(device.Options{Threads: 1}))(t)
	defer e.Close()
	config := arch.Config{
		Arch: "llama", Vocab: 32000, Context: 64, Embd: 2048, FF: 8192, Layers: 2, Heads: 16, KVHeads: 16, HeadSize: 128, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1},
	}
	p, o := &trainCommand{}, train.Options{Batch: 1, Accumulate: 1, Epochs: 1, ComputeType: ggml.F32}
	peak := func(ctx context.Context, samples int) (float64, error) {
		d := data.New(64, slices.Repeat([]data.Sample{{Tokens: make([]int32, 65)}}, samples))
		k, err := p.measurePeak(ctx, e, config, d, o)
		return float64(k), err
	}
	short := need.Value(peak(t.Context(), 1))(t)
	require.Zero(t, short)
	long := need.Value(peak(t.Context(), 50))(t)
	require.Greater(t, long*config.AdapterFLOPs(65), 1e8)
	require.Less(t, long*config.AdapterFLOPs(65), 1e15)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err := peak(stopped, 50)
	require.ErrorIs(t, err, context.Canceled)
}

// A peak that a step exceeds becomes unknown.
func TestPeakThatWasTooLow(t *testing.T) {
	k := measuredPeak(100)
	require.Equal(t, 100., k.at(100))
	require.Zero(t, k.at(205))
	require.Zero(t, k.at(1))
}

package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/train"
)

// The peak is measured for a run that takes longer than that, in tokens of its model.
func TestMeasurePeak(t *testing.T) {
	e, err := device.New(device.Options{Threads: 1})
	require.NoError(t, err)
	defer e.Close()
	config := arch.Config{
		Arch: "llama", Vocab: 32000, Context: 64, Embd: 2048, FF: 8192, Layers: 2, Heads: 16, KVHeads: 16, HeadSize: 128, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1},
	}
	p, o := &trainCommand{}, train.Options{Batch: 1, Accumulate: 1, Epochs: 1, ComputeType: ggml.F32}
	peak := func(ctx context.Context, samples int) (float64, error) {
		d := data.New(64, slices.Repeat([]data.Sample{{Tokens: make([]int32, 65)}}, samples))
		k, err := p.measurePeak(ctx, e, config, d, o)
		if err != nil {
			return 0, err
		}
		return k.at(0), nil
	}
	short, err := peak(t.Context(), 1)
	require.NoError(t, err)
	require.Zero(t, short)
	long, err := peak(t.Context(), 50)
	require.NoError(t, err)
	require.Greater(t, long*config.AdapterFLOPs(65), 1e8)
	require.Less(t, long*config.AdapterFLOPs(65), 1e15)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = peak(stopped, 50)
	require.ErrorIs(t, err, context.Canceled)
}

// A peak that a step exceeds is measured again, and not known where that gives less than the step reached.
func TestPeakThatWasTooLow(t *testing.T) {
	again, fault, measured := 300., error(nil), 0
	k := &measuredPeak{tokens: 100, measure: func() (float64, error) {
		measured++
		return again, fault
	}}
	require.Equal(t, 100., k.at(100))
	require.Zero(t, measured)
	require.Equal(t, 300., k.at(205))
	require.Equal(t, 1, measured)
	require.Zero(t, k.at(301), "still slower than the step")
	require.Zero(t, k.at(1))
	require.Equal(t, 2, measured)
	k.tokens, fault = 100, errors.New("no memory")
	require.Zero(t, k.at(101))
	require.Zero(t, new(measuredPeak).at(1))
}

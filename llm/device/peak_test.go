package device_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// The measured peak is plausible, with the op sets of the CPU and of devices.
func TestPeakFLOPS(t *testing.T) {
	need.Time(t, "measures for a second")
	ctx, d := t.Context(), remote(t)
	e := newEngine(t, device.Options{})
	for _, e := range []*device.Engine{e, newEngine(t, device.Options{Layout: layout.On(d)})} {
		p := need.Value(e.PeakFLOPS(ctx, e.ComputeType(), 2))(t)
		require.Greater(t, p, 1e8)
		require.Less(t, p, 1e16)
	}
	if kernels.HasIntegers() {
		require.Greater(t, need.Value(e.PeakFLOPS(ctx, ggml.I16, 2))(t), 1e8)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	_, err := e.PeakFLOPS(stopped, ggml.F32, 2)
	require.ErrorIs(t, err, context.Canceled)
	_, err = e.PeakFLOPS(ctx, ggml.Q4_0, 2)
	require.EqualError(t, err, "there are no products of type q4_0; they are f32, bf16, f16, i16 or i8")
	_, err = e.PeakFLOPS(ctx, ggml.F32, 0)
	require.EqualError(t, err, "a model cannot have 0 layers; it has 1 to 65536")
}

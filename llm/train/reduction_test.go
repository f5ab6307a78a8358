package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
)

// smallGradParts divides even small gradients into parts, until the test ends.
func smallGradParts(t *testing.T) {
	before := leastGradPart
	leastGradPart = 1
	t.Cleanup(func() { leastGradPart = before })
}

// Parts of the gradients are being reduced before the computation of the last batch ends, also with
// checkpointing and with stock ops; the last layer is first.
func TestReductionOverlaps(t *testing.T) {
	smallGradParts(t)
	for _, checkpointing := range []Checkpointing{CheckpointingOff, CheckpointingOn} {
		for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
			o := runOptions()
			o.Accumulate, o.Checkpointing = 2, checkpointing
			runs := groupRun(t, 2, data.New(6, randomSamples(7, 6)), o, ops)
			errs := together(runs, func(_ int, r *loraRun) error {
				parts := r.reduction.parts
				require.Greater(t, len(parts), 1)
				require.Equal(t, r.opt.grad[r.opt.params[len(r.opt.params)-1].Tensor], parts[0].grads[len(parts[0].grads)-1])
				s := need.Value(r.planStep(t.Context()))(t)
				require.NoError(t, r.accumulate(t.Context(), s))
				require.Equal(t, len(parts), r.reduction.begun)
				before := need.Value(ggml.Read[float32](parts[0].grads[len(parts[0].grads)-1]))(t)
				require.NoError(t, r.reduction.end(t.Context())())
				after := need.Value(ggml.Read[float32](parts[0].grads[len(parts[0].grads)-1]))(t)
				require.NotEqual(t, before, after)
				return nil
			})
			requireAll(t, errs, nil)
		}
	}
}

// The parts contain each gradient once, and there are few parts.
func TestDivideGrads(t *testing.T) {
	smallGradParts(t)
	r := groupRun(t, 2, data.New(6, randomSamples(7, 6)), runOptions(), device.Kernels)[0]
	var all, want []*ggml.Tensor
	for _, p := range r.reduction.parts {
		all = append(all, p.grads...)
	}
	for _, run := range r.opt.runs {
		want = append(want, run.grad)
	}
	require.ElementsMatch(t, want, all)
	require.LessOrEqual(t, len(r.reduction.parts), gradParts)
	leastGradPart = 1 << 20
	require.Len(t, divideGrads(r.opt), 1)
}

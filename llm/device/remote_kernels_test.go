package device_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A server's CPU computes training by the kernels of this process: the losses are the same numbers. ggml's own server has
// none, and computes by ggml's ops.
func TestServerComputesKernels(t *testing.T) {
	need.Time(t, "trains on several servers")
	if need.Value(kernels.GEMMLibrary())(t) == "" {
		t.Skip("there is no GEMM library, which kernels of training need")
	}
	far, stock := remoteOf(t, optest.ServerOptions{Threads: 2}), remoteOf(t, optest.ServerOptions{Stock: true})
	require.True(t, kernels.HasTrainingOps(far, ggml.F32))
	require.Equal(t, kernels.HasBF16(), kernels.HasTrainingOps(far, ggml.BF16))
	require.False(t, kernels.HasTrainingOps(stock, ggml.F32))
	history := func(t *testing.T, m *model.Model, l layout.Layout, compute ggml.Type, ops device.OpSet) []train.StepMetrics {
		e := newEngine(t, device.Options{Layout: l, OpSet: ops})
		o := trainOptions(e, train.CheckpointingAuto)
		o.Schedule.Steps, o.ComputeType = 10, compute
		tr := need.Value(train.New(m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), o))(t)
		defer tr.Close()
		require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
		return tr.History
	}
	types := []ggml.Type{ggml.F32}
	if kernels.HasBF16() {
		types = append(types, ggml.BF16)
	}
	for _, name := range planned {
		m := llmtest.ArchModel(t, name, ggml.Q8_0)
		for _, compute := range types {
			t.Run(name+" "+compute.String(), func(t *testing.T) {
				near, there := history(t, m, layout.Layout{}, compute, ""), history(t, loadOn(t, m, layout.On(far)), layout.On(far), compute, "")
				for i, p := range near {
					require.Equal(t, p.Loss, there[i].Loss, "step %d", p.Step)
				}
			})
		}
		t.Run(name+" on ggml's server", func(t *testing.T) {
			near := history(t, m, layout.Layout{}, ggml.F32, device.Stock)
			requireSameLosses(t, near, history(t, loadOn(t, m, layout.On(stock)), layout.On(stock), ggml.F32, ""), 1e-4)
		})
	}
}

// A server whose GEMM library has no BF16 multiplies F32 in a run in BF16, and the multiplier's name says so.
func TestServerWithoutBF16(t *testing.T) {
	t.Setenv("GOGGML_BLAS", "libopenblas.so.0") // for the server; this process has its library already
	far := remoteOf(t, optest.ServerOptions{})
	if !kernels.HasTrainingOps(far, ggml.F32) || kernels.HasTrainingOps(far, ggml.BF16) {
		t.Skip("the server needs OpenBLAS")
	}
	e := newEngine(t, device.Options{Layout: layout.On(far)})
	for compute, want := range map[ggml.Type]string{ggml.F32: " with this project's kernels", ggml.BF16: " with this project's kernels, which multiply in F32 because the server has no BF16"} {
		require.NoError(t, e.CheckComputeType(compute))
		require.Equal(t, far.Name()+want, need.Value(e.Multiplier(layout.Sizes{1, 0}, compute))(t))
	}
}

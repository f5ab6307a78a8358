package train

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// wideRun trains a model whose matrices are large enough for integers.
func wideRun(t *testing.T, m *model.Model, compute ggml.Type, threads int) *loraRun {
	t.Helper()
	o := runOptions()
	o.ComputeType, o.Threads = compute, threads
	return newLoRARun(t, m, data.New(24, randomSamples(7, 24)), o, lora.Options{Rank: 4, Alpha: 4, Targets: []string{"attn_q", "attn_v", "ffn_up", "ffn_down"}})
}

func wideModel(t *testing.T) *model.Model {
	t.Helper()
	c := llmtest.TinyConfig(false)
	c.Embd, c.FF, c.HeadSize, c.RoPE.Dims = 256, 352, 64, 64
	return llmtest.TinyModel(t, c, ggml.Q8_0)
}

// The gradients of each type are as close to F32's as its rounding allows, and the comparison changes nothing.
func TestCheckCompute(t *testing.T) {
	m := wideModel(t)
	least := map[ggml.Type]float64{ggml.F32: 1}
	if kernels.HasBF16() {
		least[ggml.BF16] = 0.9995
	}
	if kernels.HasIntegers() {
		least[ggml.I16], least[ggml.I8] = 0.99999, 0.999
	}
	for compute, cosine := range least {
		r, plain := wideRun(t, m, compute, 1), wideRun(t, m, compute, 1)
		for step := range 2 { // in the first one B is 0, and so is the gradient of A
			check, err := r.CheckCompute(t.Context())
			require.NoError(t, err)
			require.Len(t, check.Parameters, (step+1)*2*4, "step %d", step)
			require.InEpsilon(t, check.LossF32, check.Loss, 1e-3)
			require.GreaterOrEqual(t, check.Cosine, cosine-1e-12, "%v", compute)
			for _, p := range check.Parameters {
				require.GreaterOrEqual(t, p.Cosine, 1-10*(1-cosine)-1e-12, "%v: %s", compute, p.Name)
			}
			if compute == ggml.I16 || compute == ggml.I8 {
				require.Less(t, check.Cosine, 1-1e-9, "nothing was rounded")
			}
			got, err := r.Step(t.Context())
			require.NoError(t, err)
			want, err := plain.Step(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

// Steps in integers have the same results for any number of threads, and in a run that resumes.
func TestIntegerSteps(t *testing.T) {
	if !kernels.HasIntegers() {
		t.Skip("the processor has no kernel for integers")
	}
	m := wideModel(t)
	whole, half, rest := wideRun(t, m, ggml.I16, 1), wideRun(t, m, ggml.I16, 3), wideRun(t, m, ggml.I16, 2)
	require.NoError(t, whole.Run(t.Context(), RunOptions{}))
	path := filepath.Join(t.TempDir(), "checkpoint.gguf")
	for range 3 {
		_, err := half.Step(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, half.SaveCheckpoint(path))
	require.NoError(t, rest.LoadCheckpoint(path))
	require.NoError(t, rest.Run(t.Context(), RunOptions{}))
	require.Equal(t, whole.Steps(), rest.Steps())
	for i, p := range whole.opt.params {
		want, err := ggml.Read[float32](p.Tensor)
		require.NoError(t, err)
		got, err := ggml.Read[float32](rest.opt.params[i].Tensor)
		require.NoError(t, err)
		require.Equal(t, want, got, p.Name())
	}
}

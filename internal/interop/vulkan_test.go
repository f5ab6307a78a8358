//go:build interop

package interop

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// An adapter trained on Vulkan has the same effect in stock llama.cpp, and on Vulkan except for the rounding of
// products.
func TestInteropVulkanTraining(t *testing.T) {
	devices, err := ggml.VulkanDevices()
	if err != nil || len(devices) == 0 {
		t.Skip("there is no Vulkan device; make gpu-check runs this test on the software driver")
	}
	on := layout.On(devices[0])
	for _, name := range []string{"gpt-oss", "llama", "mistral3", "phi3", "qwen3moe"} {
		t.Run(name, func(t *testing.T) {
			path := llmtest.StockArchFile(t, name)
			adapter := trainedOn(t, on, path)
			m := need.Value(model.Load(path, model.LoadOptions{}))(t)
			defer m.Close()
			a := need.Value(lora.Load(adapter, m))(t)
			defer a.Close()
			tokens := llmtest.RandomTokens(3, 40, m.Config().Vocab)
			want := stockLogits(t, path, tokens, adapter+"=1")
			effect := nmse(stockLogits(t, path, tokens), want)
			require.Greater(t, effect, 0.01, "the adapter must matter")
			for way, got := range ways(t, m, tokens, a.WithScale(1)) {
				t.Logf("%s: NMSE %.2g, without adapter %.2g", way, nmse(got, want), effect)
				require.LessOrEqual(t, nmse(got, want), bound, way)
			}
			if m.Config().Experts > 0 {
				return // with rounded inputs a router may select other experts
			}
			n := nmse(logitsOn(t, on, path, tokens, adapter), want)
			t.Logf("on %s: NMSE %.2g", on, n)
			require.Less(t, n, 1e-5)
		})
	}
}

// trainedOn returns the file of an adapter of every matrix after some steps.
func trainedOn(t *testing.T, on layout.Layout, path string) string {
	t.Helper()
	const length = 24
	m := need.Value(model.Load(path, model.LoadOptions{Layout: on}))(t)
	defer m.Close()
	a := need.Value(lora.New(m, everyMatrix(m)))(t)
	defer a.Close()
	tr := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, data.New(length, followingTokens(m.Config().Vocab, 8, length)), train.Options{
		Schedule: train.Schedule{Peak: 0.01, Warmup: 2, Steps: 20}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1, Seed: 3, Threads: 1,
	}))(t)
	defer tr.Close()
	require.NoError(t, tr.Run(t.Context(), train.RunOptions{}))
	first, last := tr.History[0].Loss, tr.History[len(tr.History)-1].Loss
	t.Logf("the loss falls from %.3f to %.3f", first, last)
	require.Less(t, last, 0.9*first)
	adapter := filepath.Join(t.TempDir(), "trained.gguf")
	require.NoError(t, a.Save(adapter, lora.SaveOptions{}))
	return adapter
}

// logitsOn returns the logits of a session on a device.
func logitsOn(t *testing.T, on layout.Layout, path string, tokens []int32, adapter string) [][]float32 {
	t.Helper()
	m := need.Value(model.Load(path, model.LoadOptions{Layout: on}))(t)
	defer m.Close()
	a := need.Value(lora.Load(adapter, m))(t)
	defer a.Close()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{CacheType: ggml.F32, Adapters: a.WithScale(1), Threads: 1}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	return need.Value(q.DecodeAll(t.Context(), tokens))(t)
}

//go:build interop

package interop

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Every stock random model that we support has exact gradients. If the model is causal, twenty steps lower its
// loss, and the adapter has the same effect in stock llama.cpp, on its own and merged.
func TestInteropArchitectureTraining(t *testing.T) {
	dir := t.TempDir()
	run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", seeds()[0])
	for _, name := range archs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), name+".gguf")
			strengthen(t, filepath.Join(dir, name+".gguf"), file)
			m := need.Value(model.Load(file, model.LoadOptions{}))(t)
			defer m.Close()
			testGradients(t, m)
			testTraining(t, m)
		})
	}
}

// testGradients compares the gradients of all weights, and of an adapter of every matrix, by both lowerings
// with float64 gradients, and these with central differences of the loss.
func testGradients(t *testing.T, m *model.Model) {
	const length = 34 // longer than the windows
	vocab := m.Config().Vocab
	b := lossgraph.Batch{Tokens: llmtest.RandomTokens(1, length, vocab), Targets: llmtest.RandomTokens(2, length, vocab), LossWeights: slices.Repeat([]float32{1. / length}, length)}
	a := randomAdapter(t, m, everyMatrix(m))
	o := lossgraph.Options{Length: length, Batch: 1, Adapters: a.WithScale(0.75)}
	exact := llmtest.ExactLoss(t, m, b, o)
	o.Grads = llmtest.ZeroGrads(t, m)
	store := llmtest.NewArena(t)
	for _, p := range a.Pairs() {
		for _, x := range []*ggml.Tensor{p.A, p.B} {
			o.Grads[x] = store.Tensor(x.Name()+".grad", make([]float32, x.NumElements()), x.Shape()...)
		}
	}
	maps.DeleteFunc(o.Grads, func(x, _ *ggml.Tensor) bool { return exact.Leaf(x) == nil }) // e.g. an absent bias of a norm
	loss, want := llmtest.ExactGradients(t, m, b, o, llmtest.RoundedGELU)
	largest := 0.0
	for _, grad := range want {
		largest = max(largest, norm(grad))
	}
	worst := 1.0
	for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
		require.InEpsilon(t, loss, accumulate(t, m, lowering, b, o), 1e-4, lowering)
		for x, acc := range o.Grads {
			got := need.Value(ggml.Read[float32](acc))(t)
			if norm(want[x]) < 1e-12*largest { // without positions, a key bias shifts all scores of a query equally
				require.Less(t, norm(got), 1e-6*largest, "%s of %s", x.Name(), lowering)
				continue
			}
			cosine := refmath.Cosine(got, want[x])
			require.GreaterOrEqual(t, cosine, 0.9999, "%s of %s", x.Name(), lowering)
			worst = min(worst, cosine)
		}
	}
	t.Logf("%d gradients have a cosine of at least %.7f", len(want), worst)
	if llmtest.LooksUpGELU(m.Config().Arch) {
		_, want = llmtest.ExactGradients(t, m, b, o, llmtest.SmoothGELU)
	}
	llmtest.RequireSlopes(t, exact, b, want, 1e-5, 1e-3) // a step may cross the kink of a ReLU
}

// norm returns the length of a vector.
func norm[T ~float32 | ~float64](x []T) float64 {
	return refmath.RelativeError(x, make([]float64, len(x)))
}

// accumulate computes the gradients of a batch into their accumulators, and returns its loss.
func accumulate(t *testing.T, m *model.Model, lowering device.OpSet, b lossgraph.Batch, o lossgraph.Options) float64 {
	t.Helper()
	e := need.Value(device.New(device.Options{Threads: 1, OpSet: lowering}))(t)
	defer e.Close()
	for _, acc := range o.Grads {
		require.NoError(t, ggml.Write(acc, make([]float32, acc.NumElements())))
	}
	l := need.Value(lossgraph.New(m, e, o))(t)
	defer l.Close()
	losses := need.Value(l.Compute(context.Background(), b))(t)
	return llmtest.WeightedLoss(b, losses)
}

// testTraining trains an adapter of every matrix.
func testTraining(t *testing.T, m *model.Model) {
	const length, steps = 24, 20
	rate := 0.01
	if m.Config().Arch == "hrm_text" { // it passes its layers twice, and its loss goes up and down at this rate
		rate = 0.003
	}
	a := need.Value(lora.New(m, everyMatrix(m)))(t)
	defer a.Close()
	d := data.New(length, followingTokens(m.Config().Vocab, 8, length))
	tr, err := train.New(m, train.Trainables{Adapters: a.WithScale(1)}, d, train.Options{
		Schedule: train.Schedule{Peak: rate, Warmup: 2, Steps: steps}, AdamW: train.DefaultAdamW(),
		Batch: 4, Accumulate: 1, Seed: 3, Threads: 1,
	})
	if !m.Architecture().IsCausal() {
		require.ErrorIs(t, err, arch.ErrNotCausal)
		return
	}
	require.NoError(t, err)
	defer tr.Close()
	before := need.Value(tr.Evaluate(context.Background(), d))(t)
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
	after := need.Value(tr.Evaluate(context.Background(), d))(t)
	t.Logf("the loss falls from %.3f to %.3f", before.Loss, after.Loss)
	require.Less(t, after.Loss, 0.9*before.Loss)

	adapter := filepath.Join(t.TempDir(), "trained.gguf")
	require.NoError(t, a.Save(adapter, lora.SaveOptions{}))
	tokens := llmtest.RandomTokens(3, 96, m.Config().Vocab)
	want := stockLogits(t, m.Path, tokens, adapter+"=1")
	effect := nmse(stockLogits(t, m.Path, tokens), want)
	require.Greater(t, effect, 0.01, "the adapter must matter")
	logits := ways(t, m, tokens, a.WithScale(1))
	logits["merged, by stock"] = stockLogits(t, mergedModel(t, m, a, 1, nil), tokens)
	for way, got := range logits {
		n := nmse(got, want)
		t.Logf("%s: NMSE %.2g, without adapter %.2g", way, n, effect)
		requireEqualToStock(t, way, n, func(v *cpuVariant) float64 { return nmse(v.logits(t, m.Path, tokens, adapter+"=1"), want) }, m.Path)
	}
}

// followingTokens returns samples in which each token determines the next.
func followingTokens(vocab, n, length int) (list []data.Sample) {
	for i := range n {
		s := data.Sample{Tokens: []int32{int32(i * vocab / n)}}
		for range length {
			s.Tokens = append(s.Tokens, (5*s.Tokens[len(s.Tokens)-1]+3)%int32(vocab))
		}
		list = append(list, s)
	}
	return list
}

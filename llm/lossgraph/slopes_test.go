package lossgraph_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// withoutHead are gradients of all weights but the head's.
func withoutHead(t *testing.T, m *model.Model) map[*ggml.Tensor]*ggml.Tensor {
	grads := llmtest.ZeroGrads(t, m)
	delete(grads, m.Weight("output.weight"))
	return grads
}

// Slopes that are found in the pass give the losses of the pass before, to the byte, and the gradients of its slopes up
// to rounding: by both op sets, with logits in chunks, and with results recomputed.
func TestSlopes(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	b := pairsBatch(m.Config().Vocab, true)
	loss := preferences(make([]float64, 2*numPairs))
	for _, ops := range []device.OpSet{device.Kernels, device.Stock} {
		e := need.Value(device.New(device.Options{Threads: 2, OpSet: ops}))(t)
		t.Cleanup(func() { e.Close() })
		logProbs := logProbs(t, m, e, b, pairsOptions(b))
		_, slopes := loss(logProbs)
		compute := func(b lossgraph.Batch, o lossgraph.Options) ([]float32, map[*ggml.Tensor]*ggml.Tensor) {
			o.Grads = withoutHead(t, m)
			l := need.Value(lossgraph.New(m, e, o))(t)
			defer l.Close()
			return need.Value(l.Compute(context.Background(), b))(t), o.Grads
		}
		wantLosses, want := compute(weighted(t, b, slopes), pairsOptions(b))
		for _, chunk := range []int{0, 7} {
			o, calls := pairsOptions(b), 0
			o.LogitsChunk, o.Checkpoint = chunk, chunk > 0
			o.Slopes = func(got []float64) ([]float64, error) {
				calls++
				require.InEpsilonSlice(t, logProbs, got, 1e-6)
				return slopes, nil
			}
			losses, got := compute(b, o)
			require.Equal(t, 1, calls)
			require.InEpsilonSlice(t, wantLosses, losses, 1e-6)
			for w, grad := range want {
				require.Less(t, refmath.RelativeError(readValues(t, got[w]), refmath.From(readValues(t, grad)).Data), 2e-6, w.Name())
			}
		}
	}
}

// The pass fails with the error of Slopes, and its gradients are then NaN. Without a backward pass, or if the head is
// trained, there are no slopes.
func TestSlopesErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	b, e := pairsBatch(m.Config().Vocab, true), llmtest.NewEngine(t)
	o := pairsOptions(b)
	failed := errors.New("there is no reference")
	for _, slopes := range []func([]float64) ([]float64, error){
		func([]float64) ([]float64, error) { return nil, failed },
		func([]float64) ([]float64, error) { return []float64{1}, nil },
	} {
		o.Grads, o.Slopes = withoutHead(t, m), slopes
		l := need.Value(lossgraph.New(m, e, o))(t)
		defer l.Close()
		_, err := l.Compute(t.Context(), b)
		if _, own := slopes(nil); own != nil {
			require.ErrorIs(t, err, failed)
		} else {
			require.ErrorContains(t, err, "Slopes returned 1 slopes for the 5 samples of the batch")
		}
	}
	factors, losses := make([]float32, 2), make([]float32, 2)
	require.ErrorIs(t, lossgraph.PutFactors(lossgraph.Batch{Tokens: make([]int32, 2)}, factors, losses, func([]float64) ([]float64, error) { return nil, failed }), failed)
	for _, x := range factors {
		require.True(t, math.IsNaN(float64(x)))
	}

	const refusal = "the option Slopes needs a backward pass, no teacher, and a head that is not trained; compute the log-probabilities first, and then the batch of WithSlopes"
	tied := llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32)
	s := llmtest.NewLoRASetup(t, m, 2, 1)
	for name, k := range map[string]struct {
		m        *model.Model
		adapters model.Adapters
		grads    map[*ggml.Tensor]*ggml.Tensor
	}{
		"no gradients": {m, nil, nil}, "the head": {m, nil, llmtest.ZeroGrads(t, m)}, "a tied head": {tied, nil, llmtest.ZeroGrads(t, tied)}, "an adapter on it": {m, s.Adapters, s.Trained()},
	} {
		o.Grads, o.Adapters = k.grads, k.adapters
		_, err := lossgraph.New(k.m, e, o)
		require.EqualError(t, err, refusal, name)
	}
	require.False(t, lossgraph.TrainsHead(m, nil, withoutHead(t, m)))
	tiedSetup := llmtest.NewLoRASetup(t, tied, 2, 1) // an adapter of a tied embedding acts on the lookup only
	require.False(t, lossgraph.TrainsHead(tied, tiedSetup.Adapters, tiedSetup.Trained()))
}

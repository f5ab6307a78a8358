package lossgraph_test

import (
	"math"
	"slices"
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

// noise has rows that are neither the first of their step nor adjacent.
func noise(rows int) lossgraph.Noise {
	n := lossgraph.Noise{Seed: 5, Step: 2}
	for i := range rows {
		n.Rows = append(n.Rows, 1+3*i)
	}
	return n
}

// With dropout and NEFTune the loss and the gradients equal the graph's in float64,
// by both lowerings, with checkpoints and chunks, and packed.
func TestNoiseGradients(t *testing.T) {
	names := llmtest.FewArchitectures()
	if testing.Short() {
		names = []string{"gemma3", "gpt-oss"}
	}
	forEach(t, names, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		s := llmtest.NewLoRASetup(t, m, 3, 0.75)
		batch := llmtest.NewBatch(m.Config().Vocab, archLength)
		batch.Noise = noise(2)
		options := lossgraph.Options{Length: archLength, Batch: 2, Dropout: 0.3, NEFTune: 5}
		requireNoisy(t, s, batch, options)
		options.Checkpoint, options.LogitsChunk, options.FeedForwardChunk = true, 7, 5
		requireNoisy(t, s, batch, options)

		packed := normalized(packedBatch(m.Config().Vocab, packedRows()))
		packed.Noise = noise(len(packedRows()))
		requireNoisy(t, s, packed, lossgraph.Options{Length: packedLength, Batch: len(packedRows()), Packed: true, Dropout: 0.3, NEFTune: 5})
	})
}

func requireNoisy(t *testing.T, s *llmtest.LoRASetup, b lossgraph.Batch, o lossgraph.Options) {
	t.Helper()
	exact := lossgraph.Options{Length: o.Length, Packed: o.Packed, Adapters: s.Adapters, Grads: s.Trained()}
	_, quiet := llmtest.ExactGradients(t, s.Model, b, exact, llmtest.RoundedGELU)
	exact.Dropout, exact.NEFTune = o.Dropout, o.NEFTune
	want, grads := llmtest.ExactGradients(t, s.Model, b, exact, llmtest.RoundedGELU)
	for x := range grads {
		require.Greater(t, refmath.RelativeError(quiet[x], grads[x]), 0.05, "the noise must matter to %s", x.Name())
	}
	for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
		e := need.Value(device.New(device.Options{Threads: 2, OpSet: lowering}))(t)
		t.Cleanup(func() { e.Close() })
		l := s.NewGraph(t, e, o)
		bound := tolerated(s.Model)
		require.InEpsilon(t, want, s.ComputeGraph(t, l, b), bound.loss)
		requireGradients(t, grads, s.Trained(), bound.gradient)
	}
}

// Masks act on the input of A, and noise on the embedding, token by token: a token alone has the loss that a graph
// without dropout and noise has if rows of A are masked and the embeddings have the noise.
func TestNoiseIsOnInputs(t *testing.T) {
	for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
		s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 3, 0.75)
		e := need.Value(device.New(device.Options{Threads: 2, OpSet: lowering}))(t)
		t.Cleanup(func() { e.Close() })
		o := lossgraph.Options{Length: 1, Batch: 3}
		b := lossgraph.Batch{Tokens: []int32{5, 9, 2}, Targets: []int32{1, 2, 3}, LossWeights: []float32{1, 1, 1}, Noise: noise(3)}
		quiet, plain := s.NewGraph(t, e, o), lossgraph.Batch{Tokens: b.Tokens, Targets: b.Targets, LossWeights: b.LossWeights}
		o.Dropout, o.NEFTune = 0.3, 5
		l := s.NewGraph(t, e, o)
		unchanged := need.Value(quiet.Compute(t.Context(), plain))(t)
		noisy := need.Value(l.Compute(t.Context(), b))(t)

		embeddings := l.EmbdNoise(b)
		for i, token := range b.Tokens {
			masks := map[*ggml.Tensor][]float32{}
			for base, pairs := range s.Adapters {
				if base != "token_embd.weight" {
					masks[pairs[0].A] = l.Mask(pairs[0].A, b.Noise)[i]
				}
			}
			restore := withFactors(t, masks)
			table := s.Model.Weight("token_embd.weight")
			before := readValues(t, table)
			after, width := slices.Clone(before), len(embeddings[i])
			for j, x := range embeddings[i] {
				after[int(token)*width+j] += x
			}
			require.NoError(t, ggml.Write(table, after))
			losses := need.Value(quiet.Compute(t.Context(), plain))(t)
			require.InEpsilon(t, losses[i], noisy[i], 1e-5, "token %d, %v", i, lowering)
			require.Greater(t, math.Abs(float64(unchanged[i]-noisy[i])), 1e-3, "the noise must matter")
			require.NoError(t, ggml.Write(table, before))
			restore()
		}
	}
}

// withFactors multiplies the columns of matrices [width, n] until the result is called.
func withFactors(t *testing.T, factors map[*ggml.Tensor][]float32) (restore func()) {
	t.Helper()
	old := map[*ggml.Tensor][]float32{}
	for a, list := range factors {
		old[a] = readValues(t, a)
		values := slices.Clone(old[a])
		for i := range values {
			values[i] *= list[i%len(list)]
		}
		require.NoError(t, ggml.Write(a, values))
	}
	return func() {
		for a, values := range old {
			require.NoError(t, ggml.Write(a, values))
		}
	}
}

// noiseGraph is a graph with rows of 40 tokens and an adapter of each matrix.
func noiseGraph(t *testing.T, s *llmtest.LoRASetup, batch int) *lossgraph.Graph {
	t.Helper()
	return s.NewGraph(t, llmtest.NewEngine(t), lossgraph.Options{Length: 40, Batch: batch, Packed: true, Dropout: 0.25, NEFTune: 3})
}

// correlation returns the correlation of values about 1.
func correlation(x, y []float32) float64 {
	var xy, xx, yy float64
	for i := range x {
		a, b := float64(x[i])-1, float64(y[i])-1
		xy, xx, yy = xy+a*b, xx+a*a, yy+b*b
	}
	return xy / math.Sqrt(xx*yy)
}

// Factors are 0 with the probability of dropout, otherwise such that the mean is 1. Factors of
// different tokens, pairs, rows, steps or seeds are independent. Each bound is five standard
// deviations.
func TestDropoutMasks(t *testing.T) {
	const rows, tokens = 6, 6 * 40
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 2, 1)
	l := noiseGraph(t, s, rows)
	var list [][]float32
	for base, pairs := range s.Adapters {
		if base == "token_embd.weight" {
			continue
		}
		mask, width := l.Mask(pairs[0].A, noise(rows)), int(pairs[0].A.Dim(0))
		require.Len(t, mask, tokens)
		flat := slices.Concat(mask...)
		var sum float64
		for _, f := range flat {
			require.Contains(t, []float32{0, 4.0 / 3}, f)
			sum += float64(f)
		}
		n := float64(len(flat))
		require.InDelta(t, 1, sum/n, 5*math.Sqrt(1.0/3/n), base)
		require.Less(t, math.Abs(correlation(flat[width:], flat[:len(flat)-width])), 5/math.Sqrt(n), "tokens of %s", base)
		require.Less(t, math.Abs(correlation(flat[1:], flat[:len(flat)-1])), 5/math.Sqrt(n), "inputs of %s", base)
		half := len(flat) / 2
		require.Less(t, math.Abs(correlation(flat[half:], flat[:half])), 5/math.Sqrt(n/2), "rows of %s", base)
		for _, other := range []lossgraph.Noise{
			{Seed: 6, Step: 2, Rows: noise(rows).Rows}, {Seed: 5, Step: 3, Rows: noise(rows).Rows}, {Seed: 5, Step: 2},
		} {
			require.Less(t, math.Abs(correlation(flat, slices.Concat(l.Mask(pairs[0].A, other)...))), 5/math.Sqrt(n), "%v of %s", other, base)
		}
		require.True(t, slices.EqualFunc(mask, l.Mask(pairs[0].A, noise(rows)), slices.Equal))
		if width == s.Model.Config().Embd {
			list = append(list, flat)
		}
	}
	require.Equal(t, 2*6+1, len(list))
	for i, x := range list {
		for _, y := range list[:i] {
			require.Less(t, math.Abs(correlation(x, y)), 5/math.Sqrt(float64(len(x))), "pairs")
		}
	}
}

// The rows of a step draw the same however they are divided into batches.
func TestNoiseOfRows(t *testing.T) {
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 2, 1)
	whole, part := noiseGraph(t, s, 3), noiseGraph(t, s, 1)
	a := s.Adapters["blk.1.ffn_down.weight"][0].A
	batch := func(rows ...int) lossgraph.Batch {
		return lossgraph.Batch{Tokens: make([]int32, 40*len(rows)), Noise: lossgraph.Noise{Seed: 1, Step: 2, Rows: rows}}
	}
	for _, ids := range [][]int{{0, 1, 2}, {5, 9, 2}} {
		masks, embeddings := whole.Mask(a, batch(ids...).Noise), whole.EmbdNoise(batch(ids...))
		for i, id := range ids {
			require.Equal(t, masks[40*i:40*(i+1)], part.Mask(a, batch(id).Noise))
			require.Equal(t, embeddings[40*i:40*(i+1)], part.EmbdNoise(batch(id)))
		}
	}
	numbered := batch(0, 1, 2)
	numbered.Noise.Rows = nil
	require.Equal(t, whole.Mask(a, batch(0, 1, 2).Noise), whole.Mask(a, numbered.Noise))
	numbered.Noise.Rows = []int{1}
	numbered.Targets = numbered.Tokens
	_, err := whole.Compute(t.Context(), numbered)
	require.EqualError(t, err, "the noise of the batch has 1 row ids; the graph takes 3")
}

// The noise of NEFTune is uniform in ±alpha/√(L·d), where L counts the tokens of each sample up to the last trained
// one. Factors that transformers applies after its embedding module, in granite alone, scale it, too.
func TestNEFTuneNoise(t *testing.T) {
	for _, arch := range []string{"llama", "granite", "gemma3"} {
		s := llmtest.NewLoRASetup(t, llmtest.ArchModel(t, arch, ggml.F32), 2, 1)
		scale := 1.0
		if arch == "granite" {
			scale = float64(s.Model.Config().EmbdScale)
		}
		require.Equal(t, arch != "llama", s.Model.Config().EmbdScale > 1)
		// One sample, one whose last 15 tokens are not trained, and two in a row.
		b := lossgraph.Batch{Tokens: make([]int32, 120), LossWeights: make([]float32, 120), Starts: make([]int32, 120), Noise: noise(3)}
		for i := range b.LossWeights {
			b.LossWeights[i] = 1
			if i < 10 || i >= 65 && i < 80 {
				b.LossWeights[i] = 0
			}
			if i >= 110 {
				b.Starts[i] = 30
			}
		}
		values := noiseGraph(t, s, 3).EmbdNoise(b)
		for _, sample := range []struct{ from, to, length int }{{0, 40, 40}, {40, 80, 25}, {80, 110, 30}, {110, 120, 10}} {
			limit := 3 * scale / math.Sqrt(float64(sample.length*s.Model.Config().Embd))
			var sum, squares, largest float64
			for _, v := range slices.Concat(values[sample.from:sample.to]...) {
				sum, squares, largest = sum+float64(v), squares+float64(v)*float64(v), max(largest, math.Abs(float64(v)))
			}
			n := float64(s.Model.Config().Embd * (sample.to - sample.from))
			require.LessOrEqual(t, largest, limit*1.000001)
			require.Greater(t, largest, limit*0.97)
			require.InDelta(t, 0, sum/n, 5*limit/math.Sqrt(3*n))
			require.InEpsilon(t, limit*limit/3, squares/n, 5*math.Sqrt(0.8/n))
		}
	}
}

// A graph without dropout and NEFTune draws nothing.
func TestWithoutNoise(t *testing.T) {
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 2, 1)
	batch := llmtest.NewBatch(s.Model.Config().Vocab, 12)
	options := lossgraph.Options{Length: 12, Batch: 2}
	e := llmtest.NewEngine(t)
	quiet := s.Compute(t, e, batch, options)
	batch.Noise = noise(2)
	require.Equal(t, quiet, s.Compute(t, e, batch, options))
	options.Dropout = 0.5
	require.NotEqual(t, quiet, s.Compute(t, e, batch, options))
}

func TestNoiseErrors(t *testing.T) {
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32), 2, 1)
	embedding := s.Adapters["token_embd.weight"]
	grads := map[*ggml.Tensor]*ggml.Tensor{embedding[0].A: s.Grads["token_embd.weight.lora_a"]}
	nan := float32(math.NaN())
	for want, o := range map[string]lossgraph.Options{
		"the dropout is 1; it must be at least 0 and below 1":                          {Dropout: 1, Grads: grads},
		"the dropout is -0.5; it must be at least 0 and below 1":                       {Dropout: -0.5, Grads: grads},
		"the dropout is NaN; it must be at least 0 and below 1":                        {Dropout: nan, Grads: grads},
		"the NEFTune alpha is -1; it must be a finite number of at least 0":            {NEFTune: -1, Grads: grads},
		"the NEFTune alpha is +Inf; it must be a finite number of at least 0":          {NEFTune: float32(math.Inf(1)), Grads: grads},
		"dropout and NEFTune need a graph with Grads; leave them out":                  {NEFTune: 5},
		"dropout acts on adapters of linear layers, and none is trained; leave it out": {Dropout: 0.1, Grads: grads},
	} {
		o.Length, o.Batch, o.Adapters = 4, 1, s.Adapters
		_, err := lossgraph.New(s.Model, llmtest.NewEngine(t), o)
		require.EqualError(t, err, want)
	}
}

package refmodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/refmath"
)

var tiny = Params{Vocab: 11, Embd: 12, FF: 20, Layers: 2, Heads: 6, KVHeads: 2, HeadDim: 4, RMSEps: 1e-5}

func newModel(t *testing.T, p Params, tied bool) *Model {
	t.Helper()
	m, err := New(p, RandomWeights(p, tied, 7))
	require.NoError(t, err)
	return m
}

func tinyBatch() []Sequence {
	return []Sequence{
		{Inputs: []int32{1, 5, 5, 0, 9}, Targets: []int32{5, 5, 0, 9, 2}},
		{Inputs: []int32{3, 10, 4}, Targets: []int32{10, 4, -1}, Weights: []float64{0.5, 2, 0}},
	}
}

// withEverything has biases, RoPE factors, a partial rotation with a
// magnitude, and adapters on every matrix, the embedding's included.
func withEverything(t *testing.T, tied, neox bool) *Model {
	p := tiny
	p.Embd, p.FF = 6, 8
	p.RoPE = refmath.RoPE{Dims: 2, NeoX: neox, FreqBase: 50, FreqScale: 0.5, AttnFactor: 1.25}
	weights := RandomWeights(p, tied, 3)
	rng := rand.New(rand.NewPCG(4, 5))
	weights["rope_freqs.weight"] = refmath.From([]float64{1.5})
	weights["blk.0.attn_q.bias"] = refmath.Normal(rng, 0.5, 24)
	weights["blk.1.attn_v.bias"] = refmath.Normal(rng, 0.5, 8)
	weights["blk.1.ffn_down.bias"] = refmath.Normal(rng, 0.5, 6)
	m, err := New(p, weights)
	require.NoError(t, err)
	require.NoError(t, m.AddRandomLoRA(3, 0.5, 6))
	require.NoError(t, m.AddRandomLoRA(2, 0.7, 8, "token_embd.weight"))
	if !tied {
		require.NoError(t, m.AddRandomLoRA(2, 0.7, 8, "output.weight"))
	}
	return m
}

// logitsByOps is the same model out of refmath's operations, which are compared
// with ggml elsewhere: two implementations that check each other.
func logitsByOps(m *Model, tokens []int32) Tensor {
	w := func(name string) Tensor { return m.weights[name] }
	n := int64(len(tokens))
	linear := func(name string, x Tensor) Tensor {
		y := refmath.MulMat(w(name), x)
		if b, ok := m.weights[strings.TrimSuffix(name, ".weight")+".bias"]; ok {
			y = refmath.Add(y, b)
		}
		if l, ok := m.loras[name]; ok && name != tokenEmbd {
			y = refmath.Add(y, refmath.Scale(refmath.MulMat(l.B, refmath.MulMat(l.A, x)), l.Scale))
		}
		return y
	}
	norm := func(name string, x Tensor) Tensor {
		return refmath.Mul(refmath.RMSNorm(x, m.RMSEps), w(name))
	}
	positions, rope := refmath.Arange(0, float64(n), 1), m.RoPE
	rope.Factors = w("rope_freqs.weight").Data
	heads := func(name string, x Tensor, count int, rotate bool) Tensor {
		y := refmath.Reshape(linear(name, x), int64(m.HeadDim), int64(count), n)
		if rotate {
			y = refmath.RopeExt(y, positions, rope)
		}
		return refmath.Permute(y, 0, 2, 1, 3)
	}
	x := refmath.GetRows(w(tokenEmbd), refmath.From(tokens))
	if l, ok := m.loras[tokenEmbd]; ok {
		x = refmath.Add(x, refmath.Scale(refmath.MulMat(l.B, refmath.GetRows(l.A, refmath.From(tokens))), l.Scale))
	}
	for b := range m.Layers {
		block := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", b, part) }
		h := norm(block("attn_norm"), x)
		a := refmath.FlashAttnExt(
			heads(block("attn_q"), h, m.Heads, true),
			heads(block("attn_k"), h, m.KVHeads, true),
			heads(block("attn_v"), h, m.KVHeads, false),
			refmath.CausalMask(n, n, 0), Tensor{}, 1/math.Sqrt(float64(m.HeadDim)), 0, 0)
		x = refmath.Add(x, linear(block("attn_output"), refmath.Reshape(a, int64(m.Heads*m.HeadDim), n)))
		h = norm(block("ffn_norm"), x)
		gated := refmath.GateSplit(refmath.SwiGLU, linear(block("ffn_gate"), h), linear(block("ffn_up"), h))
		x = refmath.Add(x, linear(block("ffn_down"), gated))
	}
	head := output
	if _, ok := m.weights[output]; !ok {
		head = tokenEmbd
	}
	return linear(head, norm(outputNorm, x))
}

func flatten(logits [][]float64) []float64 {
	var out []float64
	for _, row := range logits {
		out = append(out, row...)
	}
	return out
}

func TestLogitsAgreeWithReferenceOps(t *testing.T) {
	tokens := []int32{1, 5, 5, 0, 9, 2, 10}
	for name, m := range map[string]*Model{
		"plain":            newModel(t, tiny, false),
		"tied":             newModel(t, tiny, true),
		"everything":       withEverything(t, false, false),
		"everything, neox": withEverything(t, true, true),
	} {
		t.Run(name, func(t *testing.T) {
			logits, err := m.Logits(tokens)
			require.NoError(t, err)
			require.Less(t, refmath.MaxAbsDiff(flatten(logits), logitsByOps(m, tokens).Data), 1e-11)
		})
	}
}

func TestLogitsAreCausal(t *testing.T) {
	m := newModel(t, tiny, false)
	long, err := m.Logits([]int32{1, 2, 3, 4})
	require.NoError(t, err)
	short, err := m.Logits([]int32{1, 2})
	require.NoError(t, err)
	require.Equal(t, short, long[:2])
}

func TestLossByHand(t *testing.T) {
	m := newModel(t, tiny, false)
	var sum float64
	for i, weights := range [][]float64{{1, 1, 1, 1, 1}, {0.5, 2, 0}} {
		s := tinyBatch()[i]
		logits, err := m.Logits(s.Inputs)
		require.NoError(t, err)
		for pos, w := range weights {
			if w == 0 {
				continue
			}
			total := 0.0
			for _, v := range logits[pos] {
				total += math.Exp(v)
			}
			sum -= w * math.Log(math.Exp(logits[pos][s.Targets[pos]])/total)
		}
	}
	loss, err := m.Loss(tinyBatch()...)
	require.NoError(t, err)
	require.InDelta(t, sum/7.5, loss, 1e-12)
}

// An adapter is the same as the weight with Scale·B·A merged into it.
func TestLoRAEqualsMergedWeights(t *testing.T) {
	m := withEverything(t, false, true)
	merged := map[string]Tensor{}
	for name, w := range m.weights {
		l, ok := m.loras[name]
		switch {
		case ok && name == tokenEmbd: // row t gains B·(row t of A)
			w = refmath.Add(w, refmath.Scale(refmath.MulMat(l.B, l.A), l.Scale))
		case ok:
			w = refmath.Add(w, refmath.Scale(refmath.MulMat(refmath.Transpose(l.A), l.B), l.Scale))
		}
		merged[name] = w
	}
	flat, err := New(m.Params, merged)
	require.NoError(t, err)
	want, err := flat.Logits([]int32{4, 0, 4, 7})
	require.NoError(t, err)
	got, err := m.Logits([]int32{4, 0, 4, 7})
	require.NoError(t, err)
	require.Less(t, refmath.MaxAbsDiff(flatten(got), flatten(want)), 1e-11)
}

// Every element of every parameter, for both outputs and both RoPE pairings.
func TestGradientAgainstCentralDifferences(t *testing.T) {
	for name, m := range map[string]*Model{
		"untied, norm": withEverything(t, false, false),
		"tied, neox":   withEverything(t, true, true),
	} {
		t.Run(name, func(t *testing.T) {
			requireCentralDifferences(t, m, append(m.LoRANames(), m.WeightNames()...))
		})
	}
}

// requireCentralDifferences compares the gradient of each element of parameters. Those
// of RoPE have none.
func requireCentralDifferences(t *testing.T, m *Model, names []string) {
	t.Helper()
	requireCentralDifferencesOf(t, m, tinyBatch(), names)
}

func requireCentralDifferencesOf(t *testing.T, m *Model, batch []Sequence, names []string) {
	t.Helper()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "rope_") })
	loss, grads, err := m.Gradient(batch, names...)
	require.NoError(t, err)
	want, err := m.Loss(batch...)
	require.NoError(t, err)
	require.InDelta(t, want, loss, 1e-12)
	for _, p := range names {
		numeric, err := m.NumericGradient(batch, p, 1e-5)
		require.NoError(t, err)
		require.NotZero(t, refmath.Sum(refmath.Sqr(grads[p])).Data[0], p)
		require.Less(t, refmath.RelativeError(grads[p].Data, numeric), 1e-6, p)
	}
}

// With noise on the embeddings, and adapters that do not see all of their input.
func TestNoiseAgainstCentralDifferences(t *testing.T) {
	m := withEverything(t, false, false)
	without, err := m.Loss(tinyBatch()...)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 8))
	draw := func(rows, width int, value func() float64) [][]float64 {
		list := make([][]float64, rows)
		for i := range list {
			for range width {
				list[i] = append(list[i], value())
			}
		}
		return list
	}
	batch := tinyBatch()
	for i := range batch {
		s := &batch[i]
		s.Noise, s.Dropout = draw(len(s.Inputs), m.Embd, rng.NormFloat64), map[string][][]float64{}
		for _, base := range []string{"blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.1.ffn_down.weight", "output.weight"} {
			w, err := m.Weight(base)
			require.NoError(t, err)
			s.Dropout[base] = draw(len(s.Inputs), int(w.Ne[0]), func() float64 { return float64(rng.IntN(3)) / 2 })
		}
	}
	requireCentralDifferencesOf(t, m, batch, append(m.LoRANames(), m.WeightNames()...))
	loss := func(change func(s *Sequence)) float64 {
		changed := slices.Clone(batch)
		for i := range changed {
			change(&changed[i])
		}
		l, err := m.Loss(changed...)
		require.NoError(t, err)
		return l
	}
	with := loss(func(*Sequence) {})
	require.Greater(t, math.Abs(with-loss(func(s *Sequence) { s.Noise = nil })), 1e-6)
	require.Greater(t, math.Abs(with-loss(func(s *Sequence) { s.Dropout = nil })), 1e-6)
	require.Equal(t, without, loss(func(s *Sequence) { s.Noise, s.Dropout = nil, nil }))
}

func TestGradientNames(t *testing.T) {
	m := newModel(t, tiny, true)
	require.NoError(t, m.AddRandomLoRA(2, 1, 1, "blk.1.attn_k.weight"))
	_, grads, err := m.Gradient(tinyBatch())
	require.NoError(t, err)
	require.Len(t, grads, 2)
	require.Equal(t, [4]int64{12, 2, 1, 1}, grads["blk.1.attn_k.weight.lora_a"].Ne)
	require.Equal(t, [4]int64{2, 8, 1, 1}, grads["blk.1.attn_k.weight.lora_b"].Ne)
	some, err := m.NumericGradient(tinyBatch(), "blk.1.attn_k.weight.lora_b", 1e-5, 3, 0)
	require.NoError(t, err)
	b := grads["blk.1.attn_k.weight.lora_b"].Data
	require.InDeltaSlice(t, []float64{b[3], b[0]}, some, 1e-8)
}

func TestErrors(t *testing.T) {
	weights := RandomWeights(tiny, false, 1)
	delete(weights, "output_norm.weight")
	weights["blk.0.ffn_up.weight"] = refmath.New(12, 19)
	weights["blk.2.ffn_up.weight"] = refmath.New(12, 20)
	_, err := New(tiny, weights)
	require.EqualError(t, err, "refmodel: weights: blk.0.ffn_up.weight has shape [12 19 1 1], want [12 20 1 1]; "+
		"blk.2.ffn_up.weight is unknown; output_norm.weight is missing")
	p := tiny
	p.KVHeads = 4
	_, err = New(p, nil)
	require.EqualError(t, err, "refmodel: 6 heads are not a multiple of 4 KV heads")
	p = tiny
	p.RoPE.Dims = 6
	_, err = New(p, nil)
	require.EqualError(t, err, "refmodel: 6 RoPE dimensions for heads of 4, want an even number up to that")
	p.FF = 0
	_, err = New(p, nil)
	require.ErrorContains(t, err, "all must be positive")

	m := newModel(t, tiny, false)
	_, err = m.Logits([]int32{0, 11})
	require.EqualError(t, err, "refmodel: token 1 is 11, the vocabulary has 11")
	for want, s := range map[string]Sequence{
		"sequence 0: refmodel: input 0 is -1, the vocabulary has 11":              {Inputs: []int32{-1}, Targets: []int32{0}},
		"sequence 0, position 0: refmodel: target 0 is 99, the vocabulary has 11": {Inputs: []int32{0}, Targets: []int32{99}},
		"refmodel: sequence 0 has no tokens":                                      {},
		"refmodel: sequence 0 has 1 inputs, 2 targets, 0 weights":                 {Inputs: []int32{0}, Targets: []int32{1, 2}},
		"refmodel: the weights of the batch sum to nothing, so it has no mean loss": {
			Inputs: []int32{0}, Targets: []int32{1}, Weights: []float64{0}},
	} {
		_, err = m.Loss(s)
		require.EqualError(t, err, want)
		_, _, err = m.Gradient([]Sequence{s})
		require.EqualError(t, err, want)
	}
	require.EqualError(t, m.AddRandomLoRA(2, 1, 1, "blk.9.attn_q.weight"),
		"refmodel: adapter for blk.9.attn_q.weight, which the model does not have")
	require.EqualError(t, m.AddRandomLoRA(2, 1, 1, "output_norm.weight"),
		"refmodel: adapter for output_norm.weight, which is not a matrix")
	err = m.SetLoRA("token_embd.weight", LoRA{A: refmath.New(12, 2), B: refmath.New(2, 11)})
	require.EqualError(t, err, "refmodel: adapter for token_embd.weight [12 11 1 1] has A [12 2 1 1] and B [2 11 1 1], "+
		"want [2 11 1 1] and [2 12 1 1]")
	_, _, err = m.Gradient(tinyBatch(), "blk.0.attn_q.weight.lora_a")
	require.EqualError(t, err, "refmodel: no parameter blk.0.attn_q.weight.lora_a")
	_, _, err = withEverything(t, true, true).Gradient(tinyBatch(), "rope_freqs.weight")
	require.EqualError(t, err, "refmodel: no gradient with respect to rope_freqs.weight; NumericGradient gives one")
	_, err = m.NumericGradient(tinyBatch(), "output_norm.weight", 1e-5, 12)
	require.EqualError(t, err, "refmodel: element 12 of output_norm.weight, which has 12")
}

func BenchmarkGradient(b *testing.B) {
	p := Params{Vocab: 256, Embd: 64, FF: 176, Layers: 2, Heads: 4, KVHeads: 2, RMSEps: 1e-5}
	m, err := New(p, RandomWeights(p, false, 1))
	require.NoError(b, err)
	require.NoError(b, m.AddRandomLoRA(4, 2, 1))
	s := Sequence{Inputs: make([]int32, 16), Targets: make([]int32, 16)}
	for i := range s.Inputs {
		s.Inputs[i], s.Targets[i] = int32(i*37%256), int32(i*91%256)
	}
	b.Run("analytic", func(b *testing.B) {
		for range b.N {
			_, _, err = m.Gradient([]Sequence{s})
		}
	})
	b.Run("loss", func(b *testing.B) {
		for range b.N {
			_, err = m.Loss(s)
		}
	})
	require.NoError(b, err)
}

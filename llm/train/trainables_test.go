package train_test

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// modelWith returns a small model with additional tensors of the given names and sizes, which not
// every file has.
func modelWith(t *testing.T, sizes map[string]int) *model.Model {
	t.Helper()
	made := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	dir := t.TempDir()
	path, more := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "more.gguf")
	require.NoError(t, made.Save(path, model.SaveOptions{}))
	g := need.Value(ggml.OpenGGUF(path))(t)
	defer g.Close()
	for name, n := range sizes {
		values := make([]float32, n)
		for i := range values {
			values[i] = 1 + 0.3*float32(math.Sin(float64(len(name)+i)))
		}
		info := ggml.GGUFTensor{Name: name, Type: ggml.F32, Shape: []int64{int64(n)}}
		require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }))
	}
	require.NoError(t, g.WriteFile(more))
	m := need.Value(model.Load(more, model.LoadOptions{NoMmap: true}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// Each bias is trained: the norm of its gradient equals central differences of the loss.
func TestBiasesAreTrained(t *testing.T) {
	biases := map[string]int{
		"blk.0.attn_q.bias": 64, "blk.0.attn_k.bias": 32, "blk.1.attn_v.bias": 32, "blk.0.attn_output.bias": 64,
		"blk.1.ffn_gate.bias": 96, "blk.0.ffn_up.bias": 96, "blk.1.ffn_down.bias": 64,
	}
	m := modelWith(t, biases)
	d, ctx := pattern(4, 8), context.Background()
	o := options(3)
	for name := range biases {
		w := m.Weight(name)
		require.NotNil(t, w, name)
		tr := need.Value(train.New(m, train.Trainables{ModelWeights: []*ggml.Tensor{w}}, d, o))(t)
		defer tr.Close()
		values := need.Value(ggml.Read[float32](w))(t)
		loss := func(at int, delta float32) float64 {
			changed := append([]float32{}, values...)
			changed[at] += delta
			require.NoError(t, ggml.Write(w, changed))
			l := need.Value(tr.Evaluate(ctx, d))(t)
			return l.Loss
		}
		const h = 0.03
		square := 0.0
		for i := range values {
			g := (loss(i, h) - loss(i, -h)) / (2 * h)
			square += g * g
		}
		require.NoError(t, ggml.Write(w, values))
		step := need.Value(tr.Step(ctx))(t)
		require.InEpsilon(t, math.Sqrt(square), step.GradNorm, 5e-3, name)
		after := need.Value(ggml.Read[float32](w))(t)
		require.NotEqual(t, values, after, name)
		require.NoError(t, ggml.Write(w, values))
	}
}

// Weights without gradients are rejected, because they would only decay.
func TestUntrainableWeights(t *testing.T) {
	names := map[string]int{"rope_freqs.weight": 8, "blk.0.attn_q.scale": 1, "blk.1.ffn_down.scale": 1}
	m := modelWith(t, names)
	for name := range names {
		w := m.Weight(name)
		_, err := train.New(m, train.Trainables{ModelWeights: []*ggml.Tensor{w}}, pattern(4, 8), options(3))
		require.EqualError(t, err, "the weight "+w.String()+" cannot be trained: no gradient flows to it")
	}
}

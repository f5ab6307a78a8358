package lossgraph_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// What follows is a trial of a kind of part that no row of the table has: one that routes each
// token to one of several matrices. Nothing outside of this file knows of it.

// routed multiplies each token by the matrix whose score by a router is the largest.
type routed struct {
	paths int64
	once  bool // the choice is kept, and not made again
}

func (r routed) Forward(p arch.Place, t *nn.Tape, x *nn.Value) *nn.Value {
	c, width, n := t.C, x.T.Dim(0), x.T.Dim(1)
	router := p.Matrix("router", width, r.paths, arch.MatrixOptions{})
	choose := func() *ggml.Tensor { return c.Reshape(c.ArgMax(t.Linear(x, router)[0].T), 1, n) }
	once := t.Saved
	if !r.once {
		once = func(choose func() *ggml.Tensor) *ggml.Tensor { return choose() }
	}
	one := c.Reshape(c.ScaleBias(c.Arange(0, float32(n), 1), 0, 1), 1, 1, n)
	chosen := c.SetRows(c.ScaleBias(c.Repeat(one, 1, r.paths, n), 0, 0), one, once(choose))
	var sum *nn.Value
	for i := range r.paths {
		mask := c.Cont(c.View(chosen, []int64{1, n}, []int64{chosen.Stride(2)}, i*chosen.Stride(1)))
		path := p.Matrix(arch.Kind(fmt.Sprintf("path_%d", i)), width, width, arch.MatrixOptions{Residual: true})
		y := t.MulInput(t.Linear(x, path)[0], mask)
		if sum != nil {
			y = t.Add(sum, y)
		}
		sum = y
	}
	return sum
}

// routedModel routes what comes of the embedding, and then of attention. In the first layer each
// even token is for the first matrix by so little; of equals the last is chosen.
func routedModel(t *testing.T, lead float32, once bool) *model.Model {
	t.Helper()
	c := llmtest.TinyConfig(false)
	usual := need.Value(arch.Resolve(c))(t)
	attention := usual.Layers()[0][0]
	route := routed{2, once}
	a := need.Value(arch.New(c, []arch.Layer{
		{{Part: route, Tokenwise: true}, attention},
		{{Before: "ffn_norm", Part: routed{3, once}, Tokenwise: true}, attention},
	}))(t)
	m := need.Value(model.NewOf(a, nil, 3))(t)
	t.Cleanup(func() { m.Close() })
	llmtest.RandomMatrices(t, m)
	embd := readValues(t, m.Weight("token_embd.weight"))
	for token, row := range slices.Collect(slices.Chunk(embd, c.Embd)) {
		for i := range row {
			row[i] *= 8 // tokens differ in what later layers see
		}
		row[0], row[1] = 0, 1
		if token%2 == 0 {
			row[0] = 1 + lead
		}
	}
	require.NoError(t, ggml.Write(m.Weight("token_embd.weight"), embd))
	router := make([]float32, 2*c.Embd)
	router[0], router[c.Embd+1] = 1, 1
	require.NoError(t, ggml.Write(m.Weight("blk.0.router.weight"), router))
	return m
}

// withoutRouters removes the gradients of routers: a choice has none.
func withoutRouters[T any](grads map[*ggml.Tensor]T, m *model.Model) map[*ggml.Tensor]T {
	maps.DeleteFunc(grads, func(w *ggml.Tensor, _ T) bool { return m.Architecture().Weight(w.Name()).Kind == "router" })
	return grads
}

const routedLength = 12

// The gradients of a part that routes are central differences.
func TestRoutedGradients(t *testing.T) {
	m := routedModel(t, 1, true)
	batch := llmtest.NewBatch(m.Config().Vocab, routedLength)
	o := lossgraph.Options{Length: routedLength, Grads: withoutRouters(llmtest.ZeroGrads(t, m), m)}
	_, grads := llmtest.ExactGradients(t, m, batch, o, llmtest.SmoothGELU)
	o.Grads = nil
	llmtest.RequireSlopes(t, llmtest.ExactLoss(t, m, batch, o), batch, grads, 1e-7, 1e-7)
}

// A checkpoint recomputes with the choices that were made, and in chunks: gradients are the same bytes.
func TestRoutedCheckpoints(t *testing.T) {
	const lead = 1.0 / (1 << 23)
	gradients := func(o device.Options, checkpoint, once bool) map[string][]float32 {
		m := routedModel(t, lead, once)
		batch := llmtest.NewBatch(m.Config().Vocab, routedLength)
		s := newLossSumOn(t, m, o)
		withoutRouters(s.grads, m)
		s.compute(batch, lossgraph.Options{Length: routedLength, Checkpoint: checkpoint, FeedForwardChunk: 5})
		named := map[string][]float32{}
		for w, grad := range s.grads {
			named[w.Name()] = readValues(t, grad)
		}
		return named
	}
	for _, set := range []device.OpSet{device.Kernels, device.Stock} {
		want := gradients(device.Options{OpSet: set}, false, true)
		require.Equal(t, want, gradients(device.Options{OpSet: set}, true, true))
		require.Equal(t, want, gradients(device.Options{OpSet: set}, true, false))
	}
}

package llmtest

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/oracle"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// Whether GELU is rounded as by the CPU backend's table.
const (
	SmoothGELU  = false
	RoundedGELU = true
)

// ZeroGrads returns zeroed gradient accumulators for all weights that have gradients.
func ZeroGrads(t testing.TB, m *model.Model) map[*ggml.Tensor]*ggml.Tensor {
	grads, store := map[*ggml.Tensor]*ggml.Tensor{}, NewArena(t)
	for w := range m.Weights() {
		if m.Architecture().Weight(w.Name()).IsTrainable() {
			grads[w] = store.Tensor(w.Name()+".grad", make([]float32, w.NumElements()), w.Shape()...)
		}
	}
	return grads
}

// ExactLoss returns the loss graph of the stock lowering with the inputs of a batch, as a float64
// program. It zeroes the accumulators.
func ExactLoss(t testing.TB, m *model.Model, b lossgraph.Batch, o lossgraph.Options) *oracle.Program {
	t.Helper()
	e, err := device.New(device.Options{Threads: 1, OpSet: device.Stock})
	require.NoError(t, err)
	defer e.Close()
	o.Batch = len(b.Tokens) / o.Length
	l, err := lossgraph.New(m, e, o)
	require.NoError(t, err)
	defer l.Close()
	for x := range l.Graph.Inputs() {
		x.SetOutput() // keeps it readable after the computation
	}
	_, err = l.Compute(context.Background(), b)
	require.NoError(t, err)
	for _, acc := range o.Grads {
		require.NoError(t, ggml.Write(acc, make([]float32, acc.NumElements())))
	}
	p, err := oracle.Compile(l.Graph, nil)
	require.NoError(t, err)
	return p
}

// ExactGradients returns the loss of a batch and its gradients in float64.
func ExactGradients(t testing.TB, m *model.Model, b lossgraph.Batch, o lossgraph.Options, roundGELU bool) (loss float64, grads map[*ggml.Tensor][]float64) {
	t.Helper()
	p := ExactLoss(t, m, b, o)
	p.RoundGELU = roundGELU
	values := p.Run()
	grads = map[*ggml.Tensor][]float64{}
	for x, acc := range o.Grads {
		grad, err := values.Of(acc)
		require.NoError(t, err)
		grads[x] = grad.Data
	}
	return exactLoss(values, b), grads
}

// exactLoss returns the loss of a batch from computed values.
func exactLoss(values oracle.Values, b lossgraph.Batch) (sum float64) {
	for i, loss := range values.Named("losses") {
		sum += float64(b.LossWeights[i]) * loss
	}
	return sum
}

// RequireSlopes checks gradients against central differences of a loss, up to a relative error:
// `together` over all tensors, and `each` for single tensors, which the message names.
func RequireSlopes(t testing.TB, loss *oracle.Program, b lossgraph.Batch, grads map[*ggml.Tensor][]float64, together, each float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	type along struct {
		leaf, direction []float64
		slope, bound    float64
	}
	tensors, all := map[*ggml.Tensor]along{}, along{}
	var directions [][2][]float64
	for x, grad := range grads {
		require.NotZero(t, dot(grad, grad), x.Name())
		// Along the gradient the slope does not vanish; a random component covers all elements.
		direction, norm := make([]float64, len(grad)), math.Sqrt(dot(grad, grad))
		for i, g := range grad {
			direction[i] = g/norm + rng.NormFloat64()/math.Sqrt(float64(len(grad)))
		}
		tensors[x] = along{loss.Leaf(x), direction, dot(grad, direction), each*norm + 1e-9}
		all.slope, all.bound = all.slope+tensors[x].slope, all.bound+together*norm+1e-9
		directions = append(directions, [2][]float64{loss.Leaf(x), direction})
	}
	const h = 1e-6
	exact := func(h float64, directions ...[2][]float64) float64 { // Richardson: cancels the h² error
		return (4*slope(loss, b, h, directions...) - slope(loss, b, 2*h, directions...)) / 3
	}
	if math.Abs(slope(loss, b, h, directions...)-all.slope) <= all.bound || math.Abs(exact(h, directions...)-all.slope) <= all.bound {
		return
	}
	for x, a := range tensors {
		along := [2][]float64{a.leaf, a.direction}
		if math.Abs(exact(h, along)-a.slope) > a.bound { // the step may cross a kink of ReLU; a fiftieth of it hardly does
			require.InDelta(t, exact(h/50, along), a.slope, a.bound, x.Name())
		}
	}
}

// slope returns the central difference of the loss with step h along directions, each for one leaf.
func slope(p *oracle.Program, b lossgraph.Batch, h float64, directions ...[2][]float64) float64 {
	move := func(step float64) {
		for _, d := range directions {
			for i, x := range d[1] {
				d[0][i] += step * x
			}
		}
	}
	at := func(step float64) float64 {
		move(step)
		defer move(-step)
		return exactLoss(p.Run(), b)
	}
	return (at(h) - at(-h)) / (2 * h)
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

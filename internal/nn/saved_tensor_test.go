package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

const (
	routedWidth  = 32
	routedTokens = 7
)

// A routedPart multiplies each row of x by the one of two matrices that a router chooses.
type routedPart struct {
	router *ggml.Tensor
	paths  [2]*ggml.Tensor
	once   bool // the choice is kept
}

func (p routedPart) choose(t *nn.Tape, f func() *ggml.Tensor) *ggml.Tensor {
	if p.once {
		return t.Saved(f)
	}
	return f()
}

func (p routedPart) build(t *nn.Tape, x *nn.Value) *nn.Value {
	c, n := t.C, x.T.Dim(1)
	choose := func() *ggml.Tensor { return c.Reshape(c.ArgMax(c.MulMat(p.router, x.T)), 1, n) }
	chosen := p.choose(t, choose)
	masks := c.SetRows(c.Fill(c.NewTensor(ggml.F32, 1, 2, n), 0), c.Fill(c.NewTensor(ggml.F32, 1, 1, n), 1), chosen)
	var sum *nn.Value
	for i, w := range p.paths {
		mask := c.Cont(c.View(masks, []int64{1, n}, []int64{masks.Stride(2)}, int64(i)*masks.Stride(1)))
		y := t.MulInput(t.Linear(x, nn.Matrix{W: w})[0], mask)
		if sum != nil {
			y = t.Add(sum, y)
		}
		sum = y
	}
	return sum
}

// routedGradients returns the gradients of the tokens' embeddings and of both matrices. Every
// second token prefers the first matrix by lead; of equal logits the last is chosen. choices is how often the graph chooses.
func routedGradients(t *testing.T, l *nn.Lowering, lead float64, once, checkpoint bool, chunk int64) (grads [3][]float32, choices int) {
	w := optest.NewWorkbench(t)
	values := optest.Normal(1, routedWidth*routedTokens)
	for i := range routedTokens {
		x := values[i*routedWidth:]
		x[0], x[1] = 0, 1
		if i%2 == 1 {
			x[0] = float32(1 + lead)
		}
	}
	router := make([]float32, 2*routedWidth)
	router[0], router[routedWidth+1] = 1, 1
	matrix := func(values []float32) *ggml.Tensor {
		return w.Reshape(w.Leaf(values...), routedWidth, int64(len(values)/routedWidth))
	}
	leaf := func(values []float32) *ggml.Tensor { return w.Cont(matrix(values)) }
	rows := w.Cast(w.Arange(0, routedTokens, 1), ggml.I32)
	embd, dy := leaf(values), matrix(optest.Normal(2, len(values)))
	p := routedPart{router: matrix(router), once: once}
	trained := []*ggml.Tensor{embd}
	for i := range p.paths {
		p.paths[i] = leaf(optest.Normal(uint64(3+i), routedWidth*routedWidth))
		trained = append(trained, p.paths[i])
	}
	g := w.NewGraph()
	tape := &nn.Tape{C: w.Context, Graph: g, Lowering: l, Grads: map[*ggml.Tensor]*ggml.Tensor{}}
	for _, x := range trained {
		tape.Grads[x] = w.Cont(w.Fill(x, 0))
		g.Expand(tape.Grads[x])
	}
	part := func(t *nn.Tape, x *nn.Value) *nn.Value { return t.Chunked(x, chunk, p.build) }
	x := tape.Embed(rows, nn.Matrix{W: embd})
	if checkpoint {
		tape.Recompute = &nn.Recomputation{}
		x = tape.Checkpoint(x, 0, part)
	} else {
		x = part(tape, x)
	}
	x.Seed(dy)
	tape.Backward()
	for _, x := range trained {
		g.Expand(tape.Grads[x].SetOutput())
	}
	w.Compute(g)
	for i, x := range trained {
		grads[i] = optest.Values(t, tape.Grads[x])
	}
	for x := range g.Nodes() {
		if x.Op() == "argmax" {
			choices++
		}
	}
	return grads, choices
}

// A router's choice is not made again, and a checkpoint's gradients are those without one, of the whole or in chunks.
func TestSavedTensor(t *testing.T) {
	for _, l := range []*nn.Lowering{need.Value(nn.CPU(ggml.F32))(t), nn.Stock()} {
		for _, chunk := range []int64{0, 2, 3} {
			t.Run(fmt.Sprint(l.Name, chunk), func(t *testing.T) {
				want, chosen := routedGradients(t, l, math.Ldexp(1, -20), true, false, chunk)
				got, again := routedGradients(t, l, math.Ldexp(1, -20), true, true, chunk)
				require.Equal(t, want, got)
				require.Equal(t, chosen, again)
				got, again = routedGradients(t, l, math.Ldexp(1, -20), false, true, chunk)
				require.Equal(t, want, got)
				require.Equal(t, 2*chosen, again)
			})
		}
	}
}

// Chunks change gradients only by the order in which tokens are added up.
func TestOnceInChunks(t *testing.T) {
	want, _ := routedGradients(t, nn.Stock(), 1, true, false, 0)
	got, _ := routedGradients(t, nn.Stock(), 1, true, false, 2)
	for i := range want {
		require.Less(t, refmath.RelativeError(got[i], widened(want[i])), 1e-6)
	}
}

func TestOnceNeedsColumns(t *testing.T) {
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"it has 1 columns, and there are 3 tokens; it needs a column for each": func(c *ggml.Context) {
			w := c.NewTensor(ggml.F32, 4, 3)
			tape := &nn.Tape{C: c, Graph: c.NewGraph(), Lowering: nn.Stock(), Grads: map[*ggml.Tensor]*ggml.Tensor{w: c.NewTensor(ggml.F32, 4, 3)}}
			tape.Recompute = &nn.Recomputation{}
			x := tape.Embed(c.NewTensor(ggml.I32, 3), nn.Matrix{W: w})
			tape.Checkpoint(x, 0, func(t *nn.Tape, x *nn.Value) *nn.Value {
				t.Saved(func() *ggml.Tensor { return t.C.ArgMax(x.T) })
				return x
			})
		},
	})
}

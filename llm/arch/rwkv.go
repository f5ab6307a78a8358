package arch

import (
	"math/rand/v2"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// previous returns the token before each one of x [m, n]; zeros before the first. Sequences keep the last token in the part's
// state of this number.
func (p Place) previous(t *nn.Tape, x *nn.Value, number int) *nn.Value {
	kept := p.State(number)
	if kept == nil {
		return t.Shift(x, 1)
	}
	c := t.C
	before, now := kept.(*state.Recent).Before(t, p.Pass, x) // [m, 1, slots], [m, n, slots]
	if n := now.Dim(1); n > 1 {
		before = c.Concat(before, c.View(now, []int64{now.Dim(0), n - 1, now.Dim(2)}, []int64{now.Stride(1), now.Stride(2)}, 0), 1)
	}
	return nn.Input(c.Reshape(before, x.T.Shape()...))
}

// factorWeight describes elementwise factors.
func factorWeight(kind Kind, init func(rng *rand.Rand, values []float32), shape ...int64) Weight {
	return Weight{Kind: kind, Shape: shape, Role: Factors, Init: init}
}

// offset declares a vector that is added, which files name as a weight.
func (p Place) offset(kind Kind, init func(rng *rand.Rand, values []float32), size int64) Weight {
	return Weight{Kind: kind, Name: p.prefix + string(kind) + ".weight", Shape: []int64{size}, Role: Bias, Init: init}
}

// between draws initial values between two bounds.
func between(low, high float32) func(rng *rand.Rand, values []float32) {
	return func(rng *rand.Rand, values []float32) {
		for i := range values {
			values[i] = low + (high-low)*rng.Float32()
		}
	}
}

// mixMatrix has the options of small matrices: llama-quantize keeps their types, and stock llama.cpp multiplies them without
// adapters.
var mixMatrix = MatrixOptions{NoScale: true, NoLoRA: true, KeepType: true}

// lowRank returns second · act(first · x) of matrices of these kinds, [n_in, rank] and [rank, out]; a nil act is x itself.
func (p Place) lowRank(t *nn.Tape, x *nn.Value, first, second Kind, rank, out int64, act func(*nn.Value) *nn.Value) *nn.Value {
	x = t.Linear(x, p.Matrix(first, x.T.Dim(0), rank, mixMatrix))[0]
	if act != nil {
		x = act(x)
	}
	return t.Linear(x, p.Matrix(second, rank, out, mixMatrix))[0]
}

// normedHeads returns the LayerNorm of each head of y [size, heads, n], flat, with weights of all elements.
func (p Place) normedHeads(t *nn.Tape, y *nn.Value) *nn.Value {
	const eps = 64e-5 // files have no key for it
	y = t.Flat(t.Norm(y, nn.Norm{Layer: true, Eps: eps}))
	embd := y.T.Dim(0)
	w := p.Weight(Weight{Kind: "time_mix_ln", Shape: []int64{embd}, Role: Norm})
	return t.AddWeight(t.MulWeight(y, w), p.bias("time_mix_ln", embd, Always))
}

// withoutModule describes the rows of a matrix that converters scale, so that an adapter of it is none of a module.
func (p Place) withoutModule(kind Kind, count int64) []Rows {
	return []Rows{{Name: p.prefix + string(kind), Count: count}}
}

// ChannelMix is RWKV's feed-forward network of a mixture of each token with the token before.
type ChannelMix struct {
	Embd, Width int
	Gated       bool // the result has a gate, of another mixture
	Rescale     int  // layers after which converters halve the last matrix; 0: never
}

// String describes the part.
func (ChannelMix) String() string { return "channel mixing" }

// Forward computes W_value · relu(W_key · x)², with a gate times σ(W_receptance · x').
func (m ChannelMix) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, width := int64(m.Embd), int64(m.Width)
	before := p.previous(t, x, 0)
	mixed := func(kind Kind) *nn.Value {
		return p.Kept(t, t.Lerp(x, before, p.Weight(factorWeight(kind, between(0, 1), embd, 1, 1)))[0])
	}
	k := t.Linear(mixed("channel_mix_lerp_k"), p.Matrix("channel_mix_key", embd, width, MatrixOptions{NoScale: true}))[0]
	out := MatrixOptions{NoScale: true, Residual: true}
	if m.Rescale > 0 && p.Layer >= m.Rescale {
		out.Rows = p.withoutModule("channel_mix_value", embd)
	}
	y := t.Linear(t.SquaredReLU(k), p.Matrix("channel_mix_value", width, embd, out))[0]
	if !m.Gated {
		return y
	}
	r := t.Linear(mixed("channel_mix_lerp_r"), p.Matrix("channel_mix_receptance", embd, embd, MatrixOptions{NoScale: true}))[0]
	return t.Mul(t.Sigmoid(r), y)
}

// NewStates makes the state of the last token.
func (m ChannelMix) NewStates(o state.Options) ([]state.State, error) {
	return oneState(state.NewRecent(o, m.Embd, 1))
}

// Check demands a width.
func (m ChannelMix) Check(c Config) []string {
	return c.sizeFaults([]sizeBound{{"feed_forward_length", m.Width, maxWidth}})
}

package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// The gated delta rule (arXiv 2412.06464) keeps a matrix S for each head, zero at the start of a sample. For each token:
//
//	S ← exp(g)·S,  S ← S + β·k·(v − Sᵀ·k)ᵀ,  y = Sᵀ·q / √size
//
// A generalised rule reads v's correction by another key than it writes.
// Training computes it by chunks of tokens (arXiv 2406.06484): matrix products inside a chunk, and a state from one
// chunk to the next. The backward pass recomputes everything from the operands.

// A DeltaRule holds the operands of the gated delta rule.
type DeltaRule struct {
	Q, K   *Value  // [size, k heads, n]; value head h uses key head h mod k heads
	Unit   float32 // if not 0, vectors x of Q and K are divided by √(‖x‖² + Unit) first
	Read   *Value  // keys by which tokens read what they correct, of K's shape; nil: K
	V      *Value  // [size, heads, n]
	G      *Value  // [heads, n]; [size, heads, n]: each channel of a key has its own
	Beta   *Value  // [heads, n]
	Rows   int64   // of equal length
	Packed bool    // a row may hold several samples
	Chunk  int64   // tokens of a chunk; 0: chunkLength
	Steps  int64   // of the rule for each token of the batch, which n counts; 0: 1
}

// GatedDelta computes y [size, heads, n] of whole sequences.
var GatedDelta = &Op[DeltaRule, *Value]{func(t *Tape, d DeltaRule) *Value {
	d = t.normalised(d)
	f := t.deltaChunks(d)
	return t.Op(f.merge(f.output()), func(dy *ggml.Tensor) []*ggml.Tensor { return t.deltaGrads(d, dy) }, d.operands()...)
}}

// GatedDelta returns y [size, heads, n] of whole sequences.
func (t *Tape) GatedDelta(d DeltaRule) *Value { return GatedDelta.Build(t, d) }

// normalised returns the rule without Unit.
func (t *Tape) normalised(d DeltaRule) DeltaRule {
	if d.Unit > 0 {
		d.Q, d.K, d.Unit = t.Unit(d.Q, d.Unit), t.Unit(d.K, d.Unit), 0
	}
	return d
}

// operands lists the operands in the order of their gradients.
func (d DeltaRule) operands() []*Value {
	list := []*Value{d.Q, d.K, d.V, d.G, d.Beta}
	if d.Read != nil {
		list = append(list, d.Read)
	}
	return list
}

// starts declares the first step of each step's sample, I32 [n / rows, rows].
func (d DeltaRule) starts(t *Tape) *ggml.Tensor {
	steps := max(1, d.Steps)
	return Declare(t.Inputs, fmt.Sprintf("starts of samples of %d steps a token", steps), ggml.I32, []int64{d.V.T.Dim(2) / max(1, d.Rows), d.Rows}, func(f *Feed, x []int32) {
		for i := range x {
			x[i] = f.Starts[i/int(steps)] * int32(steps)
		}
	})
}

// GatedDeltaStep computes the rule for the next tokens of sequences, with states of size·size·heads elements.
var GatedDeltaStep = &Op[Next[DeltaRule], Stepped]{func(t *Tape, o Next[DeltaRule]) Stepped {
	c, d, slots := t.C, t.normalised(o.In), o.Slots
	size, heads, n := d.V.T.Dim(0), d.V.T.Dim(1), d.V.T.Dim(2)/slots
	by := func(x *ggml.Tensor) *ggml.Tensor { return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1), n, slots) }
	all := c.GatedDeltaNet(ggml.GatedDeltaNetOperands{
		Q: by(d.Q.T), K: by(d.K.T), V: by(d.V.T), G: d.stepDecays(c, n, slots), Beta: d.scalars(c, d.Beta, n, slots),
		State: c.Reshape(o.Before(), size, size, heads, slots),
	})
	return stepped(c, all, size, heads, n*slots, slots)
}}

// byChannel reports whether each channel of a key has its own decay.
func (d DeltaRule) byChannel() bool { return d.G.T.NumElements() > d.Beta.T.NumElements() }

// stepDecays returns G of n tokens of each slot, [1 or size, heads, n, slots].
func (d DeltaRule) stepDecays(c *ggml.Context, n, slots int64) *ggml.Tensor {
	if d.byChannel() {
		return c.Reshape(contiguous(c, d.G.T), d.V.T.Dim(0), d.V.T.Dim(1), n, slots)
	}
	return d.scalars(c, d.G, n, slots)
}

// scalars reshapes x [heads, n] to heads of one element, [1, heads, columns…].
func (d DeltaRule) scalars(c *ggml.Context, x *Value, columns ...int64) *ggml.Tensor {
	return c.Reshape(contiguous(c, x.T), append([]int64{1, d.V.T.Dim(1)}, columns...)...)
}

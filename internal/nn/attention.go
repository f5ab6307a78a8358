package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// AttentionOptions are the differences between the attention of layers.
type AttentionOptions struct {
	Scale  float32 // of q·k
	Window Window
	// Bidirectional lets a query see the keys after it, too: all of its sample, or of a symmetric window.
	Bidirectional bool
	Scores        ScoreOptions
	Bias          *ggml.Tensor // see [AttentionOperands]
	Chosen        *Chosen      // keys of sparse attention, or pools; nil: all
	Pools         *PooledKeys  // which queries see, too; nil: none
	// In a graph of whole sequences:
	Rows   int64 // of equal length, which do not see each other
	Packed bool  // a row may hold several samples, which do not either
	// Branched says that tokens may skip a part of their sample, see [Feed.Hidden]; it needs Packed.
	Branched bool
}

// A Window bounds what a query sees of its sample, up to its own position unless it is symmetric; the zero value is all.
type Window struct {
	Size int // number of keys, with its own; 0 is all
	// Chunked makes it one of those into which positions are divided: a query sees the keys of its
	// own, up to itself.
	Chunked bool
	// Symmetric centres it on the query, which sees half of Size on both sides.
	Symmetric bool
}

// String returns the size, and the kind if it is not a sliding window.
func (w Window) String() string {
	switch {
	case w.Chunked:
		return fmt.Sprint(w.Size, ", chunked")
	case w.Symmetric:
		return fmt.Sprint(w.Size, ", symmetric")
	}
	return fmt.Sprint(w.Size)
}

// hides reports whether some query of a sequence of length n does not see a key that it would see without the window.
func (w Window) hides(n int64) bool {
	if w.Symmetric {
		return w.Size > 0 && int64(w.Size/2) < n-1
	}
	return w.Size > 0 && int64(w.Size) < n
}

// First is the first position that the query at a position sees.
func (w Window) First(pos int) int {
	switch {
	case w.Size == 0:
		return 0
	case w.Chunked:
		return pos / w.Size * w.Size
	case w.Symmetric:
		return max(0, pos-w.Size/2)
	}
	return max(0, pos-w.Size+1)
}

// ScoreOptions change scores, in this order, before their softmax.
type ScoreOptions struct {
	Softcap float32      // limits them to ± this, by its tanh; 0 means no limit
	MaxBias float32      // of ALiBi (arXiv 2108.12409), which lowers the scores of keys by their distance; 0 means none
	Sinks   *ggml.Tensor // [heads]: one more score for each head, which takes part in the sum alone (arXiv 2309.17453); nil means none
}

// AttentionOperands are sequences that begin at position 0, where heads/groups heads share
// the keys and values of a group. All are F32 with contiguous rows.
type AttentionOperands struct {
	Q     *ggml.Tensor // [size, heads, n, batch]
	K, V  *ggml.Tensor // [size, groups, n, batch]
	Scale float32      // of Q·Kᵀ
	// FirstVisible is the first key that each query sees, of a sliding window or of a sample among
	// others that share a sequence: below 0 for 0, above the query's position for that. nil is 0 for all.
	FirstVisible KeyOfQuery
	// Window is how many keys up to its own a query sees at most; 0 for any. OnlyWindow says that
	// FirstVisible hides no others, so that sequences are alike.
	Window     int64
	OnlyWindow bool
	// Bidirectional lets queries see the keys after them up to LastVisible; nil is all.
	Bidirectional bool
	LastVisible   KeyOfQuery
	// HiddenFrom and HiddenTo are the keys [from, to) that each query skips; for ALiBi the keys before them are
	// nearer by their number. nil means none.
	HiddenFrom, HiddenTo KeyOfQuery
	Scores               ScoreOptions
	// Bias [n, n, heads] of keys and queries is added to the scaled scores, and gets no gradient; nil means none.
	Bias *ggml.Tensor
	// Chosen are the keys of sparse attention, of causal queries without a window; nil: all.
	Chosen *Chosen
	pools  *poolOperands // keys beside the others; nil: none
}

// A KeyOfQuery is the input of a key of each query [n, batch], in the type that a kernel asks for, I32 or F32.
type KeyOfQuery func(typ ggml.Type) *ggml.Tensor

// AttentionGrads are the gradients of the operands, of the same shapes; Sinks is nil without sinks.
type AttentionGrads struct{ Q, K, V, Sinks, pools *ggml.Tensor }

// Attention is softmax(Scale · Q·Kᵀ)·V over the keys from FirstVisible up to the query's position or
// LastVisible, [size, heads, n, batch], with what Scores say of these.
var Attention = &Op[AttentionOperands, Result[AttentionGrads]]{plainAttention}

// Attend computes softmax(Scale · q·kᵀ)·v of each token over itself and those before it in its
// sample, and those after it where it is bidirectional, from q [size, heads, n·rows] and k, v [size, kv heads, n·rows], to
// [size·heads, n·rows].
func (t *Tape) Attend(q, k, v *Value, o AttentionOptions) *Value {
	c, tokens := t.C, q.T.Dim(2)
	q, k, v = t.Sequences(q, o.Rows), t.Sequences(k, o.Rows), t.Sequences(v, o.Rows)
	shape := q.T.Shape()
	operands := AttentionOperands{Q: q.T, K: k.T, V: v.T, Scale: o.Scale, Bidirectional: o.Bidirectional, Scores: o.Scores, Bias: o.Bias, Chosen: o.Chosen}
	var pools *Value
	if o.Pools != nil {
		operands.pools, operands.Chosen, pools = o.Pools.operands(t, q.T.Dim(2), o), nil, o.Pools.K
	}
	attended := Attention.Build(t, t.visibleKeys(operands, o))
	y := &Value{
		T:         c.Reshape(attended.Y, q.T.Dim(0)*q.T.Dim(1), tokens),
		needsGrad: q.needsGrad || k.needsGrad || v.needsGrad || t.Trains(o.Scores.Sinks) || pools != nil && pools.needsGrad,
	}
	t.record(y, func(dy *ggml.Tensor) {
		d := attended.Grad(c.Reshape(dy, shape...))
		t.accumulate(o.Scores.Sinks, func() *ggml.Tensor { return d.Sinks })
		t.flow(q, func() *ggml.Tensor { return d.Q })
		t.flow(k, func() *ggml.Tensor { return d.K })
		t.flow(v, func() *ggml.Tensor { return d.V })
		if pools != nil {
			t.flow(pools, func() *ggml.Tensor { return c.Reshape(d.pools, pools.T.Shape()...) })
		}
	})
	return y
}

// visibleKeys sets which keys the queries of a see.
func (t *Tape) visibleKeys(a AttentionOperands, o AttentionOptions) AttentionOperands {
	length := a.Q.Dim(2)
	if !o.Window.hides(length) {
		o.Window = Window{} // it hides nothing
	}
	a.FirstVisible, a.LastVisible = t.visible(o, length)
	a.Window, a.OnlyWindow = int64(o.Window.Size), !o.Packed && !o.Window.Chunked && !o.Bidirectional
	if o.Branched {
		a.HiddenFrom, a.HiddenTo = t.hidden(length, o.Rows)
		a.Window = 0 // keys of a window may lie before the hidden ones
	}
	return a
}

// visible returns the first and the last key that each query sees. Without a window and packing
// both are nil; last is nil unless attention is bidirectional.
func (t *Tape) visible(o AttentionOptions, length int64) (first, last KeyOfQuery) {
	if o.Window.Size == 0 && !o.Packed {
		return nil, nil
	}
	if o.Bidirectional {
		last = t.lastVisible(o.Window, length, o.Rows)
	}
	return t.firstVisible(o.Window, length, o.Rows), last
}

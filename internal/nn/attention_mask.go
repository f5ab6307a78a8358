package nn

import "github.com/goggml/ggml"

// masked lowers the scores of keys that a query does not see: their weights become 0, and no
// infinity meets another.
const masked = 1e30

// mask [keys, n, 1 or heads, batch] of a block is added to its scores; nil where that changes nothing.
func mask(t *Tape, a AttentionOperands, b *scoreBlock, block int64) *ggml.Tensor {
	c, hidden := t.C, hiddenKeys(t, a, b, block)
	hidden = a.Chosen.hideOthers(c, hidden, b)
	if a.Bias == nil {
		return hidden
	}
	bias := c.View(a.Bias, []int64{a.Bias.Dim(0), b.to - b.from, a.Bias.Dim(2)}, []int64{a.Bias.Stride(1), a.Bias.Stride(2)}, b.from*a.Bias.Stride(1))
	if hidden == nil {
		return contiguous(c, bias)
	}
	return c.Add(c.Repeat(hidden, hidden.Dim(0), hidden.Dim(1), bias.Dim(2), hidden.Dim(3)), bias)
}

// hiddenKeys [keys, n, 1, batch] of a block is 0 where a query sees a key, for ALiBi less their distance, and
// very low where not; nil where all see all.
func hiddenKeys(t *Tape, a AttentionOperands, b *scoreBlock, block int64) *ggml.Tensor {
	c := t.C
	var hidden *ggml.Tensor
	switch {
	case !a.Bidirectional:
		hidden = causalMask(t, a, b, block)
	case a.Scores.MaxBias != 0:
		hidden = distances(t, b)
	}
	if a.FirstVisible == nil && a.LastVisible == nil || a.OnlyWindow {
		return hidden
	}
	keys := c.Arange(float32(b.first), float32(b.end), 1)
	if a.FirstVisible != nil {
		hidden = hide(c, hidden, c.Sub(keyOf(c, a.FirstVisible, b), keys), -masked)
	}
	if a.LastVisible != nil {
		hidden = hide(c, hidden, c.Sub(keyOf(c, a.LastVisible, b), keys), masked)
	}
	if a.HiddenFrom != nil {
		hidden = hideBetween(c, hidden, a, b, keys)
	}
	return hidden
}

// distancesOf identifies the distances of n queries to as many keys.
type distancesOf struct{ from, n, keys int64 }

// distances [keys, n] of the queries of a block to all keys, negated.
func distances(t *Tape, b *scoreBlock) *ggml.Tensor {
	n, keys := b.to-b.from, b.end-b.first
	return t.constant(distancesOf{b.from, n, keys}, func() *ggml.Tensor {
		c := t.C
		queries := c.Repeat(c.Reshape(c.Arange(float32(b.from), float32(b.to), 1), 1, n), keys, n)
		return c.Neg(c.Abs(c.Sub(queries, c.Arange(float32(b.first), float32(b.end), 1))))
	})
}

// hideBetween hides the keys that queries skip; for ALiBi those before are nearer by as many.
func hideBetween(c *ggml.Context, hidden *ggml.Tensor, a AttentionOperands, b *scoreBlock, keys *ggml.Tensor) *ggml.Tensor {
	from, to := keyOf(c, a.HiddenFrom, b), keyOf(c, a.HiddenTo, b)
	fromBefore := c.Clamp(c.Sub(from, keys), 0, 1) // 1 of the keys before from, else 0
	toBefore := c.Clamp(c.Sub(to, keys), 0, 1)
	hidden = c.Add(c.Scale(c.Sub(toBefore, fromBefore), -masked), hidden)
	if a.Scores.MaxBias != 0 {
		hidden = c.Add(hidden, c.Mul(fromBefore, c.Sub(to, from)))
	}
	return hidden
}

// causalMask is a part of one mask that all blocks of all layers share, since it depends on the distance of
// query and key alone.
func causalMask(t *Tape, a AttentionOperands, b *scoreBlock, block int64) *ggml.Tensor {
	n := a.Q.Dim(2)
	m := maskOfDistances{rows: min(block, n), before: (n - 1) / block * block, bias: a.Scores.MaxBias != 0}
	if a.Window != 0 {
		m.before = min(m.before, a.Window-1)
	}
	if a.OnlyWindow {
		m.window = a.Window
	}
	all := t.constant(m, func() *ggml.Tensor { return m.build(t.C) })
	keys, queries := b.end-b.first, b.to-b.from
	if keys == all.Dim(0) && queries == all.Dim(1) {
		return all
	}
	return t.C.Cont(t.C.View(all, []int64{keys, queries}, []int64{all.Stride(1)}, (m.before-(b.from-b.first))*all.Stride(0)))
}

// maskOfDistances [before + rows, rows] is a mask of as many queries, and the keys of these and before
// them.
type maskOfDistances struct {
	rows, before int64
	window       int64 // 0 for any
	bias         bool  // for ALiBi
}

func (m maskOfDistances) build(c *ggml.Context) *ggml.Tensor {
	keys := c.Arange(float32(-m.before), float32(m.rows), 1)
	queries := c.Repeat(c.Reshape(c.Arange(0, float32(m.rows), 1), 1, m.rows), m.before+m.rows, m.rows)
	distance := c.Sub(queries, keys)
	hidden := hide(c, nil, distance, masked) // keys after the query
	if m.window != 0 {
		hidden = hide(c, hidden, c.ScaleBias(distance, -1, float32(m.window-1)), masked)
	}
	if m.bias {
		hidden = c.Sub(hidden, distance)
	}
	return hidden
}

// keyOf returns the key of each query of a block, [keys, n, 1, batch], from the keys of all queries
// [n, batch].
func keyOf(c *ggml.Context, key KeyOfQuery, b *scoreBlock) *ggml.Tensor {
	visible := key(ggml.F32)
	n, batch := b.to-b.from, visible.Dim(1)
	part := c.View(visible, []int64{1, n, 1, batch}, []int64{visible.Stride(0), visible.Stride(1), visible.Stride(1)}, b.from*visible.Stride(0))
	return c.Repeat(c.Cont(part), b.end-b.first, n, 1, batch)
}

// hide hides more keys: those whose distance is of the other sign than the factor.
func hide(c *ggml.Context, hidden, distance *ggml.Tensor, factor float32) *ggml.Tensor {
	more := c.Clamp(c.Scale(distance, factor), -masked, 0)
	if hidden == nil {
		return more
	}
	return c.Add(more, hidden)
}

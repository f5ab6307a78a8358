package nn

import "github.com/goggml/ggml"

// PooledKeys are keys K [size, groups, pools·rows] that are made of pools of tokens, and are the values too. Queries see the
// pools that end no later than themselves, beside the other keys; with [AttentionOptions.Chosen] those alone that they chose.
type PooledKeys struct {
	K *Value
	Pooling
}

// poolOperands are [PooledKeys] in [AttentionOperands].
type poolOperands struct {
	k      *ggml.Tensor // [size, groups, pools, batch]
	layout poolLayout
	chosen *Chosen // nil: all
}

// operands are the pools of rows of a length; nil if there are none.
func (p *PooledKeys) operands(t *Tape, length int64, o AttentionOptions) *poolOperands {
	if p == nil {
		return nil
	}
	return &poolOperands{t.Sequences(p.K, o.Rows).T, newPoolLayout(p.Pooling, length, o.Rows, o.Packed), o.Chosen}
}

// ChoosePools returns the pools that the queries of whole sequences choose, by an [Indexer] of pools.
func (t *Tape) ChoosePools(x Indexer, o AttentionOptions) *Chosen {
	chosen := t.choosePools(x, o)
	if chosen != nil {
		chosen.pools = nil
	}
	return chosen
}

// maskOfPools identifies the mask of a block's queries and pools.
type maskOfPools struct {
	poolLayout
	from, to, pools int64
}

// addPools adds the pools that a block's queries may see to its keys and values, and returns its mask with theirs.
func (p *poolOperands) addPools(t *Tape, b *scoreBlock, mask *ggml.Tensor) *ggml.Tensor {
	if p == nil || b.to < int64(p.layout.Every) {
		return mask
	}
	c := t.C
	b.pools = b.to / int64(p.layout.Every)
	k := byHead(c, p.k, 0, b.pools)
	b.k, b.v = c.Concat(b.k, k, 1), c.Concat(b.v, k, 1)
	hidden := t.constant(maskOfPools{p.layout, b.from, b.to, b.pools}, func() *ggml.Tensor {
		return p.layout.hidden(t, b.from, b.to, b.pools)
	})
	if p.chosen != nil && p.chosen.ids[b.from/chosenBlock] != nil {
		hidden = showKeys(c, hidden, p.chosen.ids[b.from/chosenBlock], -masked)
	}
	if batch := hidden.Dim(3); mask.Dim(3) != batch {
		mask = c.Repeat(mask, mask.Dim(0), mask.Dim(1), 1, batch)
	}
	return c.Concat(mask, hidden, 0)
}

// split divides the gradient [size, keys + pools, groups, batch] of a block's keys, and adds the part of pools to their gradient.
func (b *scoreBlock) split(c *ggml.Context, d *ggml.Tensor, pools *blockRows) *ggml.Tensor {
	if b.pools == 0 {
		return d
	}
	keys := d.Dim(1) - b.pools
	part := func(from, n int64) *ggml.Tensor {
		return c.Cont(c.View(d, []int64{d.Dim(0), n, d.Dim(2), d.Dim(3)}, []int64{d.Stride(1), d.Stride(2), d.Stride(3)}, from*d.Stride(1)))
	}
	pools.add(0, part(keys, b.pools))
	return part(0, keys)
}

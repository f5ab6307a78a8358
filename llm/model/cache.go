package model

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
)

// cacheStep is what the number of keys that a graph attends to is a multiple
// of, so that a graph serves many tokens.
const cacheStep = 256

// A cache holds the keys and values of sequences, each in a lane of its own: a
// row [size·kv heads] for each position and layer.
type cache struct {
	typ     ggml.Type
	length  int // positions of a lane
	ctx     *ggml.Context
	buffers *ggml.Buffers
	k, v    []*ggml.Tensor // [size·kv heads, length·lanes] of each layer

	// Positions from the end of a lane's sequence up to here hold zeros. A
	// masked position has no weight, but a NaN that lies there would still
	// spread.
	zeroed []int
}

func newCache(m *Model, typ ggml.Type, lanes, length int, bt *ggml.BufferType) (*cache, error) {
	if !typ.IsValid() || !typ.CanQuantize() {
		return nil, fmt.Errorf("a KV cache cannot have type %v; f16, f32 and q8_0 are usual", typ)
	}
	if block := typ.BlockSize(); int64(m.HeadSize)%block != 0 {
		return nil, fmt.Errorf("a KV cache of type %v needs heads of a multiple of %d elements; those of this model have %d: use f16 or f32", typ, block, m.HeadSize)
	}
	c := &cache{typ: typ, length: length, ctx: ggml.NewContext(), zeroed: make([]int, lanes)}
	for range m.Layers {
		for _, list := range []*[]*ggml.Tensor{&c.k, &c.v} {
			*list = append(*list, c.ctx.NewTensor(typ, int64(m.HeadSize*m.KVHeads), int64(length)*int64(lanes)))
		}
	}
	var err error
	if c.buffers, err = c.ctx.Allocate(bt); err != nil {
		c.ctx.Close()
		return nil, fmt.Errorf("a KV cache of %d positions, which a smaller context would not need: %w", length*lanes, err)
	}
	return c, nil
}

func (c *cache) close() {
	c.buffers.Close()
	c.ctx.Close()
}

// span is the number of positions that a graph attends to when n are in use.
func (c *cache) span(n int) int {
	return min((n+cacheStep-1)/cacheStep*cacheStep, c.length)
}

// row is the row of a position.
func (c *cache) row(lane, pos int) int64 { return int64(lane)*int64(c.length) + int64(pos) }

// zero clears the positions of a lane from end to span, as far as they are not
// clear. It leaves memory alone that is not needed yet.
func (c *cache) zero(lane, end, span int) error {
	from := max(end, c.zeroed[lane])
	if from >= span {
		return nil
	}
	size := int64(c.k[0].Stride(1))
	zeros := make([]byte, int64(span-from)*size)
	for _, t := range c.tensors() {
		if _, err := t.WriteAt(zeros, c.row(lane, from)*size); err != nil {
			return err
		}
	}
	c.zeroed[lane] = span
	return nil
}

func (c *cache) tensors() []*ggml.Tensor { return slices.Concat(c.k, c.v) }

// forget says that the sequence of a lane ends at n, and that anything may
// follow.
func (c *cache) forget(lane, n int) { c.zeroed[lane] = min(c.zeroed[lane], n) }

// copy copies the first n positions of a lane to another.
func (c *cache) copy(to, from, n int) error {
	size := int64(c.k[0].Stride(1))
	rows := make([]byte, int64(n)*size)
	c.forget(to, 0)
	for _, t := range c.tensors() {
		if _, err := t.ReadAt(rows, c.row(from, 0)*size); err != nil {
			return err
		}
		if _, err := t.WriteAt(rows, c.row(to, 0)*size); err != nil {
			return err
		}
	}
	return nil
}

// cached is attention over a cache, into which it writes the keys and values
// of the pass first. It has no gradients.
type cached struct {
	*cache
	first, lanes int64
	span         int64
	rows         *ggml.Tensor // [n·lanes] rows that are written
	mask         *ggml.Tensor // [span, n, 1, lanes]: 0 where a key counts, −∞ where not
}

func (a *cached) attend(p *Pass, t *tape, layer int, q, k, v *Var) *Var {
	c, m := t.c, p.m
	keys := a.store(p, t, a.k[layer], k)
	values := a.store(p, t, a.v[layer], v)
	queries := c.Reshape(q.T, int64(m.HeadSize), int64(m.Heads), p.length/a.lanes, a.lanes)
	queries = c.Permute(queries, [4]int{0, 2, 1, 3}) // [size, n, heads, lanes]
	out := c.FlashAttention(queries, keys, values, ggml.AttentionOptions{Mask: a.mask, Scale: m.attentionScale()})
	return &Var{T: c.Reshape(out, int64(m.HeadSize*m.Heads), p.length)}
}

// store writes x [size, kv heads, n·lanes], whose heads lie side by side, into the
// cache and returns what attention reads of it, [size, span, kv heads, lanes]: a
// view of the write, so that it comes after it.
func (a *cached) store(p *Pass, t *tape, dst *ggml.Tensor, x *Var) *ggml.Tensor {
	c, size, groups := t.c, int64(p.m.HeadSize), int64(p.m.KVHeads)
	written := c.SetRows(dst, c.View(x.T, []int64{size * groups, p.length}, []int64{x.T.Stride(2)}, 0), a.rows)
	row := a.typ.RowSize(size * groups)
	lane := row * int64(a.length)
	return c.View(written, []int64{size, a.span, groups, a.lanes}, []int64{row, a.typ.RowSize(size), lane}, a.first*lane)
}

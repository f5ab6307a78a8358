package infer

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// cacheStep is what the number of keys that a graph attends to is a multiple
// of, so that a graph serves many tokens.
const cacheStep = 256

// A cache holds the keys and values of sequences, each in a slot of its own: a
// row [size·kv heads] for each position and layer.
type cache struct {
	typ    ggml.Type
	length int // positions of a slot
	ctx    *ggml.Context
	memory *device.Memory
	k, v   []*ggml.Tensor // [size·kv heads, length·slots] of each layer

	// Positions from the end of a slot's sequence up to here hold zeros. A
	// masked position has no weight, but a NaN that lies there would still
	// spread.
	zeroed []int
}

func newCache(m *model.Model, typ ggml.Type, slots, length int, layout device.Layout) (*cache, error) {
	if !typ.IsValid() || !typ.CanQuantize() {
		return nil, fmt.Errorf("a KV cache cannot have type %v; f16, f32 and q8_0 are usual", typ)
	}
	if block := typ.BlockSize(); int64(m.Config().HeadSize)%block != 0 {
		return nil, fmt.Errorf("a KV cache of type %v needs heads of a multiple of %d elements; those of this model have %d: use f16 or f32", typ, block, m.Config().HeadSize)
	}
	c := &cache{typ: typ, length: length, ctx: ggml.NewContext(), memory: device.NewMemory(layout), zeroed: make([]int, slots)}
	for layer := range m.Config().Layers {
		for _, list := range []*[]*ggml.Tensor{&c.k, &c.v} {
			x := c.ctx.NewTensor(typ, int64(m.Config().HeadSize*m.Config().KVHeads), int64(length)*int64(slots))
			c.memory.Add(layer, device.KVCache, x)
			*list = append(*list, x)
		}
	}
	if err := c.memory.Allocate(); err != nil {
		c.close()
		return nil, fmt.Errorf("a KV cache of %d positions, which a smaller context would not need: %w", length*slots, err)
	}
	return c, nil
}

func (c *cache) close() {
	c.memory.Close()
	c.ctx.Close()
}

// attended is the number of positions that a graph attends to when n are in use.
func (c *cache) attended(n int) int {
	return min((n+cacheStep-1)/cacheStep*cacheStep, c.length)
}

// row is the row of a position.
func (c *cache) row(slot, pos int) int64 { return int64(slot)*int64(c.length) + int64(pos) }

// zero clears the positions of a slot from end up to one, as far as they are not
// clear. It leaves memory alone that is not needed yet.
func (c *cache) zero(slot, end, to int) error {
	from := max(end, c.zeroed[slot])
	if from >= to {
		return nil
	}
	size := int64(c.k[0].Stride(1))
	zeros := make([]byte, int64(to-from)*size)
	for _, t := range c.tensors() {
		if _, err := t.WriteAt(zeros, c.row(slot, from)*size); err != nil {
			return err
		}
	}
	c.zeroed[slot] = to
	return nil
}

func (c *cache) tensors() []*ggml.Tensor { return slices.Concat(c.k, c.v) }

// forget says that the sequence of a slot ends at n, and that anything may
// follow.
func (c *cache) forget(slot, n int) { c.zeroed[slot] = min(c.zeroed[slot], n) }

// copy copies the first n positions of a slot to another.
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

// cachedAttention is attention over a cache, into which it writes the keys and values
// of the tokens first. It has no gradients.
type cachedAttention struct {
	*cache
	first, slots int64
	attended     int64
}

func (a *cachedAttention) Attend(t *nn.Tape, q, k, v *nn.Value, o nn.AttentionOptions) *nn.Value {
	c, size, heads, n := t.C, q.T.Dim(0), q.T.Dim(1), q.T.Dim(2)
	rows := a.rows(t, n)
	keys := a.store(c, a.k[o.Layer], k.T, rows)
	values := a.store(c, a.v[o.Layer], v.T, rows)
	queries := t.Sequences(q, a.slots).T             // a part of fused products is not contiguous without RoPE
	queries = c.Permute(queries, [4]int{0, 2, 1, 3}) // [size, n, heads, slots]
	out := c.FlashAttention(queries, keys, values, ggml.AttentionOptions{Mask: a.mask(t, n/a.slots, o.Window), Scale: o.Scale})
	out.SetAccPrecision(ggml.PrecisionF32)
	return nn.Input(c.Reshape(out, size*heads, n))
}

// rows is the input of the rows [n] that are written.
func (a *cachedAttention) rows(t *nn.Tape, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, "rows", ggml.I64, []int64{n}, func(f *nn.Feed, x []int64) {
		for i, pos := range f.Positions {
			x[i] = a.row(int(a.first)+i/f.Length(), int(pos))
		}
	})
}

// f16MinusInf is −∞ in F16.
const f16MinusInf ggml.Float16 = 0xFC00

// mask is the input [attended, n, 1, slots] of −∞ for the keys that a query does not see, those
// after it and those before its window, and 0 for the others.
func (a *cachedAttention) mask(t *nn.Tape, n int64, window int) *ggml.Tensor {
	shape := []int64{a.attended, n, 1, a.slots}
	return nn.Declare(t.Inputs, fmt.Sprintf("mask of window %d", window), ggml.F16, shape, func(f *nn.Feed, x []ggml.Float16) {
		for i, pos := range f.Positions {
			row := x[i*int(a.attended):][:a.attended]
			for j := int(pos) + 1; j < len(row); j++ {
				row[j] = f16MinusInf
			}
			if window > 0 {
				for j := range max(0, int(pos)-window+1) {
					row[j] = f16MinusInf
				}
			}
		}
	})
}

// store writes x [size, kv heads, n·slots], whose heads are contiguous, into rows of the
// cache, and returns what attention reads of it, [size, attended, kv heads, slots]: a
// view of the write, so that it comes after it.
func (a *cachedAttention) store(c *ggml.Context, dst, x, rows *ggml.Tensor) *ggml.Tensor {
	size, groups := x.Dim(0), x.Dim(1)
	written := c.SetRows(dst, c.View(x, []int64{size * groups, x.Dim(2)}, []int64{x.Stride(2)}, 0), rows)
	row := a.typ.RowSize(size * groups)
	slot := row * int64(a.length)
	return c.View(written, []int64{size, a.attended, groups, a.slots}, []int64{row, a.typ.RowSize(size), slot}, a.first*slot)
}

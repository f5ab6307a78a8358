package state

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A KV is a cache of keys and values, or of keys alone: a row [size·heads] per position. With a sliding window, the
// rows of a slot are a ring with room for the window and the tokens of one pass: a new position overwrites one outside
// of every query's window.
type KV struct {
	window nn.Window
	length int          // rows per slot
	k, v   *ggml.Tensor // [size·heads, length·slots]; v is nil in a cache of keys alone
	slots  []kept
}

// kept describes the rows of a slot.
type kept struct {
	// from is the first position still kept; earlier ones are overwritten.
	from int
	// zeroed is the end of the zeros that follow the sequence's positions. A masked position has weight 0, but a NaN in
	// it would still spread.
	zeroed int
}

// ringStep divides the length of a ring.
const ringStep = 256

// NewKV returns a cache for keys and values with heads of a size, for queries with window w.
func NewKV(o Options, size, heads int, w nn.Window) (*KV, error) {
	c, err := newKeys(o, size, heads, w)
	if err == nil {
		c.v = o.NewTensor(o.Type, int64(size*heads), int64(c.length)*int64(o.Slots))
	}
	return c, err
}

// NewKeys returns a cache for keys alone, of one head of a size, for queries with window w.
func NewKeys(o Options, size int, w nn.Window) (*KV, error) { return newKeys(o, size, 1, w) }

func newKeys(o Options, size, heads int, w nn.Window) (*KV, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !o.Type.IsValid() || !o.Type.CanQuantize() {
		return nil, fmt.Errorf("a KV cache cannot have type %v; use f16, f32 or q8_0", o.Type)
	}
	if block := o.Type.BlockSize(); int64(size)%block != 0 {
		return nil, fmt.Errorf("a KV cache of type %v needs heads of a multiple of %d elements, but this model has heads of %d: use f16 or f32", o.Type, block, size)
	}
	if size < 1 || heads < 1 || size > math.MaxInt32/heads || w.Size < 0 {
		return nil, fmt.Errorf("a KV cache of %d heads of %d elements and a window of %d tokens is impossible", heads, size, w.Size)
	}
	c := &KV{window: w, length: o.Length, slots: make([]kept, o.Slots)}
	if w.Size > 0 && !o.Full {
		ring := min(w.Size, o.Length) + min(o.Batch, o.Length)
		c.length = min((ring+ringStep-1)/ringStep*ringStep, o.Length)
	}
	c.k = o.NewTensor(o.Type, int64(size*heads), int64(c.length)*int64(o.Slots))
	return c, nil
}

// tensors returns the keys, and the values if there are some.
func (c *KV) tensors() []*ggml.Tensor {
	if c.v == nil {
		return []*ggml.Tensor{c.k}
	}
	return []*ggml.Tensor{c.k, c.v}
}

// row returns the row of a position.
func (c *KV) row(slot, pos int) int64 {
	return int64(slot)*int64(c.length) + int64(pos%c.length)
}

// runs calls f with the row ranges of positions [from, to); in a ring there are two ranges if they wrap around.
func (c *KV) runs(from, to int, f func(row, n int) error) error {
	for from < to {
		row := from % c.length
		n := min(to-from, c.length-row)
		if err := f(row, n); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// Prepare zeroes the positions before `before` that the pass may attend to but does not write, unless they are zero
// already. It leaves the memory of later positions untouched.
func (c *KV) Prepare(slot, end, before int) error {
	s := &c.slots[slot]
	s.from = max(s.from, end-c.length)
	to := s.from + c.length
	if s.from == 0 {
		to = min(before, to)
	}
	from := max(end, s.zeroed)
	if from >= to {
		return nil
	}
	if err := c.runs(from, to, func(row, n int) error { return c.clear(c.row(slot, row), n) }); err != nil {
		return err
	}
	s.zeroed = to
	return nil
}

// clear zeroes rows.
func (c *KV) clear(row int64, n int) error {
	for _, t := range c.tensors() {
		if err := withRows(t, row, n, func(rows *ggml.Tensor) error { return rows.Memset(0) }); err != nil {
			return err
		}
	}
	return nil
}

// Commit does nothing: what a pass writes is already in place.
func (c *KV) Commit(int, int) error { return nil }

// restorable returns n if all positions in the window of position n are kept, else 0.
func (c *KV) restorable(slot, n int) int {
	if c.window.First(n) < c.slots[slot].from {
		return 0
	}
	return n
}

// Rewind restores any position whose window has not been overwritten.
func (c *KV) Rewind(slot, n int) (at int, err error) {
	n = c.restorable(slot, n)
	s := &c.slots[slot]
	if n == 0 {
		s.from = 0
	}
	s.zeroed = min(s.zeroed, n)
	return n, nil
}

// Copy copies the kept ones of the first n positions.
func (c *KV) Copy(dst, src, n int) (at int, err error) {
	n = c.restorable(src, n)
	from := min(c.slots[src].from, n)
	c.slots[dst] = kept{from: from}
	return n, c.runs(from, n, func(row, n int) error {
		for _, t := range c.tensors() {
			if err := copyRows(t, c.row(dst, row), c.row(src, row), n); err != nil {
				return err
			}
		}
		return nil
	})
}

// Written are the cached keys and values that the queries of a pass attend to, including the pass's own.
type Written struct {
	cache        *KV
	keys, values *ggml.Tensor // [size, attended, heads, slots]
}

// Write adds the keys and values of the tokens to the cache, both [size, heads, n·slots].
func (c *KV) Write(t *nn.Tape, p Pass, k, v *nn.Value) Written {
	p.Attended = min(p.Attended, int64(c.length))
	rows := c.rows(t, p, k.T.Dim(2))
	return Written{c, c.store(t, p, c.k, k.T, rows), c.store(t, p, c.v, v.T, rows)}
}

// Attend computes attention for the queries of one or several layers. It has no gradients. Shapes are as in
// [nn.Tape.Attend].
func (w Written) Attend(t *nn.Tape, p Pass, q *nn.Value, o nn.AttentionOptions) *nn.Value {
	c, size, heads, n := w.cache, q.T.Dim(0), q.T.Dim(1), q.T.Dim(2)
	p.Attended = min(p.Attended, int64(c.length))
	queries := t.Sequences(q, p.Slots).T               // not contiguous: part of a fused product, without RoPE
	queries = t.C.Permute(queries, [4]int{0, 2, 1, 3}) // [size, n, heads, slots]
	out := nn.CachedAttention.Build(t, nn.CachedOperands{Q: queries, K: w.keys, V: w.values, AttentionOptions: ggml.AttentionOptions{
		Mask: o.Chosen.Only(t.C, c.mask(t, p, n/p.Slots, o.Scores.MaxBias != 0)), Scale: o.Scale, Softcap: o.Scores.Softcap, MaxBias: o.Scores.MaxBias, Sinks: o.Scores.Sinks,
	}})
	return nn.Input(t.C.Reshape(out, size*heads, n))
}

// Head returns the keys and values of one head.
func (w Written) Head(t *nn.Tape, head int64) Written {
	of := func(x *ggml.Tensor) *ggml.Tensor {
		return t.C.View(x, []int64{x.Dim(0), x.Dim(1), 1, x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, head*x.Stride(2))
	}
	return Written{w.cache, of(w.keys), of(w.values)}
}

// AttendKeys adds keys, which are the values too, to a cache of keys alone, and computes attention to them and to pools [size, 1,
// pools, slots] with their mask, F16 [pools, n, 1, slots]; nil: none. It has no gradients.
func (c *KV) AttendKeys(t *nn.Tape, p Pass, q, k *nn.Value, pools, mask *ggml.Tensor, o nn.AttentionOptions) *nn.Value {
	p.Attended = min(p.Attended, int64(c.length))
	size, heads, n := q.T.Dim(0), q.T.Dim(1), q.T.Dim(2)
	keys, seen := c.store(t, p, c.k, k.T, c.rows(t, p, n)), c.mask(t, p, n/p.Slots, false)
	if pools != nil {
		pools = t.C.Permute(pools, [4]int{0, 2, 1, 3})
		if c.k.Type().IsQuantized() {
			keys, pools = t.C.Cast(keys, ggml.F32), t.C.Cast(pools, ggml.F32)
		}
		keys, seen = t.C.Concat(keys, pools, 1), t.C.Concat(seen, mask, 0)
	}
	queries := t.C.Permute(t.Sequences(q, p.Slots).T, [4]int{0, 2, 1, 3})
	out := nn.CachedAttention.Build(t, nn.CachedOperands{Q: queries, K: keys, V: keys, AttentionOptions: ggml.AttentionOptions{Mask: seen, Scale: o.Scale, Sinks: o.Scores.Sinks}})
	return nn.Input(t.C.Reshape(out, size*heads, n))
}

// Choose adds the keys of an indexer to a cache of keys alone, and returns the keys that the queries of a pass choose.
func (c *KV) Choose(t *nn.Tape, p Pass, x nn.Indexer) *nn.Chosen {
	p.Attended = min(p.Attended, int64(c.length))
	n := x.K.T.Dim(2)
	written := c.store(t, p, c.k, x.K.T, c.rows(t, p, n))
	t.Graph.Expand(written) // later passes read it, even if this one chooses all keys
	keys := t.C.Permute(written, [4]int{0, 2, 1, 3})
	return t.ChooseCached(x, nn.CachedKeys{Keys: keys, Mask: c.mask(t, p, n/p.Slots, false)})
}

// rows returns the input of row indices [n] to write. Caches with equal lengths share it.
func (c *KV) rows(t *nn.Tape, p Pass, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, fmt.Sprintf("rows of %d", c.length), ggml.I64, []int64{n}, func(f *nn.Feed, x []int64) {
		for i, pos := range f.Positions {
			x[i] = c.row(int(p.First)+i/f.Length(), int(pos))
		}
	})
}

// f16MinusInf is −∞ in F16.
const f16MinusInf ggml.Float16 = 0xFC00

// mask returns the input [attended, n, 1, slots]: −∞ for keys that a query does not attend to, because they are later
// or before its window, and 0 for the others, or for ALiBi minus their distance.
func (c *KV) mask(t *nn.Tape, p Pass, n int64, distances bool) *ggml.Tensor {
	shape := []int64{p.Attended, n, 1, p.Slots}
	name := fmt.Sprintf("mask of window %v, of %d rows, distances %v", c.window, c.length, distances)
	return nn.Declare(t.Inputs, name, ggml.F16, shape, func(f *nn.Feed, x []ggml.Float16) {
		for i, pos := range f.Positions {
			row, pos := x[i*int(p.Attended):][:p.Attended], int(pos)
			first := c.window.First(pos)
			if from, to := first%c.length, pos%c.length+1; from < to {
				hide(row[:from])
				hide(row[to:])
			} else { // wraps around to the beginning of the ring
				hide(row[to:from])
			}
			for j := first; distances && j < pos; j++ {
				row[j%c.length] = ggml.ToFloat16(float32(j - pos))
			}
		}
	})
}

func hide(keys []ggml.Float16) {
	for i := range keys {
		keys[i] = f16MinusInf
	}
}

// store writes x [size, heads, n·slots], with contiguous heads, to rows of the cache. It returns the attended part
// [size, attended, heads, slots] as a view of the write, so that reading is ordered after writing.
func (c *KV) store(t *nn.Tape, p Pass, dst, x, rows *ggml.Tensor) *ggml.Tensor {
	size, heads := x.Dim(0), x.Dim(1)
	written := setRows(t, dst, x, rows)
	row := dst.Type().RowSize(size * heads)
	slot := row * int64(c.length)
	return t.C.View(written, []int64{size, p.Attended, heads, p.Slots}, []int64{row, dst.Type().RowSize(size), slot}, p.First*slot)
}

// setRows writes x [size, heads, n], with contiguous heads, to rows of a cache, and returns all of it.
func setRows(t *nn.Tape, dst, x, rows *ggml.Tensor) *ggml.Tensor {
	return t.C.SetRows(dst, t.C.View(x, []int64{x.Dim(0) * x.Dim(1), x.Dim(2)}, []int64{x.Stride(2)}, 0), rows)
}

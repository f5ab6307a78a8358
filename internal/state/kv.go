package state

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A KV is a cache of keys and values: a row [size·heads] for each position. With a sliding window,
// the rows of a slot are a ring that holds the window and what a pass adds: a position replaces one
// that no query sees any more.
type KV struct {
	window nn.Window
	length int          // rows of a slot
	k, v   *ggml.Tensor // [size·heads, length·slots]
	slots  []kept
}

// kept describes the rows of a slot.
type kept struct {
	// from is the first position that is kept: those before have been overwritten.
	from int
	// Positions from the end of the sequence up to here hold zeros. A masked position has no
	// weight, but a NaN that lies there would still spread.
	zeroed int
}

// The length of a ring is a multiple of ringStep.
const ringStep = 256

// NewKV makes a cache for heads of keys and values of a size, of which queries see a window.
func NewKV(o Options, size, heads int, w nn.Window) (*KV, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !o.Type.IsValid() || !o.Type.CanQuantize() {
		return nil, fmt.Errorf("a KV cache cannot have type %v; f16, f32 and q8_0 are usual", o.Type)
	}
	if block := o.Type.BlockSize(); int64(size)%block != 0 {
		return nil, fmt.Errorf("a KV cache of type %v needs heads of a multiple of %d elements; those of this model have %d: use f16 or f32", o.Type, block, size)
	}
	if size < 1 || heads < 1 || size > math.MaxInt32/heads || w.Size < 0 {
		return nil, fmt.Errorf("a KV cache of %d heads of %d elements and a window of %d tokens is impossible", heads, size, w.Size)
	}
	c := &KV{window: w, length: o.Length, slots: make([]kept, o.Slots)}
	if w.Size > 0 && !o.Full {
		ring := min(w.Size, o.Length) + min(o.Batch, o.Length)
		c.length = min((ring+ringStep-1)/ringStep*ringStep, o.Length)
	}
	for _, t := range []**ggml.Tensor{&c.k, &c.v} {
		*t = o.NewTensor(o.Type, int64(size*heads), int64(c.length)*int64(o.Slots))
	}
	return c, nil
}

// row is the row of a position.
func (c *KV) row(slot, pos int) int64 {
	return int64(slot)*int64(c.length) + int64(pos%c.length)
}

// runs calls f with the rows of positions, which in a ring are those from some row on, and others
// from its beginning on.
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

// Prepare clears positions that the pass may look at and does not write, as far as they are not
// clear. It leaves memory alone that is not needed yet.
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

// clear makes rows zero.
func (c *KV) clear(row int64, n int) error {
	for _, t := range []*ggml.Tensor{c.k, c.v} {
		if err := withRows(t, row, n, func(rows *ggml.Tensor) error { return rows.Memset(0) }); err != nil {
			return err
		}
	}
	return nil
}

// Commit does nothing: what a pass has written lies where it stays.
func (c *KV) Commit(int, int) error { return nil }

// restorable is n where what the next query sees of the positions before is there, else 0.
func (c *KV) restorable(slot, n int) int {
	if c.window.First(n) < c.slots[slot].from {
		return 0
	}
	return n
}

// Rewind can restore any position whose window has not been overwritten.
func (c *KV) Rewind(slot, n int) (at int, err error) {
	n = c.restorable(slot, n)
	s := &c.slots[slot]
	if n == 0 {
		s.from = 0
	}
	s.zeroed = min(s.zeroed, n)
	return n, nil
}

// Copy copies what there is of the first n positions.
func (c *KV) Copy(dst, src, n int) (at int, err error) {
	n = c.restorable(src, n)
	from := min(c.slots[src].from, n)
	c.slots[dst] = kept{from: from}
	return n, c.runs(from, n, func(row, n int) error {
		for _, t := range []*ggml.Tensor{c.k, c.v} {
			if err := copyRows(t, c.row(dst, row), c.row(src, row), n); err != nil {
				return err
			}
		}
		return nil
	})
}

// Written is what queries of a pass attend to in a cache, once the keys and values of the tokens are there.
type Written struct {
	cache        *KV
	keys, values *ggml.Tensor // [size, attended, heads, slots]
}

// Write adds the keys and values of the tokens to the cache, both [size, heads, n].
func (c *KV) Write(t *nn.Tape, p Pass, k, v *nn.Value) Written {
	p.Attended = min(p.Attended, int64(c.length))
	rows := c.rows(t, p, k.T.Dim(2))
	return Written{c, c.store(t, p, c.k, k.T, rows), c.store(t, p, c.v, v.T, rows)}
}

// Attend is the attention of queries, of one layer or of several. It has no gradients. Shapes are those of [nn.Tape.Attend].
func (w Written) Attend(t *nn.Tape, p Pass, q *nn.Value, o nn.AttentionOptions) *nn.Value {
	c, size, heads, n := w.cache, q.T.Dim(0), q.T.Dim(1), q.T.Dim(2)
	p.Attended = min(p.Attended, int64(c.length))
	queries := t.Sequences(q, p.Slots).T               // a part of fused products is not contiguous without RoPE
	queries = t.C.Permute(queries, [4]int{0, 2, 1, 3}) // [size, n, heads, slots]
	out := nn.CachedAttention.Build(t, nn.CachedOperands{Q: queries, K: w.keys, V: w.values, AttentionOptions: ggml.AttentionOptions{
		Mask: c.mask(t, p, n/p.Slots, o.Scores.MaxBias != 0), Scale: o.Scale, Softcap: o.Scores.Softcap, MaxBias: o.Scores.MaxBias, Sinks: o.Scores.Sinks,
	}})
	return nn.Input(t.C.Reshape(out, size*heads, n))
}

// rows returns the input with the rows [n] to write. Caches whose slots have the same length share
// it.
func (c *KV) rows(t *nn.Tape, p Pass, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, fmt.Sprintf("rows of %d", c.length), ggml.I64, []int64{n}, func(f *nn.Feed, x []int64) {
		for i, pos := range f.Positions {
			x[i] = c.row(int(p.First)+i/f.Length(), int(pos))
		}
	})
}

// f16MinusInf is −∞ in F16.
const f16MinusInf ggml.Float16 = 0xFC00

// mask is the input [attended, n, 1, slots] of −∞ for the keys that a query does not see, those
// after it and those before its window, and 0 for the others, or for ALiBi less their distance.
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
			} else { // it goes on at the beginning of the ring
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

// store writes x [size, heads, n·slots], whose heads are contiguous, into rows of the
// cache, and returns what attention reads of it, [size, attended, heads, slots]: a
// view of the write, so that it comes after it.
func (c *KV) store(t *nn.Tape, p Pass, dst, x, rows *ggml.Tensor) *ggml.Tensor {
	size, heads := x.Dim(0), x.Dim(1)
	written := t.C.SetRows(dst, t.C.View(x, []int64{size * heads, x.Dim(2)}, []int64{x.Stride(2)}, 0), rows)
	row := dst.Type().RowSize(size * heads)
	slot := row * int64(c.length)
	return t.C.View(written, []int64{size, p.Attended, heads, p.Slots}, []int64{row, dst.Type().RowSize(size), slot}, p.First*slot)
}

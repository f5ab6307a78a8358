package state

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A KV is a cache of keys and values: a row [size·heads] for each position.
type KV struct {
	length int          // positions of a slot
	k, v   *ggml.Tensor // [size·heads, length·slots]

	// Positions from the end of a slot's sequence up to here hold zeros. A
	// masked position has no weight, but a NaN that lies there would still
	// spread.
	zeroed []int
}

// NewKV makes a cache for heads of keys and values of a size.
func NewKV(o Options, size, heads int) (*KV, error) {
	if !o.Type.IsValid() || !o.Type.CanQuantize() {
		return nil, fmt.Errorf("a KV cache cannot have type %v; f16, f32 and q8_0 are usual", o.Type)
	}
	if block := o.Type.BlockSize(); int64(size)%block != 0 {
		return nil, fmt.Errorf("a KV cache of type %v needs heads of a multiple of %d elements; those of this model have %d: use f16 or f32", o.Type, block, size)
	}
	rows := func() *ggml.Tensor {
		return o.NewTensor(o.Type, int64(size*heads), int64(o.Length)*int64(o.Slots))
	}
	return &KV{length: o.Length, k: rows(), v: rows(), zeroed: make([]int, o.Slots)}, nil
}

// row is the row of a position.
func (c *KV) row(slot, pos int) int64 { return int64(slot)*int64(c.length) + int64(pos) }

// Prepare clears positions, as far as they are not clear. It leaves memory alone that is not
// needed yet.
func (c *KV) Prepare(slot, end, before int) error {
	from := max(end, c.zeroed[slot])
	if from >= before {
		return nil
	}
	for _, t := range []*ggml.Tensor{c.k, c.v} {
		size := t.Stride(1)
		at, end := c.row(slot, from)*size, c.row(slot, before)*size
		for at < end {
			n, err := t.WriteAt(zeros[:min(int64(len(zeros)), end-at)], at)
			if err != nil {
				return err
			}
			at += int64(n)
		}
	}
	c.zeroed[slot] = before
	return nil
}

var zeros [1 << 16]byte

// Commit does nothing: what a pass has written lies where it stays.
func (c *KV) Commit(int, int) error { return nil }

// Rewind can restore any position.
func (c *KV) Rewind(slot, n int) (at int, err error) {
	c.zeroed[slot] = min(c.zeroed[slot], n)
	return n, nil
}

// Copy copies the first n positions.
func (c *KV) Copy(dst, src, n int) (at int, err error) {
	size := int64(c.k.Stride(1))
	rows := make([]byte, int64(n)*size)
	c.zeroed[dst] = 0
	for _, t := range []*ggml.Tensor{c.k, c.v} {
		if _, err := t.ReadAt(rows, c.row(src, 0)*size); err != nil {
			return 0, err
		}
		if _, err := t.WriteAt(rows, c.row(dst, 0)*size); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Attend is the attention of queries to the cache, into which it writes the keys and values of
// the tokens first. It has no gradients. Shapes are those of [nn.Tape.Attend].
func (c *KV) Attend(t *nn.Tape, p Pass, q, k, v *nn.Value, o nn.AttentionOptions) *nn.Value {
	size, heads, n := q.T.Dim(0), q.T.Dim(1), q.T.Dim(2)
	rows := c.rows(t, p, n)
	keys, values := c.store(t, p, c.k, k.T, rows), c.store(t, p, c.v, v.T, rows)
	queries := t.Sequences(q, p.Slots).T               // a part of fused products is not contiguous without RoPE
	queries = t.C.Permute(queries, [4]int{0, 2, 1, 3}) // [size, n, heads, slots]
	out := t.C.FlashAttention(queries, keys, values, ggml.AttentionOptions{
		Mask: mask(t, p, n/p.Slots, o), Scale: o.Scale, Softcap: o.Scores.Softcap, MaxBias: o.Scores.MaxBias, Sinks: o.Scores.Sinks,
	})
	out.SetAccPrecision(ggml.PrecisionF32)
	return nn.Input(t.C.Reshape(out, size*heads, n))
}

// rows is the input of the rows [n] that are written. It is that of all caches, whose slots have
// the same length.
func (c *KV) rows(t *nn.Tape, p Pass, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, "rows", ggml.I64, []int64{n}, func(f *nn.Feed, x []int64) {
		for i, pos := range f.Positions {
			x[i] = c.row(int(p.First)+i/f.Length(), int(pos))
		}
	})
}

// f16MinusInf is −∞ in F16.
const f16MinusInf ggml.Float16 = 0xFC00

// mask is the input [attended, n, 1, slots] of −∞ for the keys that a query does not see, those
// after it and those before its window, and 0 for the others, or for ALiBi less their distance.
func mask(t *nn.Tape, p Pass, n int64, o nn.AttentionOptions) *ggml.Tensor {
	shape := []int64{p.Attended, n, 1, p.Slots}
	name := fmt.Sprintf("mask of window %d, chunked %v, distances %v", o.Window, o.Chunked, o.Scores.MaxBias != 0)
	return nn.Declare(t.Inputs, name, ggml.F16, shape, func(f *nn.Feed, x []ggml.Float16) {
		for i, pos := range f.Positions {
			row, first := x[i*int(p.Attended):][:p.Attended], 0
			switch {
			case o.Chunked:
				first = int(pos) / o.Window * o.Window
			case o.Window > 0:
				first = max(0, int(pos)-o.Window+1)
			}
			hide(row[:first])
			hide(row[min(int(pos)+1, len(row)):])
			if o.Scores.MaxBias != 0 {
				for j := first; j < int(pos); j++ {
					row[j] = ggml.ToFloat16(float32(j - int(pos)))
				}
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

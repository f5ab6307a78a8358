package nn

import (
	"slices"

	"github.com/goggml/ggml"
)

// A Dropout zeroes elements of the input of trained adapters and scales up the others, as PEFT
// does: y = W·x + s·B·A·(x ⊙ mask), with a mask for each pair and token. Pairs of embeddings look
// up rows, and have no dropout.
//
// Masks are inputs: devices have no common generator, and recomputation needs the same masks.
// All masks together would be larger than all activations, so a pool holds some, and each token
// draws one of them for each pair.
type Dropout struct {
	pool  *ggml.Tensor // F32 [numbers], the random factors
	drawn *ggml.Tensor // I32 [n, pairs], index in the pool of each token's mask
	pairs []*ggml.Tensor
}

// poolMasks is the number of masks in the pool for the widest matrix; there are more for narrower
// ones. Two tokens have the same mask of a pair with probability 1/poolMasks.
const poolMasks = 1024

// NewDropout declares the inputs for n tokens and a number of pairs, on matrices with up to width
// inputs, each dropped with probability p.
func (t *Tape) NewDropout(n, width int64, pairs int, p float32) *Dropout {
	d := &Dropout{}
	d.pool = Declare(t.Inputs, "dropout", ggml.F32, []int64{poolMasks * width}, func(f *Feed, x []float32) { f.Noise.pool(x, p) })
	d.drawn = Declare(t.Inputs, "drawn masks", ggml.I32, []int64{n, int64(pairs)}, func(f *Feed, x []int32) {
		for pair, a := range d.pairs {
			for row := range f.Rows {
				f.Noise.masks(x[:f.Length()], row, pair, d.numMasks(a.Dim(0)))
				x = x[f.Length():]
			}
		}
	})
	return d
}

// numMasks returns the number of masks of a width in the pool.
func (d *Dropout) numMasks(width int64) int64 { return d.pool.Dim(0) / width }

// Mask returns the factors of each token's input to a pair's A, from the values of the inputs.
func (d *Dropout) Mask(a *ggml.Tensor, pool []float32, drawn []int32) [][]float32 {
	tokens, width := int(d.drawn.Dim(0)), int(a.Dim(0))
	mask := make([][]float32, tokens)
	for i, k := range drawn[int(d.column(a))*tokens:][:tokens] {
		mask[i] = pool[int(k)*width:][:width]
	}
	return mask
}

// column returns the column of a pair in drawn.
func (d *Dropout) column(a *ggml.Tensor) int64 {
	i := slices.Index(d.pairs, a)
	if i < 0 {
		i = len(d.pairs)
		d.pairs = append(d.pairs, a)
	}
	return int64(i)
}

// drop returns x ⊙ mask [n_in, n] and the mask; x and nil without dropout.
func (d *Dropout) drop(t *Tape, x *Value, p LoRAPair) (dropped *Value, mask *ggml.Tensor) {
	if mask = d.mask(t, p, x.T.Dim(0), x.T.Dim(1)); mask == nil {
		return x, nil
	}
	return &Value{T: t.C.Mul(mask, x.T), needsGrad: x.needsGrad}, mask
}

// dropID drops elements of x [n_in, used, n]; the columns of a token share a mask.
func (d *Dropout) dropID(t *Tape, x *Value, p LoRAPair) (dropped *Value, mask *ggml.Tensor) {
	width, used, n := x.T.Dim(0), x.T.Dim(1), x.T.Dim(2)
	if mask = d.mask(t, p, width, n); mask == nil {
		return x, nil
	}
	mask = t.C.Repeat(t.C.Reshape(mask, width, 1, n), width, used, n)
	return &Value{T: t.C.Mul(mask, x.T), needsGrad: x.needsGrad}, mask
}

// mask returns the factors of a pair's inputs [n_in, n]; nil without dropout.
func (d *Dropout) mask(t *Tape, p LoRAPair, width, n int64) *ggml.Tensor {
	if d == nil || !t.Trains(p.A) && !t.Trains(p.B) {
		return nil
	}
	c := t.C
	first := d.column(p.A)*d.drawn.Stride(1) + t.column*d.drawn.Stride(0)
	drawn := c.View(d.drawn, []int64{n}, nil, first)
	return c.GetRows(c.View(d.pool, []int64{width, d.numMasks(width)}, nil, 0), drawn)
}

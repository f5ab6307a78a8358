package nn

import (
	"slices"

	"github.com/goggml/ggml"
)

// A Dropout zeroes elements of what a trained pair of an adapter multiplies with, and
// scales the others up: y = W·x + s·B·A·(x ⊙ mask), as PEFT does, with a mask for each
// pair and token. Those of embeddings look up rows, and have none.
//
// Masks are inputs: devices share no random numbers, and what a checkpoint recomputes
// needs the same ones. All of them would be larger than all activations together. So
// there is a pool of them, and each token draws one from it for each pair.
type Dropout struct {
	Pool  *ggml.Tensor // F32 [numbers], the random factors
	Drawn *ggml.Tensor // I32 [n, pairs], the mask of each token, of [Dropout.NumMasks]
	pairs []*ggml.Tensor
}

// poolMasks is how many masks the pool holds for the widest matrix; of narrower ones more.
// Two tokens have the same mask of a pair with a probability of one in as many.
const poolMasks = 1024

// NewDropout makes the inputs for n tokens and so many pairs, of matrices with up to
// width inputs.
func (t *Tape) NewDropout(n, width int64, pairs int) *Dropout {
	return &Dropout{
		Pool:  t.C.NewTensor(ggml.F32, poolMasks*width).SetName("dropout").SetInput(),
		Drawn: t.C.NewTensor(ggml.I32, n, int64(pairs)).SetName("drawn masks").SetInput(),
	}
}

// Pairs lists the A of each pair that has dropout, in the order of Drawn.
func (d *Dropout) Pairs() []*ggml.Tensor { return d.pairs }

// NumMasks is the number of masks of a width in the pool, one after the other.
func (d *Dropout) NumMasks(width int64) int64 { return d.Pool.Dim(0) / width }

// column is the place of a pair in Drawn.
func (d *Dropout) column(a *ggml.Tensor) int64 {
	i := slices.Index(d.pairs, a)
	if i < 0 {
		i = len(d.pairs)
		d.pairs = append(d.pairs, a)
	}
	return int64(i)
}

// drop returns what a pair multiplies with instead of x [n_in, n], and the mask; x itself,
// and nil, without dropout.
func (d *Dropout) drop(t *Tape, x *Value, p LoRAPair) (dropped *Value, mask *ggml.Tensor) {
	if d == nil || !t.Trains(p.A) && !t.Trains(p.B) {
		return x, nil
	}
	c, width := t.C, x.T.Dim(0)
	first := d.column(p.A)*d.Drawn.Stride(1) + t.column*d.Drawn.Stride(0)
	drawn := c.View(d.Drawn, []int64{x.T.Dim(1)}, nil, first)
	mask = c.GetRows(c.View(d.Pool, []int64{width, d.NumMasks(width)}, nil, 0), drawn)
	return &Value{T: c.Mul(mask, x.T), needsGrad: x.needsGrad}, mask
}

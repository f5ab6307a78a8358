package nn

import "github.com/goggml/ggml"

// headDecay is the decay of the gated delta rule: a state of a head decays as a whole.
type headDecay struct{ *deltaChunks }

func (f headDecay) products() (kk, kq *ggml.Tensor) {
	c := f.c
	return c.Mul(mulMat(c, f.k, f.read), f.decay), c.Mul(mulMat(c, f.k, f.q), f.decay)
}

func (f headDecay) productGrads(_ *Tape, dKK, dKQ *ggml.Tensor) deltaProductGrads {
	c, kT := f.c, f.transposed(f.k)
	kk, kq := c.Mul(dKK, f.decay), c.Mul(dKQ, f.decay)
	earlier := c.Add(mulMat(c, f.transposed(f.read), f.transposed(kk)), mulMat(c, f.transposed(f.q), f.transposed(kq)))
	return deltaProductGrads{dKK, dKQ, mulMat(c, kT, kk), mulMat(c, kT, kq), earlier}
}

func (f headDecay) perDecay(x, y *ggml.Tensor) *ggml.Tensor { return f.c.SumRows(f.c.Mul(x, y)) }

func (f headDecay) gradOfG(b *deltaBack, d deltaProductGrads, gamma, left *ggml.Tensor) *ggml.Tensor {
	c := f.c
	decays := c.Add(c.Mul(d.kk, f.kk), c.Mul(d.kq, f.seen))
	return f.mergeNumbers(f.decayGrads(decays, gamma, left, f.totalGrad(f.states, b.dNext)))
}

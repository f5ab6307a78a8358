package refmath

import "math"

// RoPE holds the parameters of the rotary position embedding. Begin with
// NewRoPE: zero values of FreqBase, FreqScale and AttnFactor are meaningless.
type RoPE struct {
	Dims    int  // how many leading elements of a head are rotated
	NeoX    bool // pair i with i + Dims/2; otherwise 2i with 2i + 1
	CtxOrig int  // context length the model was trained with, for YaRN

	FreqBase   float64 // usually 1e4
	FreqScale  float64 // 1/s stretches positions by s (linear scaling)
	ExtFactor  float64 // YaRN's mix of interpolation and extrapolation, 0 = off
	AttnFactor float64 // multiplies cos and sin
	BetaFast   float64 // YaRN: more rotations than this: extrapolate only
	BetaSlow   float64 // YaRN: fewer rotations than this: interpolate only

	Factors []float64 // optional, Dims/2 divisors of the angles (rope_freqs.weight)
}

// NewRoPE returns plain RoPE over dims elements: base 1e4, no scaling.
func NewRoPE(dims int, neox bool) RoPE {
	return RoPE{Dims: dims, NeoX: neox, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}
}

// CorrDims returns YaRN's correction range in pairs: below low only
// extrapolation, above high only interpolation. With
// c(β) = Dims·ln(CtxOrig/(2πβ)) / (2·ln FreqBase):
// low = max(0, ⌊c(BetaFast)⌋), high = min(Dims − 1, ⌈c(BetaSlow)⌉).
func (p RoPE) CorrDims() (low, high float64) {
	c := func(beta float64) float64 {
		return float64(p.Dims) * math.Log(float64(p.CtxOrig)/(2*math.Pi*beta)) / (2 * math.Log(p.FreqBase))
	}
	return max(0, math.Floor(c(p.BetaFast))), min(float64(p.Dims-1), math.Ceil(c(p.BetaSlow)))
}

// Table returns cos and sin of the Dims/2 angles at a position, both multiplied
// by the magnitude. θᵢ = pos·FreqBase^(−2i/Dims) / Factors[i] is extrapolation,
// FreqScale·θᵢ interpolation. Without YaRN the angle is FreqScale·θᵢ and the
// magnitude AttnFactor; with ExtFactor ≠ 0 the angle is a mix,
// ramp = ExtFactor·(1 − clamp((i − low)/max(0.001, high − low), 0, 1)) of
// extrapolation, and the magnitude AttnFactor·(1 − 0.1·ln FreqScale).
func (p RoPE) Table(pos float64) (cos, sin []float64) {
	half := p.Dims / 2
	cos, sin = make([]float64, half), make([]float64, half)
	magnitude := p.AttnFactor
	var low, high float64
	if p.ExtFactor != 0 {
		low, high = p.CorrDims()
		magnitude *= 1 - 0.1*math.Log(p.FreqScale)
	}
	for i := range half {
		theta := pos * math.Pow(p.FreqBase, -2*float64(i)/float64(p.Dims))
		if len(p.Factors) > 0 {
			theta /= p.Factors[i]
		}
		angle := p.FreqScale * theta
		if p.ExtFactor != 0 {
			ramp := p.ExtFactor * (1 - min(1, max(0, (float64(i)-low)/max(0.001, high-low))))
			angle = angle*(1-ramp) + theta*ramp
		}
		cos[i], sin[i] = magnitude*math.Cos(angle), magnitude*math.Sin(angle)
	}
	return cos, sin
}

// Rotate replaces the pairs (x, y) of one head by (x·cos − y·sin, x·sin + y·cos),
// with cos and sin from Table.
func (p RoPE) Rotate(head, cos, sin []float64) {
	first, distance := func(i int) int { return 2 * i }, 1
	if p.NeoX {
		first, distance = func(i int) int { return i }, p.Dims/2
	}
	for i := range cos {
		a := first(i)
		x, y := head[a], head[a+distance]
		head[a] = x*cos[i] - y*sin[i]
		head[a+distance] = x*sin[i] + y*cos[i]
	}
}

// RopeExt rotates a [head size, heads, tokens, batch]; token i2 has position
// positions[i2] (shape [tokens]). Elements behind Dims stay as they are.
func RopeExt(a, positions Tensor, p RoPE) Tensor { return rope("RopeExt", a, positions, p, 1) }

// RopeExtBack returns the gradient of RopeExt: the rotation by the opposite
// angles, with the same magnitude.
func RopeExtBack(dy, positions Tensor, p RoPE) Tensor {
	return rope("RopeExtBack", dy, positions, p, -1)
}

func rope(op string, a, positions Tensor, p RoPE, direction float64) Tensor {
	check(p.Dims%2 == 0 && int64(p.Dims) <= a.Ne[0], "%s: %d dimensions of heads of %d", op, p.Dims, a.Ne[0])
	check(positions.Ne[0] == a.Ne[2], "%s: %d positions for %v", op, positions.Ne[0], a.Ne)
	check(len(p.Factors) == 0 || len(p.Factors) >= p.Dims/2, "%s: %d factors for %d pairs", op, len(p.Factors), p.Dims/2)
	out := a.Clone()
	eachRow(a.Ne, func(i1, i2, i3 int64) {
		cos, sin := p.Table(positions.Data[i2])
		for i := range sin {
			sin[i] *= direction
		}
		p.Rotate(out.row(i1, i2, i3), cos, sin)
	})
	return out
}

// TimestepEmbedding returns, for timesteps [n], rows [dim, n] with
// cos(t·maxPeriod^(−j/h)) at j and sin of it at h + j, h = ⌊dim/2⌋; the last
// element of an odd dim is 0.
func TimestepEmbedding(timesteps Tensor, dim, maxPeriod int64) Tensor {
	out := New(dim, timesteps.Ne[0])
	half := dim / 2
	for i, t := range timesteps.Data {
		row := out.Row(int64(i))
		for j := range half {
			angle := t * math.Pow(float64(maxPeriod), -float64(j)/float64(half))
			row[j], row[half+j] = math.Cos(angle), math.Sin(angle)
		}
	}
	return out
}

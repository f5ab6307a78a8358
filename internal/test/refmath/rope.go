package refmath

import "math"

// RoPE holds the parameters of the rotary position embedding. Start from NewRoPE: zero values of FreqBase,
// FreqScale and AttnFactor are invalid.
type RoPE struct {
	Dims    int  // number of leading elements of a head that are rotated
	NeoX    bool // pairs i with i + Dims/2; otherwise 2i with 2i + 1
	CtxOrig int  // context length the model was trained with, for YaRN

	FreqBase   float64 // usually 1e4
	FreqScale  float64 // 1/s stretches positions by s (linear scaling)
	ExtFactor  float64 // YaRN's mix of interpolation and extrapolation, 0 = off
	AttnFactor float64 // multiplies cos and sin
	BetaFast   float64 // YaRN: pairs with more rotations only extrapolate
	BetaSlow   float64 // YaRN: pairs with fewer rotations only interpolate

	Factors []float64 // optional, divisors of the angles of the pairs (rope_freqs.weight)

	Sections    [4]int // for multi-dimensional RoPE: number of consecutive pairs of each of 4 positions
	Interleaved bool   // the first three positions alternate instead
	Vision      bool   // the exponents restart in each section; Dims pairs, i with i + Dims
	Offset      int    // first rotated element
	Unrounded   bool   // YaRN's correction range need not be whole pairs
}

// pairs returns the number of pairs.
func (p RoPE) pairs() int {
	if p.Vision {
		return p.Dims
	}
	return p.Dims / 2
}

// multi reports whether a token has four positions.
func (p RoPE) multi() bool { return p.Sections != [4]int{} }

// kind returns the position to which pair i belongs, and the index in its exponent.
func (p RoPE) kind(i int) (kind, index int) {
	if !p.multi() {
		return 0, i
	}
	s := i % (p.Sections[0] + p.Sections[1] + p.Sections[2] + p.Sections[3])
	if p.Interleaved {
		if s < 3*p.Sections[s%3] {
			return s % 3, i
		}
		return 3, i
	}
	start := 0
	for kind < 3 && s >= start+p.Sections[kind] {
		start += p.Sections[kind]
		kind++
	}
	if p.Vision {
		return kind, s - start
	}
	return kind, i
}

// NewRoPE returns plain RoPE over dims elements: base 1e4, no scaling.
func NewRoPE(dims int, neox bool) RoPE {
	return RoPE{Dims: dims, NeoX: neox, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}
}

// CorrDims returns YaRN's correction range in pairs: below low only
// extrapolation, above high only interpolation. With
// c(β) = Dims·ln(CtxOrig/(2πβ)) / (2·ln FreqBase):
// low = max(0, ⌊c(BetaFast)⌋), high = min(Dims − 1, ⌈c(BetaSlow)⌉), or without rounding.
func (p RoPE) CorrDims() (low, high float64) {
	c := func(beta float64) float64 {
		return float64(p.Dims) * math.Log(float64(p.CtxOrig)/(2*math.Pi*beta)) / (2 * math.Log(p.FreqBase))
	}
	low, high = c(p.BetaFast), c(p.BetaSlow)
	if !p.Unrounded {
		low, high = math.Floor(low), math.Ceil(high)
	}
	return max(0, low), min(float64(p.Dims-1), high)
}

// Table returns cos and sin of the angles of the pairs at a position (four of
// them with sections), both multiplied by the magnitude. For pair i of index j,
// θᵢ = pos·FreqBase^(−2j/Dims) / Factors[i] is extrapolation, FreqScale·θᵢ
// interpolation. Without YaRN the angle is FreqScale·θᵢ and the magnitude
// AttnFactor; with ExtFactor ≠ 0 the angle is a mix,
// ramp = ExtFactor·(1 − clamp((i − low)/max(0.001, high − low), 0, 1)) of
// extrapolation, and the magnitude AttnFactor·(1 − 0.1·ln FreqScale).
//
//go:norace
func (p RoPE) Table(pos ...float64) (cos, sin []float64) {
	cos, sin = make([]float64, p.pairs()), make([]float64, p.pairs())
	magnitude := p.AttnFactor
	var low, high float64
	if p.ExtFactor != 0 {
		low, high = p.CorrDims()
		magnitude *= 1 - 0.1*math.Log(p.FreqScale)
	}
	for i := range cos {
		kind, index := p.kind(i)
		theta := pos[kind] * math.Pow(p.FreqBase, -2*float64(index)/float64(p.Dims))
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
//
//go:norace
func (p RoPE) Rotate(head, cos, sin []float64) {
	first, distance := func(i int) int { return 2 * i }, 1
	if p.NeoX || p.multi() {
		first, distance = func(i int) int { return i }, p.pairs()
	}
	for i := range cos {
		a := p.Offset + first(i)
		x, y := head[a], head[a+distance]
		head[a] = x*cos[i] - y*sin[i]
		head[a+distance] = x*sin[i] + y*cos[i]
	}
}

// RopeExt rotates a [head size, heads, tokens, batch]; token i2 has position
// positions[i2] (shape [tokens]), or with sections the positions
// positions[i2 + k·tokens] for k = 0 … 3 (shape [4·tokens]). Elements that
// belong to no pair stay as they are.
func RopeExt(a, positions Tensor, p RoPE) Tensor { return rope("RopeExt", a, positions, p, 1) }

// RopeExtBack returns the gradient of RopeExt: the rotation by the opposite
// angles, with the same magnitude.
func RopeExtBack(dy, positions Tensor, p RoPE) Tensor {
	return rope("RopeExtBack", dy, positions, p, -1)
}

func rope(op string, a, positions Tensor, p RoPE, direction float64) Tensor {
	kinds := int64(1)
	if p.multi() {
		kinds = 4
	}
	tokens := a.Ne[2]
	check(p.Dims%2 == 0 && int64(2*p.pairs()+p.Offset) <= a.Ne[0], "%s: %d pairs from %d on of heads of %d", op, p.pairs(), p.Offset, a.Ne[0])
	check(positions.Ne[0] == kinds*tokens, "%s: %d positions for %v", op, positions.Ne[0], a.Ne)
	check(len(p.Factors) == 0 || len(p.Factors) >= p.pairs(), "%s: %d factors for %d pairs", op, len(p.Factors), p.pairs())
	out := a.Clone()
	eachRow(a.Ne, func(i1, i2, i3 int64) {
		var pos []float64
		for k := range kinds {
			pos = append(pos, positions.Data[i2+k*tokens])
		}
		cos, sin := p.Table(pos...)
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

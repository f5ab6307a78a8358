package ggml_test

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// A bound says how far the result of an op may be from the float64 reference,
// and why: for F32 in the table below, for results of other types more.
type bound struct {
	why string
	f32 float64 // of |got − want| / max(1, |want|) in every element

	// products are bounded as a whole where operands are rounded before they
	// are added up: by the normalised mean squared error, by the type that they
	// are rounded to.
	products, half, brain, quantized float64
}

// The table of all bounds. The worst that one processor showed is a tenth to a
// half of each.
var (
	exact  = &bound{why: "elements are moved, chosen, compared or converted: not a bit differs"}
	few    = &bound{f32: 1e-6, why: "some ten operations or a function of the C library, each within a unit in the last place, 1.2e-7"}
	fast   = &bound{f32: 2e-6, why: "exponentials by the CPU's vector code, within a few units, times arguments up to 9"}
	table  = &bound{f32: 4e-3, why: "looked up in a table of halves: argument and result have 11 bits, the argument is up to 9"}
	sums   = &bound{f32: 1e-5, why: "hundreds of terms added up in F32, in the kernel's order"}
	angles = &bound{f32: 2e-5, why: "sines of angles up to 100, whose rounding to F32 is 4e-6, times a few"}
	places = &bound{f32: 1e-5, why: "weights from positions that are computed in F32, for cubics of them"}
	fed    = &bound{f32: 5e-5, why: "a recurrence: what is rounded in a step is the operand of the next"}

	products  = &bound{products: 1e-12, half: 1e-6, brain: 1e-4, quantized: 1e-3, why: "the second operand is rounded as the first one's type wants: to F16, BF16, or 8 bits in blocks"}
	convolved = &bound{products: 1e-6, half: 1e-6, why: "kernel and data are rounded to F16, whatever the kernel's type"}
	attention = &bound{products: 1e-11, half: 1e-5, brain: 1e-4, quantized: 1e-3, why: "queries are rounded as the type of the keys wants; values of F16 are added up in it"}
)

// lastPlace is what a result of the type adds to a bound: a unit in its last
// place.
var lastPlace = map[ggml.Type]float64{ggml.F16: 1.0 / (1 << 10), ggml.BF16: 1.0 / (1 << 7)}

// excess tells how far a result is beyond the bound: above 1 is too far. operands
// is the type of the case's operands, and at the worst element, -1 for all.
func (b *bound) excess(got result, want refmath.Tensor, operands ggml.Type) (worst float64, at int) {
	if b.products > 0 {
		limit := b.products
		switch {
		case operands == ggml.F16:
			limit = b.half
		case operands == ggml.BF16:
			limit = b.brain
		case operands != ggml.F32:
			limit = b.quantized
		}
		return refmath.NMSE(got.values, want.Data) / limit, -1
	}
	if got.typ.Quantized() {
		// Without the search for the best scales that Quantize does.
		limit := 1.25 * quantizeError[got.typ.String()]
		return refmath.RelativeError(got.values, want.Data) / limit, -1
	}
	limit := b.f32 + lastPlace[got.typ]
	if b == exact {
		limit, want = 0, rounded(want, got.typ)
	}
	for i, w := range want.Data {
		g := float64(got.values[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		e := math.Abs(g-w) / max(1, math.Abs(w)) / limit
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		if e > worst {
			worst, at = e, i
		}
	}
	return worst, at
}

package optest

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Bound limits the distance between the result of an op and the float64 reference. The table below has the
// bounds for F32 results, with reasons; results of other types add their rounding.
type Bound struct {
	Why string
	F32 float64 // of |got − want| / max(1, |want|) in every element

	// NMSE bounds products as a whole if operands are rounded before they are summed: the normalised mean
	// squared error, by the type to which they are rounded.
	NMSE *NMSE
}

// NMSE bounds the normalised mean squared error, by the type of a case's operands.
type NMSE struct{ F32, F16, BF16, Quantized float64 }

// The table of all bounds. The worst error on one processor is a tenth to a half of each.
var (
	Exact         = &Bound{Why: "elements are moved, chosen, compared or converted: not a bit differs"}
	Masked        = &Bound{Why: "elements are moved: not a bit differs; for −∞ CUDA writes the lowest number"}
	FewRoundings  = &Bound{F32: 1e-6, Why: "some ten operations or a function of the C library, each within a unit in the last place, 1.2e-7"}
	Sine          = &Bound{F32: 2e-6, Why: "sines of angles up to 7; GPUs compute them by instructions of their own, within 2⁻²⁰"}
	VectorExp     = &Bound{F32: 2e-6, Why: "exponentials by the CPU's vector code, within a few units, times arguments up to 9"}
	F16Table      = &Bound{F32: 4e-3, Why: "looked up in a table of F16: argument and result have 11 bits, the argument is up to 9"}
	LongSum       = &Bound{F32: 1e-5, Why: "hundreds of terms added up in F32, in the kernel's order"}
	Angles        = &Bound{F32: 2e-5, Why: "sines of angles up to 100, whose rounding to F32 is 4e-6, times a few"}
	Interpolation = &Bound{F32: 1e-5, Why: "weights from positions that are computed in F32, for cubics of them"}
	Recurrence    = &Bound{F32: 5e-5, Why: "what is rounded in a step is the operand of the next"}

	MulMat         = &Bound{NMSE: &NMSE{1e-12, 1e-6, 1e-4, 1e-3}, Why: "the second operand is rounded as the first one's type wants: to F16, BF16, or 8 bits in blocks"}
	GEMM           = &Bound{NMSE: &NMSE{1e-12, 1e-12, 1e-12, 1e-12}, Why: "the operands are rounded by nothing but what the reference rounds too"}
	GEMMI16        = &Bound{NMSE: &NMSE{1e-7, 1e-7, 1e-7, 1e-7}, Why: "both operands are rounded to 16 bits: by 0.01 % of random elements"}
	GEMMI8         = &Bound{NMSE: &NMSE{3e-4, 3e-4, 3e-4, 3e-4}, Why: "both operands are rounded to 8 bits: by 0.7 % of random elements"}
	Conv           = &Bound{NMSE: &NMSE{F32: 1e-6, F16: 1e-6}, Why: "kernel and data are rounded to F16, whatever the kernel's type"}
	AttentionBF16  = &Bound{F32: 0.1, Why: "operands of up to five products are rounded to 8 bits, of hundreds of terms that cancel in part"}
	FlashAttention = &Bound{NMSE: &NMSE{1e-11, 1e-5, 1e-4, 1e-3}, Why: "queries are rounded as the type of the keys wants; values of F16 are added up in it"}
)

// QuantizeError bounds the relative error (root mean square) of normally distributed values: about one step of
// the type's grid over √12.
var QuantizeError = map[string]float64{
	"f32": 0, "f16": 4e-4, "bf16": 3e-3, "f8_e4m3": 0.04, "q8_0": 0.01,
	"q5_0": 0.06, "q5_1": 0.05, "q5_K": 0.05, "q6_K": 0.025,
	"q4_0": 0.12, "q4_1": 0.1, "q4_K": 0.1, "iq4_nl": 0.11, "iq4_xs": 0.11, "mxfp4": 0.16, "nvfp4": 0.13,
	"q3_K": 0.2, "iq3_s": 0.2, "iq3_xxs": 0.25,
	"q2_K": 0.35, "iq2_s": 0.35, "iq2_xs": 0.4, "iq2_xxs": 0.45, "q2_0": 0.8,
	"iq1_m": 0.6, "iq1_s": 0.65, "tq1_0": 1, "tq2_0": 1, "q1_0": 0.8,
}

// lastPlace is the relative error that rounding a result to the type adds to a bound: one unit in the last
// place.
var lastPlace = map[ggml.Type]float64{ggml.F16: 1.0 / (1 << 10), ggml.BF16: 1.0 / (1 << 7), ggml.F8E4M3: 1.0 / (1 << 3)}

// excess returns the error of a result relative to the bound: more than 1 is too much. operands is the type of
// the case's operands. at is the worst element, or -1 for all.
func (b *Bound) excess(got Result, want refmath.Tensor, operands ggml.Type) (worst float64, at int) {
	if b.NMSE != nil {
		return refmath.NMSE(got.Values, want.Data) / b.NMSE.of(operands), -1
	}
	if got.Type.IsQuantized() {
		// Without Quantize's search for the best scales.
		limit := 1.25 * QuantizeError[got.Type.String()]
		return refmath.RelativeError(got.Values, want.Data) / limit, -1
	}
	limit := b.F32 + lastPlace[got.Type]
	if b == Exact || b == Masked {
		limit, want = 0, Rounded(want, got.Type)
	}
	for i, w := range want.Data {
		g := float64(got.Values[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) || b == Masked && math.IsInf(w, -1) && g == -math.MaxFloat32 {
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

func (n *NMSE) of(t ggml.Type) float64 {
	switch {
	case t == ggml.F32:
		return n.F32
	case t == ggml.F16:
		return n.F16
	case t == ggml.BF16:
		return n.BF16
	}
	return n.Quantized
}

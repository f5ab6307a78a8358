package model

import (
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// A Mixture gives the matrices of a model their types by what they do and by their layer:
// what loses most by rounding gets more bits. The mixtures are those of llama-quantize.
type Mixture struct {
	Name     string    // as llama-quantize has it, in lower case: "q4_k_m"
	Type     ggml.Type // of most matrices
	FileType uint32    // llama.cpp's number for the key general.file_type

	// Types of some matrices; nil is Type.
	output, embd                                          rule
	attnQ, attnK, attnV, attnOut, ffnGate, ffnUp, ffnDown rule

	needsImportance bool // it gives types to matrices of layers that are garbage without
}

// Mixtures lists the mixtures of llama-quantize, by bits.
func Mixtures() []Mixture { return slices.Clone(mixtures) }

// FindMixture returns the mixture of a name, in either case. As in llama-quantize q3_k, q4_k
// and q5_k are those of middle size.
func FindMixture(name string) (Mixture, bool) {
	name = strings.ToLower(name)
	switch name {
	case "q3_k", "q4_k", "q5_k":
		name += "_m"
	}
	i := slices.IndexFunc(mixtures, func(x Mixture) bool { return x.Name == name })
	if i < 0 {
		return Mixture{}, false
	}
	return mixtures[i], true
}

// NeedsImportance reports whether llama-quantize refuses the mixture without an importance matrix.
func (x *Mixture) NeedsImportance() bool { return x.needsImportance }

// TypeOf returns the type of a matrix with rows of a length. Where they are no multiple of
// the type's block it is another type, of smaller blocks, and isFallback is true.
// c.Tied says whether the embedding is the output too. What has no shape is no matrix, and F32.
func (x *Mixture) TypeOf(c arch.Config, w *arch.Weight, i Importance) (t ggml.Type, isFallback bool) {
	switch {
	case !x.Type.IsQuantized():
		return x.Type, false
	case w == nil || len(w.Shape) == 0:
		return ggml.F32, false
	}
	rowLen := w.Shape[0]
	p := place{most: x.Type, rowLen: rowLen, layer: w.Layer, layers: c.Layers, shared: c.Heads / max(1, c.KVHeads), isWeighted: i != nil}
	t = x.Type
	if apply := x.rule(c, w); apply != nil {
		t = apply(p)
	}
	// Models of 70B, whose attn_v is small beside the rest. llama-quantize knows them by their layers.
	is70B := c.Layers == 80 && (c.Arch == "qwen2" || c.Arch == "llama" && c.Heads != c.KVHeads)
	if is70B && (w.Kind == "attn_v" || w.Kind == "attn_qkv") && (t == ggml.Q3_K || t == ggml.Q4_K) {
		t = ggml.Q5_K
	}
	smaller, ok := smallerBlocks[t]
	switch {
	case rowLen%t.BlockSize() == 0 || !ok:
		return t, false
	case rowLen%smaller.BlockSize() != 0:
		return ggml.F16, true
	}
	return smaller, true
}

// rule finds the rule for a matrix.
func (x *Mixture) rule(c arch.Config, w *arch.Weight) rule {
	switch {
	case w.Kind == "output" || w.Role == arch.Embedding && c.Tied:
		if x.output == nil {
			return sixBits
		}
		return x.output
	case w.Role == arch.Embedding:
		return x.embd
	}
	return map[string]rule{
		"attn_q": x.attnQ, "attn_k": x.attnK, "attn_v": x.attnV, "attn_qkv": x.attnV,
		"attn_output": x.attnOut, "ffn_gate": x.ffnGate, "ffn_up": x.ffnUp, "ffn_down": x.ffnDown,
	}[w.Kind]
}

// A place is what the type of a matrix depends on.
type place struct {
	most          ggml.Type // of the mixture
	rowLen        int64
	layer, layers int
	shared        int  // heads of queries that share one of keys and values
	isWeighted    bool // there is an importance matrix
}

// A rule gives a matrix its type.
type rule func(p place) ggml.Type

// all gives one type in all layers.
func all(t ggml.Type) rule { return func(place) ggml.Type { return t } }

// when gives a type where a condition holds, and else that of the next rule, or the mixture's.
func when(holds func(p place) bool, t ggml.Type, otherwise ...rule) rule {
	return func(p place) ggml.Type {
		switch {
		case holds(p):
			return t
		case len(otherwise) > 0:
			return otherwise[0](p)
		}
		return p.most
	}
}

// below is a number of first layers, firstOf a share of them.
func below(n int) func(place) bool { return func(p place) bool { return p.layer < n } }
func firstOf(share int) func(place) bool {
	return func(p place) bool { return p.layer < p.layers/share }
}

// Where four heads and more share the values, their matrix is small.
func isShared(p place) bool { return p.shared >= 4 }

func isWeighted(p place) bool   { return p.isWeighted }
func isUnweighted(p place) bool { return !p.isWeighted }

// isMiddle are the layers between the first and the last eighth.
func isMiddle(p place) bool { return p.layer >= p.layers/8 && p.layer < 7*p.layers/8 }

// isSensitive are the first and the last eighth of layers, and each third between.
func isSensitive(p place) bool { return !isMiddle(p) || (p.layer-p.layers/8)%3 == 2 }

func and(a, b func(place) bool) func(place) bool { return func(p place) bool { return a(p) && b(p) } }

// sixBits is the rule for the output: Q6_K, or Q8_0 where that is most, or blocks do not fit.
func sixBits(p place) ggml.Type {
	if p.most == ggml.Q8_0 || p.rowLen%p.most.BlockSize() != 0 {
		return ggml.Q8_0
	}
	return ggml.Q6_K
}

// fiveBits is sixBits of mixtures with few bits.
func fiveBits(p place) ggml.Type {
	if p.rowLen%p.most.BlockSize() != 0 {
		return ggml.Q8_0
	}
	return ggml.Q5_K
}

// smallerBlocks take the place of types whose blocks do not fit the rows.
var smallerBlocks = map[ggml.Type]ggml.Type{
	ggml.IQ1S: ggml.IQ4NL, ggml.IQ1M: ggml.IQ4NL, ggml.IQ2XXS: ggml.IQ4NL, ggml.IQ2XS: ggml.IQ4NL, ggml.IQ2S: ggml.IQ4NL,
	ggml.IQ3XXS: ggml.IQ4NL, ggml.IQ3S: ggml.IQ4NL, ggml.IQ4XS: ggml.IQ4NL,
	ggml.Q2_0: ggml.Q4_0, ggml.Q2_K: ggml.Q4_0, ggml.Q3_K: ggml.Q4_0, ggml.TQ1_0: ggml.Q4_0, ggml.TQ2_0: ggml.Q4_0,
	ggml.Q4_K: ggml.Q5_0, ggml.Q5_K: ggml.Q5_1, ggml.Q6_K: ggml.Q8_0,
}

var mixtures = []Mixture{
	{Name: "iq1_s", Type: ggml.IQ1S, FileType: 24, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnV: when(isShared, ggml.Q4_K, all(ggml.Q2_K)), attnOut: all(ggml.IQ2XXS), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq1_m", Type: ggml.IQ1M, FileType: 31, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnV: when(isShared, ggml.Q4_K, all(ggml.Q2_K)), attnOut: all(ggml.IQ2XXS), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq2_xxs", Type: ggml.IQ2XXS, FileType: 19, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnV: when(isShared, ggml.Q4_K, all(ggml.Q2_K)), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq2_xs", Type: ggml.IQ2XS, FileType: 20, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnV: when(isShared, ggml.Q4_K, all(ggml.Q2_K)), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq2_s", Type: ggml.IQ2XS, FileType: 28, needsImportance: true, output: fiveBits, embd: all(ggml.IQ3S), attnV: when(isShared, ggml.Q4_K, all(ggml.IQ3S)), attnOut: all(ggml.IQ3S), ffnDown: when(firstOf(8), ggml.IQ3S)},
	{Name: "iq2_m", Type: ggml.IQ2S, FileType: 29, needsImportance: true, output: fiveBits, embd: all(ggml.IQ3S), attnV: when(isShared, ggml.Q4_K, all(ggml.IQ3S)), attnOut: all(ggml.IQ3S), ffnDown: when(firstOf(8), ggml.IQ3S)},
	{
		Name: "iq3_xxs", Type: ggml.IQ3XXS, FileType: 23, needsImportance: true, output: fiveBits, embd: all(ggml.IQ3S),
		attnQ: all(ggml.IQ2S), attnK: all(ggml.IQ2S), attnV: when(isShared, ggml.Q4_K, when(isUnweighted, ggml.IQ3S)), attnOut: all(ggml.IQ3S),
		ffnDown: when(and(isUnweighted, firstOf(8)), ggml.Q4_K, when(isUnweighted, ggml.Q3_K)),
	},
	{
		Name: "iq3_xs", Type: ggml.IQ3S, FileType: 22, needsImportance: true, attnQ: all(ggml.IQ3XXS), attnK: all(ggml.IQ3XXS), attnV: when(isShared, ggml.Q4_K),
		ffnGate: when(isMiddle, ggml.IQ3XXS), ffnUp: when(isMiddle, ggml.IQ3XXS),
	},
	{Name: "iq3_s", Type: ggml.IQ3S, FileType: 26, attnV: when(isShared, ggml.Q4_K)},
	{Name: "iq3_m", Type: ggml.IQ3S, FileType: 27, attnV: all(ggml.Q4_K), attnOut: all(ggml.Q4_K), ffnDown: when(firstOf(8), ggml.Q4_K)},
	{Name: "q2_k_s", Type: ggml.Q2_K, FileType: 21, needsImportance: true, attnV: when(isShared, ggml.Q4_K), ffnDown: when(firstOf(8), ggml.Q4_K)},
	{Name: "q2_k", Type: ggml.Q2_K, FileType: 10, attnV: when(isShared, ggml.Q4_K, all(ggml.Q3_K)), attnOut: all(ggml.Q3_K), ffnDown: all(ggml.Q3_K)},
	{Name: "q3_k_s", Type: ggml.Q3_K, FileType: 11},
	{Name: "q3_k_m", Type: ggml.Q3_K, FileType: 12, attnV: when(below(2), ggml.Q5_K, all(ggml.Q4_K)), attnOut: all(ggml.Q4_K), ffnDown: when(firstOf(16), ggml.Q5_K, all(ggml.Q4_K))},
	{Name: "q3_k_l", Type: ggml.Q3_K, FileType: 13, attnV: all(ggml.Q5_K), attnOut: all(ggml.Q5_K), ffnDown: all(ggml.Q5_K)},
	{Name: "iq4_xs", Type: ggml.IQ4XS, FileType: 30, attnV: when(isShared, ggml.Q5_K), ffnDown: when(and(isUnweighted, firstOf(8)), ggml.Q5_K)},
	{Name: "iq4_nl", Type: ggml.IQ4NL, FileType: 25, attnV: when(isShared, ggml.Q5_K), ffnDown: when(and(isUnweighted, firstOf(8)), ggml.Q5_K)},
	{Name: "q4_0", Type: ggml.Q4_0, FileType: 2, ffnDown: when(and(isWeighted, firstOf(8)), ggml.Q4_1)},
	{Name: "q4_1", Type: ggml.Q4_1, FileType: 3},
	{Name: "q4_k_s", Type: ggml.Q4_K, FileType: 14, attnV: when(below(4), ggml.Q5_K), ffnDown: when(firstOf(8), ggml.Q5_K)},
	{Name: "q4_k_m", Type: ggml.Q4_K, FileType: 15, attnV: when(isSensitive, ggml.Q6_K), ffnDown: when(isSensitive, ggml.Q6_K)},
	{Name: "q5_0", Type: ggml.Q5_0, FileType: 8, ffnDown: when(and(isWeighted, firstOf(8)), ggml.Q5_1)},
	{Name: "q5_1", Type: ggml.Q5_1, FileType: 9},
	{Name: "q5_k_s", Type: ggml.Q5_K, FileType: 16},
	{Name: "q5_k_m", Type: ggml.Q5_K, FileType: 17, attnV: when(isSensitive, ggml.Q6_K), ffnDown: when(isSensitive, ggml.Q6_K)},
	{Name: "q6_k", Type: ggml.Q6_K, FileType: 18},
	{Name: "q8_0", Type: ggml.Q8_0, FileType: 7},
	{Name: "f16", Type: ggml.F16, FileType: 1},
	{Name: "bf16", Type: ggml.BF16, FileType: 32},
	{Name: "f32", Type: ggml.F32, FileType: 0},
	{Name: "tq1_0", Type: ggml.TQ1_0, FileType: 36, embd: all(ggml.Q4_K)},
	{Name: "tq2_0", Type: ggml.TQ2_0, FileType: 37, embd: all(ggml.Q4_K)},
	{Name: "q1_0", Type: ggml.Q1_0, FileType: 40},
	{Name: "q2_0", Type: ggml.Q2_0, FileType: 41, embd: all(ggml.Q4_K)},
}

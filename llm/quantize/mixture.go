package quantize

import (
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// A Mixture gives the matrices of a model their types by what they do and by their layer: matrices
// that lose most by rounding get more bits. The mixtures are llama-quantize's.
type Mixture struct {
	Name     string    // as llama-quantize has it, in lower case: "q4_k_m"
	Type     ggml.Type // of most matrices
	FileType uint32    // llama.cpp's number for the key general.file_type

	// Types of some matrices; nil is Type, and of the output sixBits. Experts, and what all tokens
	// go through beside them, count as the matrices of one network.
	output, embd                                          rule
	attnQ, attnK, attnV, attnOut, ffnGate, ffnUp, ffnDown rule
	dense                                                 rule // of all matrices except experts', if it is not nil

	needsImportance bool // it gives types to matrices of layers that are garbage without
}

// Mixtures lists the mixtures of llama-quantize, by bits.
func Mixtures() []Mixture { return slices.Clone(mixtures) }

// FindMixture returns the mixture of a name, in either case. As in llama-quantize, q3_k, q4_k and
// q5_k stand for the medium mixtures.
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

// TypeOf returns the type of a weight of an architecture. Where its rows are no multiple of the
// type's block it is another type, of smaller blocks, and isFallback is true. What is not
// converted, see [arch.Weight.IsConvertible], is F32.
func (x *Mixture) TypeOf(a *arch.Architecture, w *arch.Weight, i Importance) (t ggml.Type, isFallback bool) {
	switch {
	case w == nil || !w.IsConvertible():
		return ggml.F32, false
	case !x.Type.IsQuantized():
		return x.Type, false
	}
	c, rowLen := a.Config(), w.Shape[0]
	p := place{most: x.Type, rowLen: rowLen, shared: sharedHeads(c), experts: c.Experts, isFalcon: c.Arch == "falcon", isWeighted: i != nil}
	group := groupOf(w)
	p.layer, p.layers = x.count(a, w, group)
	t = x.Type
	if apply := x.rule(c, w, group); apply != nil {
		t = apply(p)
	}
	switch {
	case x.isSmallest():
	case hasEight(p) && (group == attnK || group == attnV):
		t = ggml.Q8_0
	case is70B(c) && group == attnV && (t == ggml.Q3_K || t == ggml.Q4_K): // small beside the rest
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

// A group is matrices that do the same.
type group int

const (
	otherMatrices group = iota
	attnQ
	attnK
	attnV // or a matrix that holds it
	attnOut
	ffnGate
	ffnUp
	ffnDown
)

// groupOf returns the group of a weight, by its name as in llama-quantize: weights of experts
// belong to a group too.
func groupOf(w *arch.Weight) group {
	for _, g := range []struct {
		part string
		group
	}{
		{"attn_qkv.weight", attnV}, {"attn_kv_b.weight", attnV}, {"attn_v.weight", attnV}, {"attn_k.weight", attnK}, {"attn_q.weight", attnQ}, {"attn_output.weight", attnOut},
		{"ffn_up", ffnUp}, {"ffn_gate", ffnGate}, {"ffn_down", ffnDown},
	} {
		if w.IsConvertible() && strings.Contains(w.Name, g.part) {
			return g.group
		}
	}
	return otherMatrices
}

// count says which of how many a matrix is, in the order of names: of the matrices with values, of
// which some layers have none and others two, or else of the layers.
func (x *Mixture) count(a *arch.Architecture, w *arch.Weight, g group) (i, n int) {
	c := a.Config()
	if g == otherMatrices || g != attnV && c.Experts > 1 && !x.isSmallest() {
		return w.Layer, c.Layers
	}
	for _, other := range a.Weights() {
		if groupOf(other) != g {
			continue
		}
		n++
		if other.Layer < w.Layer || other.Layer == w.Layer && other.Name < w.Name {
			i++
		}
	}
	if g != attnV {
		n = c.Layers
	}
	return i, n
}

// isSmallest reports whether the mixture has less than three bits, for which other rules hold.
func (x *Mixture) isSmallest() bool {
	switch x.Type {
	case ggml.IQ1S, ggml.IQ1M, ggml.IQ2XXS, ggml.IQ2XS, ggml.IQ2S:
		return true
	}
	return false
}

// rule finds the rule for a matrix.
func (x *Mixture) rule(c arch.Config, w *arch.Weight, g group) rule {
	switch {
	case x.dense != nil && len(w.Shape) > 2 && w.Shape[2] > 1:
		return nil
	case x.dense != nil:
		return x.dense
	case w.Name == "output.weight" || w.Role == arch.Embedding && c.Tied:
		if x.output == nil {
			return sixBits
		}
		return x.output
	case w.Role == arch.Embedding:
		return x.embd
	}
	out, down := x.attnOut, x.ffnDown
	if c.Arch == "falcon" && !x.isSmallest() {
		of := falcons[x.Name]
		if out = of.attnOut; of.ffnDown != nil {
			down = of.ffnDown
		}
	}
	return map[group]rule{attnQ: x.attnQ, attnK: x.attnK, attnV: x.attnV, attnOut: out, ffnGate: x.ffnGate, ffnUp: x.ffnUp, ffnDown: down}[g]
}

// is70B reports whether llama-quantize takes a model for one of 70B, which it knows by its layers.
func is70B(c arch.Config) bool {
	switch c.Arch {
	case "llama":
		return c.Layers == 80 && c.Heads != c.KVHeads
	case "qwen2", "deci", "olmo":
		return c.Layers == 80
	case "jais2":
		return c.Layers == 68
	}
	return false
}

// sharedHeads is how many heads of queries share one of keys and values, in the first layer.
func sharedHeads(c arch.Config) int {
	heads, kv := c.Heads, c.KVHeads
	if c.HeadsAt != nil {
		heads = c.HeadsAt[0]
	}
	if c.KVHeadsAt != nil {
		kv = c.KVHeadsAt[0]
	}
	if kv == 0 {
		return 0
	}
	return heads / kv
}

// A place is the position of a matrix, on which its type depends.
type place struct {
	most          ggml.Type // of the mixture
	rowLen        int64
	layer, layers int
	shared        int  // heads of queries that share one of keys and values
	experts       int  // 0 for none
	isFalcon      bool // falcon's output has a type of its own
	isWeighted    bool // there is an importance matrix
}

// A rule gives a matrix its type.
type rule func(p place) ggml.Type

// all gives one type in all layers.
func all(t ggml.Type) rule { return func(place) ggml.Type { return t } }

// when returns a rule that gives a type if a condition holds, and else what the next rule or the
// mixture gives.
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

// Of many experts attention is a small part.
func hasFour(p place) bool  { return p.experts >= 4 }
func hasEight(p place) bool { return p.experts == 8 }

func isWeighted(p place) bool   { return p.isWeighted }
func isUnweighted(p place) bool { return !p.isWeighted }

// isMiddle are the layers between the first and the last eighth.
func isMiddle(p place) bool { return p.layer >= p.layers/8 && p.layer < 7*p.layers/8 }

// isSensitive are the first and the last eighth of layers, and each third between.
func isSensitive(p place) bool { return !isMiddle(p) || (p.layer-p.layers/8)%3 == 2 }

func and(a, b func(place) bool) func(place) bool { return func(p place) bool { return a(p) && b(p) } }
func or(a, b func(place) bool) func(place) bool  { return func(p place) bool { return a(p) || b(p) } }

// sixBits is the rule for the output: Q6_K, or Q8_0 where that is most, or blocks do not fit.
func sixBits(p place) ggml.Type {
	if p.most == ggml.Q8_0 || p.rowLen%p.most.BlockSize() != 0 || p.isFalcon {
		return ggml.Q8_0
	}
	return ggml.Q6_K
}

// fiveBits is sixBits of mixtures with few bits.
func fiveBits(p place) ggml.Type {
	if p.rowLen%p.most.BlockSize() != 0 || p.isFalcon {
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

// falcons are the rules for falcon's attn_output, which is the mixture's type where there is none, and
// for ffn_down where they are others.
var falcons = map[string]struct{ attnOut, ffnDown rule }{
	"q3_k_m": {ffnDown: when(firstOf(16), ggml.Q5_K, when(isSensitive, ggml.Q4_K))},
	"q3_k_l": {attnOut: all(ggml.Q4_K), ffnDown: all(ggml.Q4_K)},
	"q4_k_s": {ffnDown: all(ggml.Q4_K)},
	"q4_k_m": {ffnDown: when(firstOf(16), ggml.Q6_K, when(isSensitive, ggml.Q5_K))},
}

var mixtures = []Mixture{
	{Name: "iq1_s", Type: ggml.IQ1S, FileType: 24, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnK: when(hasEight, ggml.Q4_K), attnV: when(or(isShared, hasFour), ggml.Q4_K, all(ggml.Q2_K)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.IQ2XXS)), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq1_m", Type: ggml.IQ1M, FileType: 31, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnK: when(hasEight, ggml.Q4_K), attnV: when(or(isShared, hasFour), ggml.Q4_K, all(ggml.Q2_K)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.IQ2XXS)), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq2_xxs", Type: ggml.IQ2XXS, FileType: 19, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnK: when(hasEight, ggml.Q4_K), attnV: when(or(isShared, hasFour), ggml.Q4_K, all(ggml.Q2_K)), attnOut: when(hasEight, ggml.Q5_K), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq2_xs", Type: ggml.IQ2XS, FileType: 20, needsImportance: true, output: fiveBits, embd: all(ggml.Q2_K), attnK: when(hasEight, ggml.Q4_K), attnV: when(or(isShared, hasFour), ggml.Q4_K, all(ggml.Q2_K)), attnOut: when(hasEight, ggml.Q5_K), ffnDown: when(firstOf(8), ggml.Q2_K)},
	{Name: "iq2_s", Type: ggml.IQ2XS, FileType: 28, needsImportance: true, output: fiveBits, embd: all(ggml.IQ3S), attnK: when(hasEight, ggml.Q4_K), attnV: when(or(isShared, hasFour), ggml.Q4_K, all(ggml.IQ3S)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.IQ3S)), ffnDown: when(firstOf(8), ggml.IQ3S)},
	{Name: "iq2_m", Type: ggml.IQ2S, FileType: 29, needsImportance: true, output: fiveBits, embd: all(ggml.IQ3S), attnK: when(hasEight, ggml.Q4_K), attnV: when(or(isShared, hasFour), ggml.Q4_K, all(ggml.IQ3S)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.IQ3S)), ffnDown: when(firstOf(8), ggml.IQ3S)},
	{
		Name: "iq3_xxs", Type: ggml.IQ3XXS, FileType: 23, needsImportance: true, output: fiveBits, embd: all(ggml.IQ3S),
		attnQ: all(ggml.IQ2S), attnK: all(ggml.IQ2S), attnV: when(isShared, ggml.Q4_K, when(isUnweighted, ggml.IQ3S)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.IQ3S)),
		ffnDown: when(and(isUnweighted, firstOf(8)), ggml.Q4_K, when(isUnweighted, ggml.Q3_K)),
	},
	{
		Name: "iq3_xs", Type: ggml.IQ3S, FileType: 22, needsImportance: true, attnQ: all(ggml.IQ3XXS), attnK: all(ggml.IQ3XXS), attnV: when(isShared, ggml.Q4_K), attnOut: when(hasEight, ggml.Q5_K),
		ffnGate: when(isMiddle, ggml.IQ3XXS), ffnUp: when(isMiddle, ggml.IQ3XXS),
	},
	{Name: "iq3_s", Type: ggml.IQ3S, FileType: 26, attnV: when(isShared, ggml.Q4_K), attnOut: when(hasEight, ggml.Q5_K)},
	{Name: "iq3_m", Type: ggml.IQ3S, FileType: 27, attnV: all(ggml.Q4_K), attnOut: when(hasEight, ggml.Q5_K, all(ggml.Q4_K)), ffnDown: when(or(firstOf(8), and(hasEight, isSensitive)), ggml.Q4_K)},
	{Name: "q2_k_s", Type: ggml.Q2_K, FileType: 21, needsImportance: true, attnV: when(isShared, ggml.Q4_K), ffnDown: when(firstOf(8), ggml.Q4_K)},
	{Name: "q2_k", Type: ggml.Q2_K, FileType: 10, attnV: when(isShared, ggml.Q4_K, all(ggml.Q3_K)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.Q3_K)), ffnDown: all(ggml.Q3_K)},
	{Name: "q3_k_s", Type: ggml.Q3_K, FileType: 11, attnOut: when(hasEight, ggml.Q5_K)},
	{Name: "q3_k_m", Type: ggml.Q3_K, FileType: 12, attnV: when(below(2), ggml.Q5_K, all(ggml.Q4_K)), attnOut: when(hasEight, ggml.Q5_K, all(ggml.Q4_K)), ffnDown: when(firstOf(16), ggml.Q5_K, all(ggml.Q4_K))},
	{Name: "q3_k_l", Type: ggml.Q3_K, FileType: 13, attnV: all(ggml.Q5_K), attnOut: when(hasEight, ggml.Q3_K, all(ggml.Q5_K)), ffnDown: all(ggml.Q5_K)},
	{Name: "iq4_xs", Type: ggml.IQ4XS, FileType: 30, attnV: when(isShared, ggml.Q5_K), attnOut: when(hasEight, ggml.Q5_K), ffnDown: when(and(isUnweighted, firstOf(8)), ggml.Q5_K)},
	{Name: "iq4_nl", Type: ggml.IQ4NL, FileType: 25, attnV: when(isShared, ggml.Q5_K), attnOut: when(hasEight, ggml.Q5_K), ffnDown: when(and(isUnweighted, firstOf(8)), ggml.Q5_K)},
	{Name: "q4_0", Type: ggml.Q4_0, FileType: 2, ffnDown: when(and(isWeighted, firstOf(8)), ggml.Q4_1)},
	{Name: "q4_1", Type: ggml.Q4_1, FileType: 3},
	{Name: "q4_k_s", Type: ggml.Q4_K, FileType: 14, attnV: when(below(4), ggml.Q5_K), attnOut: when(hasEight, ggml.Q5_K), ffnDown: when(firstOf(8), ggml.Q5_K)},
	{Name: "q4_k_m", Type: ggml.Q4_K, FileType: 15, attnV: when(isSensitive, ggml.Q6_K), attnOut: when(hasEight, ggml.Q5_K), ffnDown: when(isSensitive, ggml.Q6_K)},
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
	{Name: "mxfp4_moe", Type: ggml.MXFP4, FileType: 38, dense: all(ggml.Q8_0)},
}

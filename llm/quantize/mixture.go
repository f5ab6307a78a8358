package quantize

import (
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// A Mixture assigns types to a model's matrices by their function and layer: matrices that lose most by rounding get
// more bits. The mixtures are llama-quantize's.
type Mixture struct {
	Name     string    // llama-quantize's name in lower case: "q4_k_m"
	Type     ggml.Type // of most matrices
	FileType uint32    // llama.cpp's value of the key general.file_type

	// Rules of some matrices; nil means Type, or sixBits for the output. Experts and shared experts count as the
	// matrices of one network.
	output, embd                                          rule
	attnQ, attnK, attnV, attnOut, ffnGate, ffnUp, ffnDown rule
	dense                                                 rule // of all matrices except experts'; may be nil

	needsImportance bool // some layers are unusable without an importance matrix
}

// Mixtures lists the mixtures of llama-quantize, by bits.
func Mixtures() []Mixture { return slices.Clone(mixtures) }

// FindMixture returns a mixture by its name, ignoring case. As in llama-quantize, q3_k, q4_k and q5_k mean the medium
// mixtures.
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

// TypeOf returns the type of a weight of an architecture. If the length of its rows is not a multiple of the type's
// block size, it returns a type with smaller blocks, and isFallback is true. Weights that are not converted, see
// [arch.Weight.IsConvertible], are F32.
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
	case is70B(c) && group == attnV && (t == ggml.Q3_K || t == ggml.Q4_K): // small compared with the other matrices
		t = ggml.Q5_K
	}
	smaller, ok := smallerBlocks[t]
	switch {
	case rowLen%t.BlockSize() == 0:
		return t, false
	case !ok || rowLen%smaller.BlockSize() != 0:
		return ggml.F16, true
	}
	return smaller, true
}

// A group is a set of matrices with the same function.
type group int

const (
	otherMatrices group = iota
	attnQ
	attnK
	attnV // or a fused matrix that contains it
	attnOut
	ffnGate
	ffnUp
	ffnDown
)

// groupOf returns the group of a weight, by its name as in llama-quantize; weights of experts belong to the same
// groups.
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

// count returns the position i of a matrix among the n of its group, ordered by layer and name. n is the number of
// layers, except for V matrices: a layer may have none or two.
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

// isSmallest reports whether the mixture has less than three bits, which has its own rules.
func (x *Mixture) isSmallest() bool {
	switch x.Type {
	case ggml.IQ1S, ggml.IQ1M, ggml.IQ2XXS, ggml.IQ2XS, ggml.IQ2S:
		return true
	}
	return false
}

// rule returns the rule for a matrix.
func (x *Mixture) rule(c arch.Config, w *arch.Weight, g group) rule {
	switch {
	case c.Arch == "glm5-next" && (w.Kind == "attn_q_a" || w.Kind == "attn_q_b"):
		return all(ggml.Q8_0)
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

// is70B reports whether llama-quantize treats the model as a 70B one, which it recognises by the number of layers.
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

// sharedHeads returns the number of query heads per KV head in the first layer.
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
	most          ggml.Type // the mixture's Type
	rowLen        int64
	layer, layers int
	shared        int  // query heads per KV head
	experts       int  // 0 if the model has no experts
	isFalcon      bool // falcon's output has a type of its own
	isWeighted    bool // there is an importance matrix
}

// A rule gives a matrix its type.
type rule func(p place) ggml.Type

// all returns a rule with one type in all layers.
func all(t ggml.Type) rule { return func(place) ggml.Type { return t } }

// when returns a rule: t if the condition holds, else the type of the next rule, or the mixture's.
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

// below holds in the first n layers, firstOf in the first fraction of them.
func below(n int) func(place) bool { return func(p place) bool { return p.layer < n } }
func firstOf(share int) func(place) bool {
	return func(p place) bool { return p.layer < p.layers/share }
}

// isShared holds for grouped-query attention with at least four query heads per KV head: the V matrix is small.
func isShared(p place) bool { return p.shared >= 4 }

// hasFour holds for models with at least four experts: attention is a small part of them.
func hasFour(p place) bool  { return p.experts >= 4 }
func hasEight(p place) bool { return p.experts == 8 }

func isWeighted(p place) bool   { return p.isWeighted }
func isUnweighted(p place) bool { return !p.isWeighted }

// isMiddle holds in the layers between the first and the last eighth.
func isMiddle(p place) bool { return p.layer >= p.layers/8 && p.layer < 7*p.layers/8 }

// isSensitive holds in the first and the last eighth of the layers, and in each third layer between.
func isSensitive(p place) bool { return !isMiddle(p) || (p.layer-p.layers/8)%3 == 2 }

func and(a, b func(place) bool) func(place) bool { return func(p place) bool { return a(p) && b(p) } }
func or(a, b func(place) bool) func(place) bool  { return func(p place) bool { return a(p) || b(p) } }

// sixBits is the rule of the output: Q6_K, or Q8_0 if that is the mixture's Type or if the blocks do not fit.
func sixBits(p place) ggml.Type {
	if p.most == ggml.Q8_0 || p.rowLen%p.most.BlockSize() != 0 || p.isFalcon {
		return ggml.Q8_0
	}
	return ggml.Q6_K
}

// fiveBits is sixBits for mixtures with few bits.
func fiveBits(p place) ggml.Type {
	if p.rowLen%p.most.BlockSize() != 0 || p.isFalcon {
		return ggml.Q8_0
	}
	return ggml.Q5_K
}

// smallerBlocks replaces types whose blocks do not fit the rows.
var smallerBlocks = map[ggml.Type]ggml.Type{
	ggml.IQ1S: ggml.IQ4NL, ggml.IQ1M: ggml.IQ4NL, ggml.IQ2XXS: ggml.IQ4NL, ggml.IQ2XS: ggml.IQ4NL, ggml.IQ2S: ggml.IQ4NL,
	ggml.IQ3XXS: ggml.IQ4NL, ggml.IQ3S: ggml.IQ4NL, ggml.IQ4XS: ggml.IQ4NL,
	ggml.Q2_0: ggml.Q4_0, ggml.Q2_K: ggml.Q4_0, ggml.Q3_K: ggml.Q4_0, ggml.TQ1_0: ggml.Q4_0, ggml.TQ2_0: ggml.Q4_0,
	ggml.Q4_K: ggml.Q5_0, ggml.Q5_K: ggml.Q5_1, ggml.Q6_K: ggml.Q8_0,
}

// falcons has falcon's rules by mixture; without one, attn_output has the mixture's type. ffn_down is listed if it
// differs.
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

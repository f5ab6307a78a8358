package refmodel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/refmath"
)

// A forward computes one sequence. What an architecture computes beyond llama shows in
// the weights that it has, and in its parameters.
type forward struct {
	*tape
	*Model
	vars map[string]*value // weights and adapters by name
	s    Sequence
}

// Logits returns the logits [len(tokens)][Vocab] at all positions of one causal
// sequence that begins at position 0.
func (m *Model) Logits(tokens []int32) ([][]float64, error) {
	if err := m.checkTokens("token", tokens); err != nil {
		return nil, err
	}
	f := forward{&tape{}, m, m.vars, Sequence{Inputs: tokens}}
	return slices.Collect(slices.Chunk(f.logits().data, m.Vocab)), nil
}

func (m *Model) checkTokens(what string, tokens []int32) error {
	for i, t := range tokens {
		if t < 0 || int(t) >= m.Vocab {
			return fmt.Errorf("refmodel: %s %d is %d, the vocabulary has %d", what, i, t, m.Vocab)
		}
	}
	return nil
}

func (f forward) logits() *value {
	x := f.scale(f.embed(f.s.Inputs), f.EmbdScale)
	if f.s.Noise != nil {
		x = f.add(x, &value{width: f.Embd, data: slices.Concat(f.s.Noise...)})
	}
	for l := range f.Layers {
		x = f.layer(fmt.Sprintf("blk.%d.", l), l, x)
	}
	z := f.scale(f.head(f.norm(outputNorm, x)), 1/f.LogitDivisor)
	if f.LogitSoftcap != 0 {
		z = f.softcap(z, f.LogitSoftcap)
	}
	return z
}

// embed looks up the tokens' rows, each with its adapter's part.
func (f forward) embed(tokens []int32) *value {
	x := f.lookup(f.vars[tokenEmbd], tokens)
	if l, ok := f.loras[tokenEmbd]; ok {
		h := f.lookup(f.vars[tokenEmbd+".lora_a"], tokens)
		x = f.add(x, f.scale(f.multiply(f.vars[tokenEmbd+".lora_b"], h), l.Scale))
	}
	return x
}

// head multiplies by the output matrix, or by the embedding without its adapter.
func (f forward) head(x *value) *value {
	if f.vars[output] != nil {
		return f.linear("output", x)
	}
	return f.biased("output", f.multiply(f.vars[tokenEmbd], x))
}

func (f forward) layer(prefix string, l int, x *value) *value {
	y := f.attention(prefix, l, f.norm(prefix+"attn_norm.weight", x))
	y = f.norm(prefix+"post_attention_norm.weight", y)
	x = f.add(x, f.scale(y, f.ResidualScale))

	y = f.feedForward(prefix, f.norm(prefix+"ffn_norm.weight", x))
	y = f.norm(prefix+"post_ffw_norm.weight", y)
	return f.add(x, f.scale(y, f.ResidualScale))
}

func (f forward) attention(prefix string, l int, x *value) *value {
	q, k, v := f.queriesKeysValues(prefix, x)
	q, k = f.norm(prefix+"attn_q_norm.weight", q), f.norm(prefix+"attn_k_norm.weight", k)
	if r, ok := f.rope(l); ok {
		q, k = f.rotate(q, f.HeadDim, r), f.rotate(k, f.HeadDim, r)
	}
	if f.Temperature != nil {
		q = f.scaleRows(q, f.Temperature)
	}
	a := attention{headDim: f.HeadDim, heads: f.Heads, kvHeads: f.KVHeads, scale: f.AttnScale, window: of(f.Windows, l)}
	return f.linear(prefix+"attn_output", f.attend(a, q, k, v))
}

func (f forward) queriesKeysValues(prefix string, x *value) (q, k, v *value) {
	if f.vars[prefix+"attn_qkv.weight"] == nil {
		return f.linear(prefix+"attn_q", x), f.linear(prefix+"attn_k", x), f.linear(prefix+"attn_v", x)
	}
	all := f.linear(prefix+"attn_qkv", x)
	toK := f.HeadDim * f.Heads
	toV := toK + f.HeadDim*f.KVHeads
	return f.columns(all, 0, toK), f.columns(all, toK, toV), f.columns(all, toV, all.width)
}

// rope is the rotation of a layer, if it has one.
func (f forward) rope(l int) (r refmath.RoPE, ok bool) {
	r = f.RoPE
	if of(f.Windows, l) > 0 {
		r = f.LocalRoPE
	}
	factors := ropeShort
	if f.LongRoPE {
		factors = ropeLong
	}
	for _, name := range []string{ropeFreqs, factors} {
		if w := f.vars[name]; w != nil {
			r.Factors = w.data
		}
	}
	return r, !of(f.NoRoPE, l)
}

// of is what a list says of layer l; an empty one says nothing of any.
func of[T any](list []T, l int) (x T) {
	if len(list) == 0 {
		return x
	}
	return list[l]
}

func (f forward) feedForward(prefix string, x *value) *value {
	act := f.activation()
	gate, up := f.vars[prefix+"ffn_gate.weight"], f.linear(prefix+"ffn_up", x)
	if gate == nil { // it is the first half of ffn_up
		return f.linear(prefix+"ffn_down", f.gated(act, f.columns(up, 0, f.FF), f.columns(up, f.FF, 2*f.FF)))
	}
	return f.linear(prefix+"ffn_down", f.gated(act, f.linear(prefix+"ffn_gate", x), up))
}

func (f forward) activation() activation {
	switch {
	case f.Arch != "gemma3":
		return silu
	case f.F16GELU:
		return geluF16
	}
	return gelu
}

// linear returns s·W·x + Scale·B(A·x) + bias for every token. The factor s of a matrix
// of the feed-forward network multiplies all of it, as in llama.cpp.
func (f forward) linear(name string, x *value) *value {
	base := name + ".weight"
	y, s := f.multiply(f.vars[base], x), f.vars[name+".scale"]
	ofAll := strings.Contains(name, ".ffn_")
	if s != nil && !ofAll {
		y = f.scaleBy(y, s)
	}
	if l, ok := f.loras[base]; ok {
		seen := x
		if factors := f.s.Dropout[base]; factors != nil {
			seen = f.multiplyEach(x, factors)
		}
		h := f.multiply(f.vars[base+".lora_a"], seen)
		y = f.add(y, f.scale(f.multiply(f.vars[base+".lora_b"], h), l.Scale))
	}
	y = f.biased(name, y)
	if s != nil && ofAll {
		y = f.scaleBy(y, s)
	}
	return y
}

func (f forward) biased(name string, y *value) *value {
	if b := f.vars[name+".bias"]; b != nil {
		return f.addBias(y, b)
	}
	return y
}

// norm is x itself where there is no such norm.
func (f forward) norm(name string, x *value) *value {
	if w := f.vars[name]; w != nil {
		return f.rmsNorm(x, w, f.RMSEps)
	}
	return x
}

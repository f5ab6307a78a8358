package refmodel

import (
	"fmt"
	"slices"
	"strings"
)

// A forward computes one sequence.
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
	x := f.embed(f.s.Inputs)
	if f.s.Noise != nil {
		x = f.add(x, &value{width: f.Embd, data: slices.Concat(f.s.Noise...)})
	}
	for l := range f.Layers {
		x = f.layer(fmt.Sprintf("blk.%d.", l), x)
	}
	return f.head(f.norm(outputNorm, x))
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

func (f forward) layer(prefix string, x *value) *value {
	x = f.add(x, f.attention(prefix, f.norm(prefix+"attn_norm.weight", x)))
	return f.add(x, f.feedForward(prefix, f.norm(prefix+"ffn_norm.weight", x)))
}

func (f forward) attention(prefix string, x *value) *value {
	q, k, v := f.linear(prefix+"attn_q", x), f.linear(prefix+"attn_k", x), f.linear(prefix+"attn_v", x)
	r := f.RoPE
	if w := f.vars[ropeFreqs]; w != nil {
		r.Factors = w.data
	}
	q, k = f.rotate(q, f.HeadDim, r), f.rotate(k, f.HeadDim, r)
	a := attention{headDim: f.HeadDim, heads: f.Heads, kvHeads: f.KVHeads, scale: rsqrt(f.HeadDim)}
	return f.linear(prefix+"attn_output", f.attend(a, q, k, v))
}

func (f forward) feedForward(prefix string, x *value) *value {
	return f.linear(prefix+"ffn_down", f.swiGLU(f.linear(prefix+"ffn_gate", x), f.linear(prefix+"ffn_up", x)))
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

func (f forward) norm(name string, x *value) *value { return f.rmsNorm(x, f.vars[name], f.RMSEps) }

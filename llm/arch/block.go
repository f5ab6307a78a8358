package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A Builder builds the graph of a model over a batch of tokens. Training and decoding
// are two builders over the same block: they differ in their products, their attention
// and their inputs.
type Builder struct {
	Config    Config
	Source    func(Weight) *ggml.Tensor // nil for an optional weight that there is not
	Adapters  nn.Adapters
	Products  nn.Products
	Attention nn.Attention

	Tokens    *ggml.Tensor // I32 [n]
	Positions *ggml.Tensor // I32 [n]
	Negated   *ggml.Tensor // I32 [n], the positions negated; where the lowering needs it
	AttnTemp  *ggml.Tensor // F32 [1, 1, n], [Config.AttnTemp] of each token
	EmbdNoise *ggml.Tensor // F32 [n_embd, n], added to the scaled embeddings; nil for none
	// Context is the most positions of a sequence in the run: RoPE has factors for
	// short and for long ones.
	Context int

	// Chunk is the number of tokens that go through a feed-forward network at a time;
	// 0 is all.
	Chunk int64
	// Keep is the number of tokens at the end that the last layer goes on with
	// once it has their keys and values; 0 is all. Not in training.
	Keep int64
}

const (
	tokenEmbd  = "token_embd"
	outputNorm = "output_norm"
	output     = "output"
)

func (b *Builder) spec() *spec {
	s := specs[b.Config.Arch]
	return &s
}

// Hidden computes the normalised residual stream [n_embd, n] after all layers.
func (b *Builder) Hidden(t *nn.Tape, checkpoint bool) *nn.Value {
	x := t.Scale(t.Embed(b.Tokens, b.embedding(), b.Adapters), b.Config.EmbdScale)
	if b.EmbdNoise != nil {
		x = t.AddInput(x, b.EmbdNoise)
	}
	for i := range b.Config.Layers {
		block := func(t *nn.Tape, x *nn.Value) *nn.Value { return b.block(t, i, x) }
		if checkpoint {
			x = t.Checkpoint(x, block)
		} else {
			x = block(t, x)
		}
	}
	return b.norm(t, outputNorm, x)
}

// Logits returns the output [n_vocab, n] of x [n_embd, n].
func (b *Builder) Logits(t *nn.Tape, x *nn.Value) *nn.Value {
	c := b.Config
	for _, w := range b.spec().unused {
		b.Source(w)
	}
	z := b.Products.Linear(t, x, b.head())[0]
	if c.LogitScale != 0 {
		z = t.Scale(z, 1/c.LogitScale)
	}
	return t.Softcap(z, c.LogitSoftcap)
}

// head is the matrix of logits.
func (b *Builder) head() nn.Matrix {
	c := b.Config
	if !c.Tied {
		m := b.matrix(output, int64(c.Embd), int64(c.Vocab))
		m.Bias = b.outputBias()
		return m
	}
	m := b.embedding()
	m.Bias = b.outputBias()
	m.NoLoRA = true // adapters of a tied embedding act on the lookup only
	return m
}

// block is one transformer layer.
func (b *Builder) block(t *nn.Tape, i int, x *nn.Value) *nn.Value {
	c, s := b.Config, b.spec()
	l := layerBuilder{b, c.Layer(i), fmt.Sprintf("blk.%d.", i)}
	out := l.attention(t, i, l.normIf(t, s.norms&normBefore, "attn_norm", x))
	if b.Keep > 0 && i == c.Layers-1 {
		x, out = t.Last(x, b.Keep), t.Last(out, b.Keep)
	}
	gather := Weight{Name: l.prefix + "attn_output", Shape: []int64{int64(c.Heads * c.HeadSize), int64(c.Embd)}, Residual: true}
	y := l.product(t, out, l.optionalBias(l.declare(gather, Scale)))
	y = l.normIf(t, s.norms&normAfter, "post_attention_norm", y)
	x = t.Add(x, t.Scale(y, c.ResidualScale))

	return t.Chunked(x, b.Chunk, func(t *nn.Tape, x *nn.Value) *nn.Value {
		y := l.feedForward(t, l.normIf(t, s.norms&normBefore, "ffn_norm", x))
		y = l.normIf(t, s.norms&normAfter, "post_ffw_norm", y)
		return t.Add(x, t.Scale(y, c.ResidualScale))
	})
}

// A layerBuilder builds one layer, whose weights' names begin with a prefix.
type layerBuilder struct {
	*Builder
	Layer
	prefix string
}

// attention returns what the heads gather [size·heads, n].
func (l layerBuilder) attention(t *nn.Tape, i int, x *nn.Value) *nn.Value {
	c := l.Config
	q, k, v := l.queriesKeysValues(t, x)
	if l.spec().qkNorm == allHeads {
		q, k = l.norm(t, l.prefix+"attn_q_norm", q), l.norm(t, l.prefix+"attn_k_norm", k)
	}
	q, k, v = t.Heads(q, int64(c.Heads)), t.Heads(k, int64(c.KVHeads)), t.Heads(v, int64(c.KVHeads))
	if l.spec().qkNorm == perHead {
		q, k = l.norm(t, l.prefix+"attn_q_norm", q), l.norm(t, l.prefix+"attn_k_norm", k)
	}
	factors := l.ropeFactors() // files may have them without RoPE, too
	if !l.NoRoPE {
		r := nn.Rotation{RoPE: l.RoPE, Positions: l.Positions, Negated: l.Negated, Factors: factors}
		q, k = t.RoPE(q, r), t.RoPE(k, r)
	}
	if c.AttnTempScale != 0 {
		q = t.MulInput(q, l.AttnTemp)
	}
	return l.Attention.Attend(t, q, k, v, nn.AttentionOptions{Layer: i, Scale: c.AttentionScale(), Window: l.Window})
}

func (l layerBuilder) queriesKeysValues(t *nn.Tape, x *nn.Value) (q, k, v *nn.Value) {
	c := l.Config
	embd, queries, keys := int64(c.Embd), int64(c.Heads*c.HeadSize), int64(c.KVHeads*c.HeadSize)
	var parts []*nn.Value
	if c.FusedQKV {
		qkv := l.biased(l.matrix(l.prefix+"attn_qkv", embd, queries+2*keys))
		parts = t.Split(l.product(t, x, qkv), queries, keys, keys)
	} else {
		parts = l.Products.Linear(t, x,
			l.biased(l.matrix(l.prefix+"attn_q", embd, queries)),
			l.biased(l.matrix(l.prefix+"attn_k", embd, keys)),
			l.biased(l.matrix(l.prefix+"attn_v", embd, keys)))
	}
	return parts[0], parts[1], parts[2]
}

// feedForward returns W_down · (act(W_gate·x) ⊙ W_up·x).
func (l layerBuilder) feedForward(t *nn.Tape, x *nn.Value) *nn.Value {
	c, s := l.Config, l.spec()
	embd, ff := int64(c.Embd), int64(c.FF)
	var parts []*nn.Value
	if s.fusedGateUp {
		parts = t.Split(l.product(t, x, l.ffn("ffn_up", embd, 2*ff, false)), ff, ff)
	} else {
		parts = l.Products.Linear(t, x, l.ffn("ffn_gate", embd, ff, false), l.ffn("ffn_up", embd, ff, false))
	}
	return l.product(t, t.GLU(s.act, parts[0], parts[1]), l.ffn("ffn_down", ff, embd, true))
}

// ffn is a matrix of the feed-forward network.
func (l layerBuilder) ffn(part string, in, out int64, residual bool) nn.Matrix {
	scale := Unused
	if l.spec().ffnScales {
		scale = OutScale
	}
	return l.optionalBias(l.declare(Weight{Name: l.prefix + part, Shape: []int64{in, out}, Residual: residual}, scale))
}

func (l layerBuilder) product(t *nn.Tape, x *nn.Value, m nn.Matrix) *nn.Value {
	return l.Products.Linear(t, x, m)[0]
}

// optionalBias adds a bias to a matrix where the architecture may have one.
func (l layerBuilder) optionalBias(m nn.Matrix) nn.Matrix {
	if l.spec().biases {
		return l.biased(m)
	}
	return m
}

func (l layerBuilder) normIf(t *nn.Tape, there norms, name string, x *nn.Value) *nn.Value {
	if there == 0 {
		return x
	}
	return l.norm(t, l.prefix+name, x)
}

// ropeFactors are those of the frequencies, nil where a model has none.
func (l layerBuilder) ropeFactors() *ggml.Tensor {
	if !l.spec().ropeFactors {
		return nil
	}
	factors := func(name string) *ggml.Tensor {
		return l.Source(Weight{Name: name + ".weight", Shape: []int64{int64(l.RoPE.Dims / 2)}, Role: RoPEFreqs, Optional: true})
	}
	all, short, long := factors("rope_freqs"), factors("rope_factors_short"), factors("rope_factors_long")
	switch {
	case all != nil:
		return all
	case l.Context > l.RoPE.TrainedCtx:
		return long
	}
	return short
}

// norm is the RMS norm of x over the elements that its weight has.
func (b *Builder) norm(t *nn.Tape, name string, x *nn.Value) *nn.Value {
	w := b.Source(Weight{Name: name + ".weight", Shape: []int64{x.T.Dim(0)}, Role: Norm})
	return t.RMSNorm(x, w, b.Config.RMSEps)
}

func (b *Builder) matrix(name string, in, out int64) nn.Matrix {
	return b.declare(Weight{Name: name, Shape: []int64{in, out}}, Scale)
}

// declare asks for a matrix, whose name lacks ".weight", and for its optional scale,
// which has the given role.
func (b *Builder) declare(w Weight, scale Role) nn.Matrix {
	factor := Weight{Name: w.Name + ".scale", Shape: []int64{1}, Role: scale, Optional: true}
	b.Source(Weight{Name: w.Name + ".input_scale", Shape: []int64{1}, Role: Unused, Optional: true})
	w.Name += ".weight"
	m := nn.Matrix{Name: w.Name, W: b.Source(w)}
	switch s := b.Source(factor); scale {
	case Scale:
		m.Scale = s
	case OutScale:
		m.OutScale = s
	}
	return m
}

// biased asks for the bias of a matrix, which is optional.
func (b *Builder) biased(m nn.Matrix) nn.Matrix {
	m.Bias = b.Source(Weight{Name: BiasName(m.Name), Shape: []int64{m.W.Dim(1)}, Role: Bias, Optional: true})
	return m
}

// outputBias is that of logits, nil where a model has none.
func (b *Builder) outputBias() *ggml.Tensor {
	if !b.spec().outputBias {
		return nil
	}
	return b.Source(Weight{Name: "output.bias", Shape: []int64{int64(b.Config.Vocab)}, Role: Bias, Optional: true})
}

func (b *Builder) embedding() nn.Matrix {
	c := b.Config
	name := tokenEmbd + ".weight"
	w := b.Source(Weight{Name: name, Shape: []int64{int64(c.Embd), int64(c.Vocab)}, Role: Embedding})
	return nn.Matrix{Name: name, W: w}
}

package arch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
	"github.com/goggml/ggml/llm/layout"
)

// A Builder builds the graph of a model over a batch of tokens. Training and decoding use the same
// layers; they differ in the lowering, and in whether sequences continue from a state.
type Builder struct {
	*Architecture
	// Source returns a weight by its name in files; nil if an optional weight is absent.
	Source func(name string) *ggml.Tensor
	// States are the states of sequences, see [Architecture.NewStates], and Pass names the sequences
	// that the graph continues; both are nil in a graph of whole sequences.
	States []*state.Tree
	Pass   state.Pass

	NumTokens int64   // of the batch
	Rows      int64   // of whole sequences, see [nn.AttentionOptions]
	Packed    bool    // they may hold several samples
	Branched  bool    // which may have several ends, see [nn.AttentionOptions]
	NEFTune   float32 // alpha of noise on the embeddings, see [nn.Tape.AddNoise]; 0 means none
	// Context is the most positions of a sequence in the run: RoPE has factors for
	// short and for long ones.
	Context int

	// Chunk is the number of tokens that go through a part at a time that is [Residual.Tokenwise];
	// 0 is all.
	Chunk int64
	// Keep is the number of tokens at the end that the last layer goes on with
	// once it has their keys and values; 0 is all. Not in training.
	Keep int64

	// Only are the layers that the graph has: the others pass what they see on. nil is all.
	Only []int
	// LayerHook is called by the computation at each [LayerEvent] of a layer; nil for none.
	LayerHook func(layer int, e LayerEvent)
}

const (
	tokenEmbd          = layout.TokenEmbd
	tokenEmbdNorm Kind = "token_embd_norm"
	positionEmbd  Kind = "position_embd"
	outputNorm    Kind = "output_norm"
	output             = layout.Output
)

func (b *Builder) spec() *spec { return b.config.spec() }

// Hidden computes the normalised residual stream [n_embd, n] after all layers.
func (b *Builder) Hidden(t *nn.Tape) *nn.Value {
	x := b.embed(t)
	beside := &beside{embedded: x, layerEmbeddings: b.layerEmbeddings(t, x), shared: map[int]keyValues{}, chosen: map[int]*nn.Chosen{}}
	pass := func(x *nn.Value, layer int) *nn.Value {
		if !b.passes(layer) {
			return x
		}
		p := b.in(b.blocks[layer])
		p.Layer, p.beside = layer, beside
		if b.States != nil {
			p.states = b.States[layer]
		}
		x = b.hook(t, x, layer, Enters, LeavesBack)
		x = t.On(p.block, "").Checkpoint(x, layer, p.pass)
		return b.hook(t, x, layer, Leaves, EntersBack)
	}
	if inOrder := b.spec().layerOrder; inOrder != nil {
		p := b.outside()
		p.beside = beside
		x = inOrder(p, t, x, pass)
	} else {
		for i := range b.layers {
			x = pass(x, i)
		}
	}
	last := b.outside()
	last.Layer = len(b.layers) - 1
	x = last.Kept(t, x) // where no part of the last layer did with less
	if b.spec().norms&normSum != 0 || b.spec().noOutputNorm {
		return x
	}
	return b.outside().Norm(t, cmp.Or(b.spec().outputNorm, outputNorm), x)
}

// pass computes the layer.
func (p Place) pass(t *nn.Tape, x *nn.Value) *nn.Value {
	s := stream{x: x}
	for i, r := range p.layers[p.Layer] {
		s = r.build(p.Part(i), t, s)
	}
	return s.sum(t)
}

// in returns the place of a block of the file, in the layer of the same number.
func (b *Builder) in(block int) Place {
	return Place{Builder: b, Layer: block, block: block, prefix: b.spec().blockPrefix(block), modules: b.spec().layerModule(&b.config, block)}
}

// embed looks up the tokens' embeddings, and learned embeddings of their types and positions.
func (b *Builder) embed(t *nn.Tape) *nn.Value {
	s, place := b.spec(), b.outside()
	t = t.On(place.block, tokenEmbd)
	x := t.Scale(t.Embed(b.embeddedTokens(t), b.embedding()), b.config.EmbdScale)
	if b.NEFTune != 0 {
		x = t.AddNoise(x, b.NEFTune, b.config.embdNoiseScale())
	}
	if s.tokenTypes != Never {
		x = place.addTokenTypes(t, x, s.tokenTypes)
	}
	if s.positions != Never {
		x = place.addPositions(t, x, s.positions)
	}
	switch s.embdNorm {
	case weightedNorm:
		x = place.Norm(t, tokenEmbdNorm, x)
	case bareNorm:
		x = t.Norm(x, place.normOf())
	}
	return x
}

// Logits returns the output [n_vocab, n] of x [n_embd, n].
func (b *Builder) Logits(t *nn.Tape, x *nn.Value) *nn.Value {
	c := b.config
	b.declareUnused()
	z := t.Linear(x, b.head())[0]
	switch {
	case b.spec().logitsTimesScale:
		z = t.Scale(z, c.LogitScale)
	case c.LogitScale != 0:
		z = t.Scale(z, 1/c.LogitScale)
	}
	z = t.Softcap(z, c.LogitSoftcap)
	if from, to := c.ImageTokens(); from < to {
		z = t.Hide(z, from, to)
	}
	return z
}

// TrainsHead reports whether the matrix of the logits, or an adapter on it, is trained.
func (b *Builder) TrainsHead(t *nn.Tape) bool { return t.TrainsMatrix(b.head()) }

// ImageTokens returns the ids, from the first to before the second, that a model of text never chooses, so that no loss can
// train them; equal ids if there are none.
func (c Config) ImageTokens() (from, to int) {
	if ids := c.spec().imageTokens; ids[1] <= c.Vocab {
		return ids[0], ids[1]
	}
	return 0, 0
}

// declareUnused declares tensors that files contain but no graph uses.
func (b *Builder) declareUnused() {
	s := b.spec()
	if s.unused != nil {
		for _, w := range s.unused(&b.config) {
			b.outside().Weight(w)
		}
	}
	if s.unusedInLayers == nil {
		return
	}
	for i := range b.NumBlocks() {
		p := b.in(i)
		for _, w := range s.unusedInLayers(&b.config) {
			w.Name = p.prefix + w.Name
			p.Weight(w)
		}
	}
}

// head returns the output matrix.
func (b *Builder) head() nn.Matrix {
	c := b.config
	if c.Tied {
		m := b.embedding()
		m.NoLoRA = true // adapters of a tied embedding act on the lookup only
		m.Bias = b.outside().bias(output, int64(c.Vocab), b.spec().outputBias)
		return m
	}
	o := MatrixOptions{Bias: b.spec().outputBias, NoLoRA: b.spec().outputNoLoRA}
	if !o.NoLoRA {
		o.Rows = []Rows{{Name: string(output), Module: b.spec().modules.unscaled(b.spec().modules.output()), Count: int64(c.Vocab)}}
	}
	return b.outside().Matrix(output, int64(c.Embd), int64(c.Vocab), o)
}

func (b *Builder) embedding() nn.Matrix {
	c := b.config
	w := Weight{Kind: tokenEmbd, Shape: []int64{int64(c.Embd), int64(c.Vocab)}, Role: Embedding, NoLoRA: b.spec().embdNoLoRA}
	if !w.NoLoRA {
		w.Rows = []Rows{{Name: string(tokenEmbd), Module: b.spec().modules.unscaled(b.spec().modules.embedding()), Count: int64(c.Vocab)}}
	}
	p := b.outside()
	return p.matrixOf(w)
}

// MatrixOptions are the differences between matrices of products.
type MatrixOptions struct {
	Bias     Presence
	OutScale bool   // an optional scale multiplies the product, adapters and bias together
	BiasLast bool   // the bias is added after that scale
	NoScale  bool   // a scale in the file is ignored
	Residual bool   // see [Weight]
	Named    bool   // see [Weight]
	KeepType bool   // see [Weight]
	NoLoRA   bool   // see [Weight]
	Stacked  bool   // see [Weight]
	Frozen   bool   // see [Weight]
	Rows     []Rows // nil stands for all rows under the matrix's own name
}

// Matrix declares a matrix [in, out], with its optional scale and bias.
func (p Place) Matrix(kind Kind, in, out int64, o MatrixOptions) nn.Matrix {
	switch {
	case o.NoLoRA:
		o.Rows = nil
	case o.Rows == nil:
		o.Rows = []Rows{p.rows(kind, out, 0)}
	}
	role := Scale
	switch {
	case o.NoScale:
		role = Unused
	case o.OutScale:
		role = OutScale
	}
	p.Weight(Weight{Kind: kind, Shape: []int64{1}, Role: Unused, Optional: true, Name: p.layerPrefix() + string(kind) + ".input_scale"})
	w := Weight{Kind: kind, Shape: []int64{in, out}, Role: Linear, Residual: o.Residual, Named: o.Named, KeepType: o.KeepType, NoLoRA: o.NoLoRA, Frozen: o.Frozen, Rows: o.Rows}
	w.Name = p.name(w)
	m := p.matrixOf(w)
	switch s := p.Weight(Weight{Kind: kind, Shape: []int64{1}, Role: role, Optional: true, Name: p.layerPrefix() + string(kind) + ".scale"}); role {
	case Scale:
		m.Scale = s
	case OutScale:
		m.OutScale = s
	}
	if bias := p.bias(kind, out, o.Bias); o.BiasLast {
		m.OutBias = bias
	} else {
		m.Bias = bias
	}
	return m
}

// matrixOf declares a matrix without scale and bias.
func (p Place) matrixOf(w Weight) nn.Matrix {
	return nn.Matrix{Name: p.name(w), W: p.Weight(w), Layer: p.block, Kind: w.Kind, NoLoRA: w.NoLoRA}
}

// layerPrefix is the prefix of weights that stock llama.cpp reads for each layer rather than each block.
func (p Place) layerPrefix() string {
	if p.Layer == p.block {
		return p.prefix
	}
	return p.spec().blockPrefix(p.Layer)
}

func (s *spec) blockPrefix(i int) string { return s.blockNames + blockPrefix(i) }

func blockPrefix(i int) string { return fmt.Sprintf("blk.%d.", i) }

// bias returns the bias of a product, or nil.
func (p Place) bias(kind Kind, out int64, there Presence) *ggml.Tensor {
	return p.biasOf(kind, []int64{out}, there)
}

// biasOf returns a bias of a shape, or nil.
func (p Place) biasOf(kind Kind, shape []int64, there Presence) *ggml.Tensor {
	if there == Never {
		return nil
	}
	return p.Weight(Weight{Kind: kind, Shape: shape, Role: Bias, Optional: there == Maybe})
}

// Weight declares a weight of the place; nil if an optional one is absent.
func (p Place) Weight(w Weight) *ggml.Tensor {
	w.Name, w.Layer = p.name(w), p.block
	w.KeepType = w.KeepType || slices.Contains(p.spec().kept, w.Kind)
	p.note(w)
	return p.Source(w.Name)
}

// name returns the name of a weight in files.
func (p Place) name(w Weight) string {
	switch {
	case w.Name != "":
		return w.Name
	case w.Role == Bias:
		return p.prefix + string(w.Kind) + ".bias"
	case slices.Contains(p.spec().unsuffixed, w.Kind):
		return p.prefix + string(w.Kind)
	}
	return p.prefix + string(w.Kind) + ".weight"
}

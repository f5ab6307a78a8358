package model

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// A Pass builds the graph of one pass through a model over a batch of token
// sequences of equal length, each from position 0.
type Pass struct {
	m         *Model
	deltas    Deltas
	exact     bool
	products  ggml.Type // of what is multiplied with weights that are not trained: F32 or BF16
	piece     int64     // tokens that go through a feed-forward network at a time; 0 is all
	length    int64     // tokens of a sequence
	batch     int64     // sequences
	positions *ggml.Tensor
	attention attention
	// keep is the number of tokens at the end that the last layer goes on with
	// once it has their keys and values; 0 is all. Not in training.
	keep int64

	// Generation on the CPU has products of its own: with few tokens, with many
	// where there is a library for tiles, and of adapters.
	cpu     bool
	tiles   bool
	adapted *adapted
	thin    map[string]*Var // A·x by group
}

// PassOptions describe a pass.
type PassOptions struct {
	Length, Batch int    // tokens of a sequence; sequences
	Deltas        Deltas // adapters
	// Trained names what is trained, with a tensor of the same shape for each
	// that the gradient is added to. nil builds no backward pass.
	Trained map[string]*ggml.Tensor
	// Checkpoint recomputes each layer in the backward pass instead of keeping
	// its intermediate results: a third slower, in a fraction of the memory. The
	// inputs of the layers are kept in BF16 where Products is; else to 18 bits, with
	// which gradients differ by about as much as F32's rounding makes them.
	Checkpoint bool
	// Products is the type of the products with weights that are not trained: F32,
	// the zero value, is exact; BF16 rounds both operands, F16 sums too, and either is
	// faster where it is the [kernels.FastestType]. Adapters are exact on the way forward in
	// any case; their gradients are products in BF16 too, but in F32 with F16.
	Products ggml.Type
	// HeadChunk is the number of tokens whose logits exist at a time; 0 is 128
	// with Checkpoint and 512 without: the fewer, the more often the matrix of the
	// head is read. There are at most 2³¹ logits at a time.
	HeadChunk int

	// FeedForwardChunk is the number of tokens that go through a feed-forward
	// network at a time with Checkpoint; 0 is 176.
	FeedForwardChunk int
}

// A LossGraph computes the loss of a batch, and adds its gradients to the
// accumulators.
type LossGraph struct {
	Graph     *ggml.Graph
	ctx       *ggml.Context
	allocator *ggml.GraphAllocator

	length, batch    int64
	tokens, position *ggml.Tensor // inputs
	heads            []headChunk
	vocab            int64
}

// headChunk is the part of the output that computes the loss of some tokens.
type headChunk struct {
	labels  *ggml.Tensor // [n] index of the label's probability in [vocab·n]
	weights *ggml.Tensor // [1, n] weight of each token in the loss
	probs   *ggml.Tensor // [1, n] probability of the label
}

// NewLossGraph builds the graph of the training loss and its gradients: the
// mean cross-entropy of the next token, weighted by token. Weights take part
// exact to the type of the products, whatever their own.
func (m *Model) NewLossGraph(o PassOptions) (*LossGraph, error) {
	if o.Length < 1 || o.Batch < 1 {
		return nil, fmt.Errorf("a batch of %d sequences of %d tokens is empty", o.Batch, o.Length)
	}
	if o.Products == ggml.F16 && !kernels.HasF16Accumulation() {
		return nil, errors.New("products of type f16 need oneMKL, which GOGGML_BLAS must name, and a processor with AVX512-FP16")
	}
	if o.Products != ggml.F32 && o.Products != ggml.BF16 && o.Products != ggml.F16 {
		return nil, fmt.Errorf("there are no products of type %v; they are f32, bf16 or f16", o.Products)
	}
	const most = 1 << 24 // tokens; far more than memory holds the activations of
	if o.Length > most || o.Batch > most/o.Length {
		return nil, fmt.Errorf("a batch of %d sequences of %d tokens is too large; use smaller batches, and more of them in a step", o.Batch, o.Length)
	}
	if o.HeadChunk <= 0 {
		o.HeadChunk = 512
		if o.Checkpoint {
			o.HeadChunk = 128
		}
	}
	o.HeadChunk = min(o.HeadChunk, o.Length*o.Batch, math.MaxInt32/m.Vocab) // labels count on through the logits
	c := ggml.NewContext()
	l := &LossGraph{
		Graph: c.NewGraph(), ctx: c,
		length: int64(o.Length), batch: int64(o.Batch), vocab: int64(m.Vocab),
	}
	n := l.length * l.batch
	l.tokens = c.NewTensor(ggml.I32, n).SetName("tokens").SetInput()
	l.position = c.NewTensor(ggml.I32, l.length).SetName("positions").SetInput()

	p := &Pass{
		m: m, deltas: o.Deltas, exact: true, products: o.Products, length: l.length, batch: l.batch,
		positions: l.position, attention: causal{},
	}
	if o.Checkpoint {
		p.piece = int64(cmp.Or(o.FeedForwardChunk, 176))
	}
	inputs := &keeper{c: c, g: l.Graph, products: o.Products, inputs: int64(m.Layers)}
	t := &tape{c: c, g: l.Graph, trained: o.Trained, inputs: inputs, acc: accPrecision(o.Products)}
	hidden := p.hidden(t, l.tokens, o.Checkpoint)
	l.head(p, t, hidden, int64(o.HeadChunk))
	t.backward()
	if err := c.Err(); err != nil {
		c.Close()
		return nil, err
	}
	return l, nil
}

// Close frees the graph. It never fails.
func (l *LossGraph) Close() error {
	l.allocator.Close()
	return l.ctx.Close()
}

// hidden computes the normalised residual stream [n_embd, n] after all layers.
func (p *Pass) hidden(t *tape, tokens *ggml.Tensor, checkpoint bool) *Var {
	x := p.embed(t, tokens)
	for layer := range p.m.Layers {
		block := func(t *tape, x *Var) *Var { return p.block(t, layer, x) }
		if checkpoint {
			x = t.checkpoint(x, block)
		} else {
			x = block(t, x)
		}
	}
	return p.norm(t, "output_norm.weight", x)
}

// block is one transformer layer.
func (p *Pass) block(t *tape, layer int, x *Var) *Var {
	m := p.m
	name := func(part string) string { return layerTensor(layer, part) }

	in := p.norm(t, name("attn_norm"), x)
	qkv := p.linears(t, in, name("attn_q"), name("attn_k"), name("attn_v"))
	q := p.rope(t, p.heads(t, qkv[0], m.Heads))
	k := p.rope(t, p.heads(t, qkv[1], m.KVHeads))
	out := p.attention.attend(p, t, layer, q, k, p.heads(t, qkv[2], m.KVHeads))
	if p.keep > 0 && layer == m.Layers-1 {
		x, out = t.last(x, p.keep), t.last(out, p.keep)
	}
	x = t.add(x, p.linear(t, name("attn_output"), out))

	return t.inPieces(x, p.piece, func(t *tape, x *Var) *Var {
		in := p.norm(t, name("ffn_norm"), x)
		both := p.linears(t, in, name("ffn_gate"), name("ffn_up"))
		return t.add(x, p.linear(t, name("ffn_down"), t.swiglu(both[0], both[1])))
	})
}

// last cuts x [m, n] to its last rows, without a gradient.
func (t *tape) last(x *Var, rows int64) *Var {
	skipped := (x.T.Dim(1) - rows) * x.T.Dim(0)
	return &Var{T: t.c.View(x.T, []int64{x.T.Dim(0), rows}, nil, skipped*4)}
}

// outputName is the tensor that makes logits.
func (m *Model) outputName() string {
	if m.Tied {
		return "token_embd.weight"
	}
	return "output.weight"
}

// logits returns the output [vocab, n] of x [n_embd, n].
func (p *Pass) logits(t *tape, x *Var) *Var {
	if !p.m.Tied {
		return p.linear(t, "output.weight", x)
	}
	// Adapters of a tied embedding act on the lookup only.
	w := p.matrix(p.m.outputName())
	y := &Var{T: p.product(t, kernels.Pair{W: w, X: p.operand(t, w, x)}), needs: x.needs || t.trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.flowProduct(x, w, p.operand(t, w, &Var{T: dy}))
		t.accumulateProduct(w, x.T, dy)
	})
	return y
}

// head computes the loss chunk by chunk, each with its gradient, so that the
// logits of the whole batch never exist.
func (l *LossGraph) head(p *Pass, t *tape, hidden *Var, chunk int64) {
	for _, s := range cut(l.length*l.batch, chunk) {
		x := &Var{T: columns(t.c, hidden.T, s), needs: hidden.needs}
		if dx := l.chunkLoss(p, t, x, s.to-s.from); dx != nil {
			hidden.grad = putColumns(t.c, hidden.grad, dx, hidden.T, s)
			t.g.Expand(hidden.grad)
		}
	}
}

func (l *LossGraph) chunkLoss(p *Pass, t *tape, x *Var, n int64) (dx *ggml.Tensor) {
	c := t.c
	h := headChunk{
		labels:  c.NewTensor(ggml.I32, n).SetName("labels").SetInput(),
		weights: c.NewTensor(ggml.F32, 1, n).SetName("weights").SetInput(),
	}
	// A tape of its own: the chunk runs back before the next one starts.
	own := &tape{c: c, g: t.g, trained: t.trained, acc: t.acc}
	logits := p.logits(own, x)
	probs := c.SoftMaxInPlace(logits.T)
	flat := c.Reshape(probs, 1, l.vocab*n)
	h.probs = c.GetRows(flat, h.labels).SetOutput()
	l.Graph.Expand(h.probs)
	l.heads = append(l.heads, h)
	if t.training() {
		// ∂(−w·log p_label)/∂logits = w·(p − onehot(label))
		less := c.SetRows(flat, c.ScaleBias(h.probs, 1, -1), h.labels)
		logits.grad = c.MulInPlace(c.Reshape(less, l.vocab, n), h.weights)
		own.backward()
		dx = own.gradient(x)
	}
	return dx
}

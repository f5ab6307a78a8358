package arch

import (
	"math"
	"slices"

	"github.com/goggml/ggml/internal/nn"
)

// LayerEmbedding adds W_out · (gelu(W_gate·x) ⊙ e), where e is the token's embedding for this layer (Gemma 3n's per-layer
// embeddings).
type LayerEmbedding struct{ Size int }

// String says what it is.
func (LayerEmbedding) String() string { return "embeddings for each layer" }

// Forward returns as many tokens as x has.
func (l LayerEmbedding) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	size, embd := int64(l.Size), int64(p.config.Embd)
	gate := t.Linear(x, p.Matrix("inp_gate", embd, size, MatrixOptions{NoScale: true}))[0]
	own := t.Contiguous(t.Reused(lastOf(t, p.beside.layerEmbeddings[p.Layer], x)))
	y := t.Mul(t.GELU(gate), own)
	return t.Linear(y, p.Matrix("proj", size, embd, MatrixOptions{NoScale: true, Residual: true}))[0]
}

const (
	layerEmbd     = "per_layer_token_embd"
	layerEmbdProj = "per_layer_model_proj"
	layerEmbdNorm = "per_layer_proj_norm"
)

// layerEmbeddings are the embeddings of the tokens for each layer [size, n]: rows of a second embedding, if the model has one, and what
// a matrix makes of the first, x [n_embd, n].
func (b *Builder) layerEmbeddings(t *nn.Tape, x *nn.Value) []*nn.Value {
	c, p := b.config, b.outside()
	if c.LayerEmbd == 0 {
		return nil
	}
	size, layers := int64(c.LayerEmbd), int64(c.Layers)
	var looked *nn.Value
	if !b.spec().ownLayerEmbd {
		embd := p.matrixOf(Weight{Kind: layerEmbd, Shape: []int64{size * layers, int64(c.Vocab)}, Role: Embedding, NoLoRA: true})
		looked = t.Scale(t.Embed(t.TokenIDs(b.NumTokens), embd), float32(math.Sqrt(float64(size))))
	}
	made := t.Linear(x, p.Matrix(layerEmbdProj, int64(c.Embd), size*layers, MatrixOptions{NoScale: true, KeepType: true, NoLoRA: true}))[0]
	made = t.Scale(made, float32(1/math.Sqrt(float64(c.Embd))))
	made = t.Flat(p.Norm(t, layerEmbdNorm, t.Heads(made, layers)))
	if looked != nil {
		made = t.Scale(t.Add(made, looked), float32(1/math.Sqrt2))
	}
	return t.Split(made, slices.Repeat([]int64{size}, c.Layers)...)
}

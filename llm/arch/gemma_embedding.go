package arch

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// Gemma's embedding models are its language models with bidirectional attention and a projection of the pooled states.
func init() {
	family(map[string]spec{
		"gemma-embedding": {
			rope: ggml.RoPENeoX, encoder: true, bidirectional: true, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead,
			keys:     append(windowKeys(6), localBase, projectionWidth, projectionInput, notCausal),
			complete: gemmaEmbedding, layer: gemma2Layer, project: gemmaProjection, unused: unusedOutput,
		},
		"gemma-embedding2": {
			rope: ggml.RoPENeoX, encoder: true, bidirectional: true, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead, perLayer: true, ffnScales: true, ownLayerEmbd: true,
			keys: slices.Concat(windowKeys(6), []key{
				localBase, ofLocal(localHeadSize, func(c *Config) *int { return &c.LocalHeadSize }, func(c *Config) int { return c.HeadSize }),
				ofLocal("attention.value_length_swa", func(c *Config) *int { return &c.LocalHeadSize }, func(c *Config) int { return c.LocalHeadSize }),
				ofLocal("rope.dimension_count_swa", func(c *Config) *int { return &c.LocalRoPEDims }, func(c *Config) int { return c.RoPE.Dims }),
				count("embedding_length_per_layer_input", func(c *Config) *int { return &c.LayerEmbd }),
				optional("embedding_length_out", func(c *Config) *int { return &c.VectorSize }, func(c *Config) int { return c.Embd }), notCausal,
			}),
			complete: gemma4Scales, layer: gemma2EmbeddingAttention, arrange: gemma4Layer, project: gemma2Projection,
		},
	})
}

// ofLocal is the key of a size of local layers; its default is the size of the other layers.
func ofLocal(name string, field func(c *Config) *int, fallback func(c *Config) int) key {
	return withWindow(optional(name, field, fallback))
}

// projectionWidth is the width between the two matrices of an optional projection.
var projectionWidth = optional("dense_2_feat_out", func(c *Config) *int { return &c.ProjectionWidth }, always(0))

// projectionInput is the same width, as the second matrix's input.
var projectionInput = key{
	name: "dense_3_feat_in",
	read: func(m *metadata, name string, c *Config) {
		if n := m.size(name, c.ProjectionWidth, true); n != c.ProjectionWidth {
			m.fault("%s.%s is %d, but %s is %d", m.arch, name, n, projectionWidth.name, c.ProjectionWidth)
		}
	},
	write: projectionWidth.write,
}

// gemmaProjection multiplies by two matrices, if the model has them.
func gemmaProjection(b *Builder, t *nn.Tape, x *nn.Value) *nn.Value {
	if b.config.ProjectionWidth == 0 {
		return x
	}
	return b.linear(t, b.linear(t, x, "dense_2", b.config.ProjectionWidth), "dense_3", b.config.Embd)
}

// gemma2Projection multiplies by the output's matrix.
func gemma2Projection(b *Builder, t *nn.Tape, x *nn.Value) *nn.Value {
	return b.linear(t, x, output, b.config.VectorSize)
}

// linear multiplies by a matrix without a bias, which is not adapted.
func (b *Builder) linear(t *nn.Tape, x *nn.Value, kind Kind, out int) *nn.Value {
	w := Weight{Kind: kind, Shape: []int64{x.T.Dim(0), int64(out)}, Role: Linear, NoLoRA: true}
	return t.Linear(x, b.outside().matrixOf(w))[0]
}

// gemma2EmbeddingAttention normalises values, and has local layers with heads and a RoPE of their own.
func gemma2EmbeddingAttention(c *Config, i int, a *Attention) {
	a.ValueNorm, a.FusedQKV = true, false
	if local(c, i, a) {
		c.setLocalRoPE(a)
		a.HeadSize, a.RoPE.Dims = c.LocalHeadSize, c.LocalRoPEDims
	}
}

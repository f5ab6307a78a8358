package arch

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"gemma4": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.GeGLU, qkNorm: PerHead, perLayer: true, valuesOfKeys: true, ffnScales: true,
			keys: gemma4Keys, complete: gemma4Scales, layer: gemma4Attention, arrange: gemma4Layer, unusedInLayers: unusedKV, modules: layerEmbeddingModules,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "router.proj"}, reads: readsWidth, scales: true},
		},
	})
}

const localHeadSize = "attention.key_length_swa"

var gemma4Keys = []key{
	count("attention.sliding_window", func(c *Config) *int { return &c.Window }),
	localLayers,
	derived(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, func(c *Config) float32 { return c.RoPE.FreqBase }),
	count(localHeadSize, func(c *Config) *int { return &c.LocalHeadSize }),
	{
		name: "attention.value_length_swa",
		read: func(m *metadata, name string, c *Config) {
			if n := m.size(name, 0, false); n != c.LocalHeadSize && n > 0 {
				m.fault("%s.%s is %d, but the length of keys is %d", m.arch, name, n, c.LocalHeadSize)
			}
		},
		write: func(c *Config) any { return uint32(c.LocalHeadSize) },
	},
	optional("rope.dimension_count_swa", func(c *Config) *int { return &c.LocalRoPEDims }, func(c *Config) int { return c.RoPE.Dims }),
	optional("attention.shared_kv_layers", func(c *Config) *int { return &c.SharedKVLayers }, always(0)),
	derived("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, constant(30)),
	{
		name:  "embedding_length_per_layer_input",
		read:  func(m *metadata, name string, c *Config) { c.LayerEmbd = m.size(name, 0, false) },
		write: func(c *Config) any { return uint32(c.LayerEmbd) },
	},
}

// localLayers is the list of local layers, which every file has.
var localLayers = key{
	name: "attention.sliding_window_pattern",
	read: func(m *metadata, name string, c *Config) {
		if _, isList := m.list(m.arch + "." + name); !isList {
			m.fault("%s.%s is not a list of the layers", m.arch, name)
			return
		}
		c.WindowPattern, c.LocalLayers = m.pattern(name, 0)
	},
	write: func(c *Config) any {
		local := make([]bool, c.Layers)
		for i := range local {
			local[i] = c.isLocal(i)
		}
		return local
	},
}

var layerEmbeddingModules = naming{matrices: map[Kind]string{"inp_gate": "per_layer_input_gate", "proj": "per_layer_projection"}}

// gemma4Scales sets the scale of scores to 1; files have no key for it.
func gemma4Scales(c *Config) {
	gemmaEmbedding(c)
	c.AttnScale = 1
}

// gemma4Attention has local layers with their own head size and RoPE, and frequency factors in the other layers. The last
// layers read the keys and values of the last layer of their kind that has its own.
func gemma4Attention(c *Config, i int, a *Attention) {
	a.ValueNorm, a.RoPEFactors = true, true
	if local(c, i, a) {
		c.setLocalRoPE(a)
		a.HeadSize, a.RoPE.Dims, a.RoPEFactors = c.LocalHeadSize, c.LocalRoPEDims, false
	}
	c.shareKV(i, a, c.Layers-c.SharedKVLayers)
	a.ValuesOfKeys = a.SharedKV == 0 && c.ValuesOfKeys != nil && c.ValuesOfKeys[i]
	a.FusedQKV = false // stock llama.cpp reads three
}

// shareKV makes all layers from first on read the keys and values of the two layers before it: local layers read layer
// first−2, the others layer first−1.
func (c *Config) shareKV(i int, a *Attention, first int) {
	if i < first {
		return
	}
	a.SharedKV, a.FusedQKV = LayersBack(i-first+1), false
	if c.isLocal(i) {
		a.SharedKV++
	}
}

// unusedKV are unused matrices of layers that read other layers' keys and values.
func unusedKV(*Config) []Weight {
	return []Weight{unused("attn_k.weight"), unused("attn_v.weight"), unused("attn_k_norm.weight")}
}

// gemma4Layer has experts beside the network, an embedding for the layer, and a factor.
func gemma4Layer(c *Config, i int, attention, network Residual) Layer {
	if e, ok := network.Part.(Experts); ok {
		network.Before, network.Part = "", BesideExperts{
			Network: Residual{Before: "ffn_norm", After: "post_ffw_norm_1", Tokenwise: true, Part: FeedForward{Width: at(c.FFs, i, c.FF), Act: e.Act, Scales: true}},
			Experts: Residual{Before: "pre_ffw_norm_2", After: "post_ffw_norm_2", Part: e},
		}
	}
	layer := Layer{attention, network}
	if c.LayerEmbd > 0 {
		layer = append(layer, Residual{Part: LayerEmbedding{c.LayerEmbd}, After: "post_norm"})
	}
	return append(layer, Residual{Part: LayerScale{}, Replaces: true})
}

// LayerScale multiplies the residual stream by a factor, if the file has one. It is not trained, as in transformers.
type LayerScale struct{}

// String says what it is.
func (LayerScale) String() string { return "layers with a factor" }

// Forward returns the product.
func (LayerScale) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	s := p.Weight(Weight{Kind: "layer_output_scale", Shape: []int64{1}, Role: Scale, Optional: true})
	if s == nil {
		return x
	}
	return t.MulInput(x, s)
}

// BesideExperts is the sum of a feed-forward network and experts, each with its own norms. The router sees their common
// input, normalised and scaled by element.
type BesideExperts struct{ Network, Experts Residual }

// Forward returns the sum of both.
func (b BesideExperts) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	e, embd := b.Experts.Part.(Experts), x.T.Dim(0)
	y := b.Network.apart(p.Part(0), t, x)
	norm := p.normOf()
	norm.Weight = p.Weight(Weight{Kind: e.Router.kind(), Name: p.prefix + string(e.Router.kind()) + ".scale", Shape: []int64{embd}, Role: Norm})
	seen := t.Scale(t.Norm(x, norm), float32(1/math.Sqrt(float64(embd))))
	ids, weights := e.Router.choose(p, t, e.Router.logits(p, t, seen))
	chosen := e.compute(p.Part(1), t, p.Norm(t, b.Experts.Before, x), ids, weights)
	return t.Add(y, p.Norm(t, b.Experts.After, chosen))
}

// Residuals returns both.
func (b BesideExperts) Residuals() []Residual { return []Residual{b.Network, b.Experts} }

package arch

import (
	"math"
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"hy_v4": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, mlaSizes, hunyuan4Keys, optionalIndexerKeys, []key{ownIndexers(allOwn)}), arrange: hunyuan4Layer, layerOrder: hyperOrder(streamGates),
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.router.gate"}, module: "mlp.shared_mlp",
				reads: readsWidths | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var hunyuan4Keys = []key{
	count("hyper_connection.count", func(c *Config) *int { return &c.Streams }),
	factor("hyper_connection.epsilon", func(c *Config) *float32 { return &c.StreamEps }, 0, true),
	factor("hyper_connection.magnitude", func(c *Config) *float32 { return &c.StreamMagnitude }, 0, true),
	clampKey("swiglu_clamp_exp", func(c *Config) *[]float32 { return &c.ExpertClamps }),
}

// allOwn says that each layer has an indexer.
func allOwn(*Config, int) bool { return true }

func streamGates(c *Config) StreamMixer { return StreamGates{c.StreamMagnitude, c.StreamEps} }

// hunyuan4Layer has gated latent attention with sinks, of keys that an indexer may choose, between several residual streams.
func hunyuan4Layer(c *Config, i int, attention, network Residual) Layer {
	l := latentAttention(c, attention.Part.(Attention))
	l.Scale, l.Gate, l.Sinks, l.NoOutputScale = float32(1/math.Sqrt(float64(l.KeySize))), SigmoidGate, true, true
	if c.IndexKeys > 0 {
		l.Indexer = c.indexer(i, l.RoPE, l.RoPE.Mode, c.RMSEps)
		l.Indexer.RotatesLast = true
	}
	attention.Part = l
	if e, ok := network.Part.(Experts); ok && c.ExpertClamps != nil {
		e.Limit = c.ExpertClamps[i]
		network.Part = e
	}
	return hyperConnected(Layer{attention, network}, c.Streams, streamGates(c))
}

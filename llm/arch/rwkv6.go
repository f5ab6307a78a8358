package arch

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

func init() {
	family(map[string]spec{
		"rwkv6": {
			noRoPE: true, norm: norming{layer: true, bias: Always}, norms: normBefore, ffnNorm: "attn_norm_2", embdNorm: weightedNorm, untied: true,
			keys: rwkv6Keys, arrange: rwkv6Layer, mayHave: []Kind{"time_mix_lerp_w"},
			modules: naming{root: "rwkv", layers: "blocks.%d.", embed: "embeddings", head: "head", matrices: map[Kind]string{
				"time_mix_receptance": "attention.receptance", "time_mix_key": "attention.key", "time_mix_value": "attention.value", "time_mix_gate": "attention.gate",
				"time_mix_output": "attention.output",
				"channel_mix_key": "feed_forward.key", "channel_mix_receptance": "feed_forward.receptance", "channel_mix_value": "feed_forward.value",
			}},
		},
		"rwkv6qwen2": {
			noRoPE: true, norms: normBefore, act: ggml.SwiGLU, untied: true,
			keys: slices.Concat([]key{tokenShifts}, rwkv6Keys), arrange: rwkv6qwen2Layer,
			modules: naming{matrices: map[Kind]string{
				"time_mix_receptance": "self_attn.q_proj", "time_mix_key": "self_attn.k_proj", "time_mix_value": "self_attn.v_proj", "time_mix_gate": "self_attn.gate",
				"time_mix_output": "self_attn.o_proj",
			}},
		},
	})
}

// TimeMix6 is the linear attention of RWKV 6 (arXiv 2404.05892), see [nn.RWKV6]. Each matrix has a mixture of its own of a token
// with the token before, which depends on both.
type TimeMix6 struct {
	Width, HeadSize    int // of all heads, and of each
	KVHeads            int // heads of keys and values, which the others share
	MixRank, DecayRank int // of the matrices that make mixtures and decays
	// Gated: gated linear attention, whose keys are as small as their decay is near 1. It has no norm of heads.
	Gated   bool
	Shifted bool // the layer's network reads the token before, too
	Apart   bool // files have a tensor of factors for each mixture, as older ones do
	Rescale int  // layers after which converters halve the output matrix; 0: never
}

// String describes the part.
func (TimeMix6) String() string { return "time mixing of RWKV 6" }

// Forward reads and changes the state of each head, token by token.
func (m TimeMix6) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, heads, kvHeads := int64(m.Width), int64(m.Width/m.HeadSize), int64(m.KVHeads)
	keys := kvHeads * int64(m.HeadSize)
	before := p.previous(t, x, 0)
	mixed := t.Lerp(x, before, p.Weight(factorWeight("time_mix_lerp_x", between(0, 1), embd, 1, 1)))[0]
	low := t.Tanh(t.Linear(mixed, p.Matrix("time_mix_w1", embd, 5*int64(m.MixRank), mixMatrix))[0])
	more := t.BatchLinear(low, p.Weight(factorWeight("time_mix_w2", nil, int64(m.MixRank), embd, 5)))
	x5 := m.mixtures(p, t, x, before, more)

	bias := Never
	if m.Gated {
		bias = Maybe
	}
	multiply := func(x *nn.Value, kind Kind, out int64, bias Presence) *nn.Value {
		return t.Linear(x, p.Matrix(kind, embd, out, MatrixOptions{NoScale: true, Bias: bias}))[0]
	}
	shared := func(x *nn.Value) *nn.Value { return t.RepeatHeads(t.Heads(x, kvHeads), heads/kvHeads) }
	decay := p.lowRank(t, x5[0], "time_mix_decay_w1", "time_mix_decay_w2", int64(m.DecayRank), embd, t.Tanh)
	decay = t.AddWeight(decay, p.Weight(p.offset("time_mix_decay", between(-6, -1), embd)))
	o := nn.RWKV6{
		K: shared(multiply(x5[1], "time_mix_key", keys, bias)), V: shared(multiply(x5[2], "time_mix_value", keys, bias)),
		R: t.Heads(multiply(x5[3], "time_mix_receptance", embd, bias), heads), G: t.Heads(t.Scale(t.Exp(decay), -1), heads),
		Rows: p.Rows, Packed: p.Packed,
	}
	gate := multiply(x5[4], "time_mix_gate", embd, Never)
	if m.Gated {
		o.K = t.Sub(o.K, t.Mul(o.K, t.Exp(o.G)))
	} else {
		o.First = p.Weight(factorWeight("time_mix_first", between(-0.5, 0.5), int64(m.HeadSize), heads))
	}
	y := recur(p, t, 1, o, t.RWKV6, nn.RWKV6Step)
	kept := func(x *nn.Value) *nn.Value {
		if m.Shifted {
			return x
		}
		return p.Kept(t, x)
	}
	if m.Gated {
		y = t.Mul(kept(t.Flat(y)), t.Sigmoid(kept(gate)))
	} else {
		y = t.Mul(kept(p.normedHeads(t, y)), t.SiLU(kept(gate)))
	}
	out := MatrixOptions{NoScale: true, Residual: true}
	if m.Rescale > 0 && p.Layer >= m.Rescale {
		out.Rows = p.withoutModule("time_mix_output", embd)
	}
	return t.Linear(y, p.Matrix("time_mix_output", embd, embd, out))[0]
}

// mixtures returns the mixtures of x and the token before for decays, keys, values, queries and gate.
func (m TimeMix6) mixtures(p Place, t *nn.Tape, x, before *nn.Value, more []*nn.Value) (list []*nn.Value) {
	embd := int64(m.Width)
	if !m.Apart {
		return t.Lerp(x, before, p.Weight(factorWeight("time_mix_lerp_fused", between(0, 1), embd, 1, 1, 5)), more...)
	}
	for i, kind := range []Kind{"time_mix_lerp_w", "time_mix_lerp_k", "time_mix_lerp_v", "time_mix_lerp_r", "time_mix_lerp_g"} {
		list = append(list, t.Lerp(x, before, p.Weight(factorWeight(kind, between(0, 1), embd, 1, 1)), more[i])...)
	}
	return list
}

// NewStates makes two states: the last token, and the heads' matrices.
func (m TimeMix6) NewStates(o state.Options) ([]state.State, error) {
	return recurrentStates(o, m.Width, 2, m.HeadSize*m.Width)
}

// Check reports sizes that are out of bounds or do not divide each other.
func (m TimeMix6) Check(c Config) []string {
	faults := c.sizeFaults([]sizeBound{
		{"wkv.head_size", m.HeadSize, 1 << 12}, {"time_mix_extra_dim", m.MixRank, maxWidth / 5}, {"time_decay_extra_dim", m.DecayRank, maxWidth},
	})
	switch {
	case m.HeadSize <= 0:
	case m.Width%m.HeadSize != 0:
		faults = append(faults, fmt.Sprintf("%s is %d, and does not divide %s, which is %d", c.key("wkv.head_size"), m.HeadSize, c.key("embedding_length"), m.Width))
	case m.KVHeads <= 0 || m.Width/m.HeadSize%m.KVHeads != 0:
		faults = append(faults, fmt.Sprintf("%s: %d heads cannot share %d KV heads", c.key("attention.head_count_kv"), m.Width/m.HeadSize, m.KVHeads))
	}
	if m.Rescale < 0 {
		faults = append(faults, fmt.Sprintf("%s is %d", c.key(rescaleKey), m.Rescale))
	}
	return faults
}

// MixingFLOPs counts a token's three operations on each head's state: decay, add, read.
func (m TimeMix6) MixingFLOPs(int) float64 { return 5 * float64(m.Width*m.HeadSize) }

const rescaleKey = "rescale_every_n_layers"

var rwkv6Keys = []key{
	count("wkv.head_size", func(c *Config) *int { return &c.StateSize }),
	count("time_mix_extra_dim", func(c *Config) *int { return &c.MixRank }),
	count("time_decay_extra_dim", func(c *Config) *int { return &c.DecayRank }),
	optional(rescaleKey, func(c *Config) *int { return &c.RescaleStep }, always(0)),
}

func (c *Config) timeMix6() TimeMix6 {
	m := TimeMix6{Width: c.Embd, HeadSize: c.StateSize, KVHeads: c.KVHeads, MixRank: c.MixRank, DecayRank: c.DecayRank}
	if m.KVHeads == 0 && m.HeadSize > 0 {
		m.KVHeads = m.Width / m.HeadSize
	}
	return m
}

// rwkv6Layer halves the residual stream after some layers.
func rwkv6Layer(c *Config, i int, attention, network Residual) Layer {
	m := c.timeMix6()
	m.Shifted, m.Rescale, m.Apart = true, c.RescaleStep, c.has("time_mix_lerp_w")
	attention.Part = m
	network.Part, network.Tokenwise = ChannelMix{Embd: c.Embd, Width: at(c.FFs, i, c.FF), Gated: true, Rescale: c.RescaleStep}, false
	if c.RescaleStep > 0 && (i+1)%c.RescaleStep == 0 {
		return Layer{attention, network, {Part: halved{}, Replaces: true, Tokenwise: true}}
	}
	return Layer{attention, network}
}

// rwkv6qwen2Layer has the feed-forward network of Qwen 2.
func rwkv6qwen2Layer(c *Config, _ int, attention, network Residual) Layer {
	m := c.timeMix6()
	m.Gated = true
	attention.Part = m
	return Layer{attention, network}
}

// halved is half of its input.
type halved struct{}

// String describes the part.
func (halved) String() string { return "half of the residual stream" }

// Forward returns x/2.
func (halved) Forward(_ Place, t *nn.Tape, x *nn.Value) *nn.Value { return t.Scale(x, 0.5) }

package arch

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

func init() {
	family(map[string]spec{
		"rwkv7": {
			noRoPE: true, norm: norming{layer: true, bias: Always}, norms: normBefore, ffnNorm: "attn_norm_2", embdNorm: weightedNorm, untied: true,
			keys: rwkv7Keys, arrange: rwkv7Layer, unused: unusedFirstValues,
			modules: naming{embed: "embeddings", matrices: map[Kind]string{
				"time_mix_receptance": "attn.r_proj", "time_mix_key": "attn.k_proj", "time_mix_value": "attn.v_proj", "time_mix_output": "attn.o_proj",
				"channel_mix_key": "ffn.key", "channel_mix_value": "ffn.value",
			}},
		},
		"arwkv7": {
			noRoPE: true, norms: normBefore, act: ggml.SwiGLU, untied: true,
			keys: append([]key{tokenShifts}, rwkv7Keys...), arrange: arwkv7Layer, mayHave: []Kind{"time_mix_g1", "time_mix_ln"}, unused: unusedFirstValues,
			modules: naming{matrices: map[Kind]string{
				"time_mix_receptance": "self_attn.time_mixer.receptance", "time_mix_key": "self_attn.time_mixer.key",
				"time_mix_value": "self_attn.time_mixer.value", "time_mix_output": "self_attn.time_mixer.output",
			}},
		},
	})
}

// TimeMix7 is the linear attention of RWKV 7 (arXiv 2503.14456), see [nn.RWKV7]. Each matrix has a mixture of its own of a token
// with the token before.
type TimeMix7 struct {
	Width, HeadSize int // of all heads, and of each
	// Ranks of the matrices that make decays, learning rates, the share of the first layer's values, and the gate. 0 gates nothing.
	DecayRank, RateRank, ValueRank, GateRank int
	Normed                                   bool       // what each head reads is normalised
	Shifted                                  bool       // the layer's network reads the token before, too
	First                                    LayersBack // the layer whose values are mixed in
}

// String describes the part.
func (TimeMix7) String() string { return "time mixing of RWKV 7" }

// Forward reads and changes the state of each head, token by token.
func (m TimeMix7) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, mixtures := int64(m.Width), int64(5)
	heads := embd / int64(m.HeadSize)
	if m.GateRank > 0 {
		mixtures = 6
	}
	lerp := p.Weight(factorWeight("time_mix_lerp_fused", between(0, 1), embd, 1, 1, mixtures))
	x6 := t.Lerp(x, p.previous(t, x, 0), lerp)
	multiply := func(x *nn.Value, kind Kind) *nn.Value {
		return t.Linear(x, p.Matrix(kind, embd, embd, MatrixOptions{NoScale: true}))[0]
	}
	factors := func(x *nn.Value, kind Kind, low, high float32) *nn.Value {
		return t.MulWeight(x, p.Weight(factorWeight(kind, between(low, high), embd)))
	}
	r := multiply(x6[0], "time_mix_receptance")
	decay := t.AddWeight(p.lowRank(t, x6[1], "time_mix_w1", "time_mix_w2", int64(m.DecayRank), embd, t.Tanh), p.Weight(p.offset("time_mix_w0", between(-6, -1), embd)))
	k := multiply(x6[2], "time_mix_key")
	v := m.withFirst(p, t, x6[3], multiply(x6[3], "time_mix_value"))
	rate := t.Sigmoid(t.AddWeight(p.lowRank(t, x6[4], "time_mix_a1", "time_mix_a2", int64(m.RateRank), embd, nil), p.Weight(p.offset("time_mix_a0", between(-0.5, 0.5), embd))))
	unit := t.L2Norm(t.Heads(factors(k, "time_mix_k_k", 0.5, 1), heads), 1e-12)
	slow := factors(k, "time_mix_k_a", 0.9, 1.1)
	k = t.Add(k, t.Sub(t.Mul(rate, slow), slow))

	o := nn.RWKV7{
		R: t.Heads(r, heads), K: t.Heads(k, heads), V: t.Heads(v, heads), G: t.Heads(t.Scale(t.Sigmoid(decay), -float32(math.Exp(-0.5))), heads),
		A: t.Scale(unit, -1), B: t.Mul(unit, t.Heads(rate, heads)), Rows: p.Rows, Packed: p.Packed,
	}
	y := recur(p, t, 1, o, t.RWKV7, nn.RWKV7Step)
	if m.Normed {
		y = p.normedHeads(t, y)
	} else {
		y = t.Flat(y)
	}
	own := t.Dots(t.Heads(factors(k, "time_mix_r_k", -0.1, 0.1), heads), o.R) // what a token reads of itself
	y = m.kept(p, t, t.Add(y, t.Flat(t.Mul(o.V, own))))
	if m.GateRank > 0 {
		y = t.Mul(y, m.kept(p, t, p.lowRank(t, x6[5], "time_mix_g1", "time_mix_g2", int64(m.GateRank), embd, t.Sigmoid)))
	}
	return t.Linear(y, p.Matrix("time_mix_output", embd, embd, MatrixOptions{NoScale: true, Residual: true}))[0]
}

// kept is [Place.Kept] unless the layer's network needs all tokens.
func (m TimeMix7) kept(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	if m.Shifted {
		return x
	}
	return p.Kept(t, x)
}

// withFirst mixes the first layer's values into the values v of x.
func (m TimeMix7) withFirst(p Place, t *nn.Tape, x, v *nn.Value) *nn.Value {
	if m.First == 0 {
		p.beside.firstValues = t.Expose(v)
		return v
	}
	embd := int64(m.Width)
	share := t.AddWeight(p.lowRank(t, x, "time_mix_v1", "time_mix_v2", int64(m.ValueRank), embd, nil), p.Weight(p.offset("time_mix_v0", between(0.5, 1), embd)))
	return t.Add(v, t.Mul(t.Sub(t.Reused(p.beside.firstValues), v), t.Sigmoid(share)))
}

func (m TimeMix7) reads() LayersBack { return m.First }

// NewStates makes two states: the last token, and the heads' matrices.
func (m TimeMix7) NewStates(o state.Options) ([]state.State, error) {
	return recurrentStates(o, m.Width, 2, m.HeadSize*m.Width)
}

// Check reports heads of sizes that ggml does not compute, and ranks that are out of bounds.
func (m TimeMix7) Check(c Config) []string {
	faults := c.sizeFaults([]sizeBound{
		{"wkv.head_size", m.HeadSize, 1 << 12}, {"attention.decay_lora_rank", m.DecayRank, maxWidth}, {"attention.iclr_lora_rank", m.RateRank, maxWidth},
		{"attention.value_residual_mix_lora_rank", m.ValueRank, maxWidth},
	})
	if m.GateRank < 0 || m.GateRank > maxWidth {
		faults = append(faults, fmt.Sprintf("%s is %d", c.key("attention.gate_lora_rank"), m.GateRank))
	}
	if m.HeadSize > 0 && (m.HeadSize%64 != 0 || m.Width%m.HeadSize != 0) {
		faults = append(faults, fmt.Sprintf("%s is %d; it must be a multiple of 64 that divides %s, which is %d", c.key("wkv.head_size"), m.HeadSize, c.key("embedding_length"), c.Embd))
	}
	return faults
}

// MixingFLOPs counts a token's four operations on each head's state: read, correct, add, read.
func (m TimeMix7) MixingFLOPs(int) float64 { return 8 * float64(m.Width*m.HeadSize) }

var rwkv7Keys = []key{
	count("wkv.head_size", func(c *Config) *int { return &c.StateSize }),
	count("attention.decay_lora_rank", func(c *Config) *int { return &c.DecayRank }),
	count("attention.iclr_lora_rank", func(c *Config) *int { return &c.RateRank }),
	count("attention.value_residual_mix_lora_rank", func(c *Config) *int { return &c.ValueRank }),
	optional("attention.gate_lora_rank", func(c *Config) *int { return &c.GateRank }, always(0)),
}

// tokenShifts is the number of parts of a layer that read the token before, which stock llama.cpp takes for 2 without the key.
var tokenShifts = key{name: "token_shift_count", read: func(*metadata, string, *Config) {}, write: func(*Config) any { return uint32(1) }}

func (c *Config) timeMix7(i int) TimeMix7 {
	return TimeMix7{
		Width: c.Embd, HeadSize: c.StateSize, DecayRank: c.DecayRank, RateRank: c.RateRank, ValueRank: c.ValueRank, GateRank: c.GateRank, Normed: true, First: LayersBack(i),
	}
}

func rwkv7Layer(c *Config, i int, attention, network Residual) Layer {
	m := c.timeMix7(i)
	m.Shifted = true
	attention.Part = m
	network.Part, network.Tokenwise = ChannelMix{Embd: c.Embd, Width: at(c.FFs, i, c.FF)}, false
	return Layer{attention, network}
}

// arwkv7Layer has the feed-forward network of Qwen 2.
func arwkv7Layer(c *Config, i int, attention, network Residual) Layer {
	m := c.timeMix7(i)
	m.Normed = c.has("time_mix_ln")
	if !c.has("time_mix_g1") {
		m.GateRank = 0
	}
	attention.Part = m
	return Layer{attention, network}
}

// unusedFirstValues are weights of the first layer, whose values are the first.
func unusedFirstValues(c *Config) []Weight {
	list := []Weight{
		unused("blk.0.time_mix_v0.weight", c.Embd), unused("blk.0.time_mix_v1.weight", c.Embd, c.RateRank), unused("blk.0.time_mix_v2.weight", c.RateRank, c.Embd),
	}
	for i := range list {
		list[i].KeepType = true
	}
	return list
}

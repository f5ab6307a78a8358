package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

func init() {
	family(map[string]spec{
		"mamba": {noRoPE: true, norms: normBefore, keys: append([]key{bareScanNorms}, scanKeys...), arrange: mambaAlone, modules: mixerModules, unsuffixed: scanTensors},
		"jamba": {
			noRoPE: true, norms: normBefore, act: ggml.SwiGLU, perLayer: true, keys: scanKeys, complete: jambaExperts, arrange: mambaLayer, modules: jambaModules, unsuffixed: scanTensors,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Module: "feed_forward.router"}},
		},
		"plamo2": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.SwiGLU, fusedGateUp: Always, qkNorm: EachHead, noQKVScale: true, perLayer: true, keys: append(scanKeys, noGroups), arrange: plamo2Layer,
			unsuffixed: append([]Kind{"post_attention_norm", "post_ffw_norm", "ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"}, scanTensors...), modules: plamo2Modules,
		},
	})
}

// Mamba is a selective scan (arXiv 2312.00752). A matrix makes x and a gate, a convolution mixes x, and two matrices make
// B, C and the steps from it.
type Mamba struct {
	ScanSizes
	StepRank  int  // rank of the steps
	Norms     bool // B, C and the low-rank steps are normalised
	BareNorms bool // these norms have no weights
	// ByHead: all elements of a head have one decay, and the gate of each head precedes its x (PLaMo 2). Otherwise each
	// channel is a head, and each element of its state has its own decay.
	ByHead bool
}

// mamba returns the scan of a model whose channels are heads.
func (c *Config) mamba() Mamba {
	return Mamba{ScanSizes: ScanSizes{Inner: c.Inner, Heads: c.Inner, Groups: 1, StateSize: c.StateSize, ConvLength: c.ConvLength}, StepRank: c.StateHeads}
}

// String says what it is.
func (m Mamba) String() string {
	if m.ByHead {
		return "Mamba by heads"
	}
	return "Mamba"
}

// Forward reads and changes the state of each head, token by token.
func (m Mamba) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, inner, heads, rank := int64(p.config.Embd), int64(m.Inner), int64(m.Heads), int64(m.StepRank)
	in := t.Linear(x, p.Matrix("ssm_in", embd, 2*inner, MatrixOptions{NoScale: m.ByHead}))[0]
	var z *nn.Value
	bias := Always
	if m.ByHead {
		parts := t.SplitGroups(in, heads, inner/heads, inner/heads)
		z, x, bias = parts[0], parts[1], Never
	} else {
		parts := t.Split(in, inner, inner)
		x, z = parts[0], parts[1]
	}
	x = m.convolve(p, t, x, bias)
	b, c, dt := m.made(p, t, x)
	steps := p.Matrix("ssm_dt", rank, heads, MatrixOptions{NoScale: true})
	steps.Bias = p.Weight(Weight{Kind: "ssm_dt", Shape: []int64{heads}, Role: Bias, Init: stepBiases})
	y := m.scan(p, t, x, b, c, t.Linear(dt, steps)[0], []int64{heads}, !m.ByHead)
	return t.Linear(gated(p, t, z, y), p.Matrix("ssm_out", inner, embd, MatrixOptions{NoScale: m.ByHead, Residual: true}))[0]
}

// made returns B, C and the low-rank steps.
func (m Mamba) made(p Place, t *nn.Tape, x *nn.Value) (b, c, dt *nn.Value) {
	states, rank := int64(m.StateSize), int64(m.StepRank)
	all := t.Linear(x, p.Matrix("ssm_x", int64(m.Inner), rank+2*states, MatrixOptions{NoScale: true}))[0]
	if m.ByHead {
		parts := t.Split(all, states, states, rank)
		b, c, dt = parts[0], parts[1], parts[2]
	} else {
		parts := t.Split(all, rank, states, states)
		dt, b, c = parts[0], parts[1], parts[2]
	}
	normal := func(kind Kind, x *nn.Value) *nn.Value {
		x = t.Contiguous(x)
		if !m.Norms {
			return x
		}
		n := p.normOf()
		if !m.BareNorms {
			n.Weight = p.Weight(Weight{Kind: kind, Shape: []int64{x.T.Dim(0)}, Role: Norm})
		}
		return t.Norm(x, n)
	}
	return normal("ssm_b_norm", b), normal("ssm_c_norm", c), normal("ssm_dt_norm", dt)
}

// NewStates makes two states: the last inputs of the convolution, and the heads' states.
func (m Mamba) NewStates(o state.Options) ([]state.State, error) { return m.newStates(o, m.Inner) }

// Check reports heads whose sizes differ.
func (m Mamba) Check(c Config) []string { return m.check(c, m.StepRank) }

// mambaAlone is a layer with a scan only.
func mambaAlone(c *Config, _ int, mixer, _ Residual) Layer {
	m := c.mamba()
	m.Norms, m.BareNorms = c.BareScanNorms, c.BareScanNorms
	mixer.Part = m
	return Layer{mixer}
}

// mambaLayer has a scan in layers without keys and values.
func mambaLayer(c *Config, _ int, attention, network Residual) Layer {
	if attention.Part.(Attention).KVHeads == 0 {
		m := c.mamba()
		m.Norms = true
		attention.Part = m
	}
	return Layer{attention, network}
}

// plamo2Layer has a scan whose elements decay by heads in layers without keys and values.
func plamo2Layer(c *Config, _ int, attention, network Residual) Layer {
	if a := attention.Part.(Attention); a.KVHeads == 0 {
		m := c.mamba()
		m.Heads, m.StepRank, m.Norms, m.ByHead = c.StateHeads, max(64, c.Embd/16), true, true
		attention.Part = m
	}
	return Layer{attention, network}
}

// bareScanNorms: B, C and the low-rank steps have norms without weights.
var bareScanNorms = key{
	name: "ssm.dt_b_c_rms",
	read: func(m *metadata, name string, c *Config) { c.BareScanNorms = value(m, m.arch+"."+name, false, true) },
	write: func(c *Config) any {
		if !c.BareScanNorms {
			return nil
		}
		return true
	},
}

// noGroups is a key that stock llama.cpp requires; its value is 0.
var noGroups = key{name: "ssm.group_count", read: func(*metadata, string, *Config) {}, write: func(*Config) any { return uint32(0) }}

// jambaExperts puts experts into every second layer; files have no key for it.
func jambaExperts(c *Config) {
	if c.Experts > 0 {
		c.ExpertStep = 2
	}
}

var (
	jambaModules = naming{matrices: map[Kind]string{
		"ssm_in": "mamba.in_proj", "ssm_out": "mamba.out_proj", "ssm_x": "mamba.x_proj", "ssm_dt": "mamba.dt_proj",
		"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj",
	}}
	plamo2Modules = naming{layers: "layers.layers.%d.", matrices: map[Kind]string{
		"attn_q": "mixer.qkv_proj", "attn_k": "mixer.qkv_proj", "attn_v": "mixer.qkv_proj", "attn_output": "mixer.o_proj",
		"ssm_in": "mixer.in_proj", "ssm_out": "mixer.out_proj", "ssm_x": "mixer.bcdt_proj", "ssm_dt": "mixer.dt_proj",
		"ffn_gate": "mlp.gate_up_proj", "ffn_up": "mlp.gate_up_proj",
	}}
)

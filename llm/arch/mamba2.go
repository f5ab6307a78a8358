package arch

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

func init() {
	keys := slices.Concat(scanKeys, []key{scanGroups})
	family(map[string]spec{
		"mamba2": {noRoPE: true, norms: normBefore, keys: keys, arrange: mamba2Alone, modules: mixerModules, unsuffixed: scanTensors},
		"falcon-h1": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, ffnBias: Maybe, keys: keys, arrange: mamba2Beside, modules: naming{scaled: true},
			unsuffixed: append([]Kind{"ffn_norm"}, scanTensors...), unused: unusedFactors, unusedInLayers: unusedAttentionBias,
		},
	})
}

// Mamba2 is a selective scan with one decay for each head (arXiv 2405.21060). One matrix makes the gate, the input of the
// convolution, and the steps.
type Mamba2 struct {
	ScanSizes
	Norm Presence // norm of each group of the gated result
}

// mamba2 is the scan of a model.
func (c *Config) mamba2(norm Presence) Mamba2 {
	return Mamba2{ScanSizes{Inner: c.Inner, Heads: c.StateHeads, Groups: c.StateKHeads, StateSize: c.StateSize, ConvLength: c.ConvLength}, norm}
}

// String says what it is.
func (Mamba2) String() string { return "Mamba-2" }

// convolved is the width of the convolution: x, B and C.
func (m Mamba2) convolved() int { return m.Inner + 2*m.Groups*m.StateSize }

// Forward reads and changes the state of each head, token by token.
func (m Mamba2) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, inner, heads, shared, convolved := int64(p.config.Embd), int64(m.Inner), int64(m.Heads), int64(m.Groups*m.StateSize), int64(m.convolved())
	in := t.Linear(x, p.Matrix("ssm_in", embd, inner+convolved+heads, MatrixOptions{}))[0]
	parts := t.Split(in, inner, convolved, heads)
	z := parts[0]
	of := t.Split(m.convolve(p, t, parts[1], Maybe), inner, shared, shared)
	dt := t.AddWeight(t.Contiguous(parts[2]), p.Weight(Weight{Kind: "ssm_dt", Shape: []int64{heads}, Role: Bias, Init: stepBiases}))
	y := m.scan(p, t, of[0], of[1], of[2], dt, []int64{1, heads}, false)
	y = m.norm(p, t, gated(p, t, z, y))
	return t.Linear(y, p.Matrix("ssm_out", inner, embd, MatrixOptions{Residual: true}))[0]
}

// norm normalises each group of y [inner, n], if the model has the weights.
func (m Mamba2) norm(p Place, t *nn.Tape, y *nn.Value) *nn.Value {
	groups := int64(m.Groups)
	w := p.Weight(Weight{Kind: "ssm_norm", Shape: []int64{int64(m.Inner) / groups, groups}, Role: Norm, Optional: m.Norm == Maybe})
	if w == nil {
		return y
	}
	n := p.normOf()
	n.Weight = w
	return t.Flat(t.Norm(t.Heads(y, groups), n))
}

// NewStates makes two states: the last inputs of the convolution, and the heads' states.
func (m Mamba2) NewStates(o state.Options) ([]state.State, error) {
	return m.newStates(o, m.convolved())
}

// Check reports heads whose sizes differ, and groups of different numbers of heads.
func (m Mamba2) Check(c Config) []string { return m.check(c, m.Heads) }

// mamba2Alone is a layer with a scan only.
func mamba2Alone(c *Config, _ int, mixer, _ Residual) Layer {
	mixer.Part = c.mamba2(Always)
	return Layer{mixer}
}

// mamba2Layer has a scan in layers without keys and values.
func mamba2Layer(c *Config, _ int, attention, network Residual) Layer {
	if attention.Part.(Attention).KVHeads == 0 {
		attention.Part = c.mamba2(Always)
	}
	return Layer{attention, network}
}

// mamba2Beside lets a scan and attention see the same norm of x, and adds both.
func mamba2Beside(c *Config, _ int, attention, network Residual) Layer {
	norm := attention.Before
	attention.Before = ""
	return Layer{{Before: norm, Part: Parallel{{Part: c.mamba2(Maybe)}, attention}}, network}
}

// unusedAttentionBias is a bias that stock llama.cpp reads and does not use.
func unusedAttentionBias(c *Config) []Weight { return []Weight{unused("attn_output.bias", c.Embd)} }

// mixerModules are the modules of models whose layers have a mixer each.
var mixerModules = naming{root: "backbone", embed: "embeddings", matrices: map[Kind]string{
	"ssm_in": "mixer.in_proj", "ssm_out": "mixer.out_proj", "ssm_x": "mixer.x_proj", "ssm_dt": "mixer.dt_proj",
}}

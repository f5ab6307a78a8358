package arch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// DeltaNet is linear attention by the gated delta rule (arXiv 2412.06464), see [nn.DeltaRule]. A short convolution mixes
// queries, keys and values with the tokens before.
type DeltaNet struct {
	Heads, KHeads, HeadSize int // heads of values, of queries and keys, and the size of all
	ConvLength              int
	// Grouped: heads that share queries and keys are adjacent, one matrix makes β and decay of a group, and scales of the
	// matrices are ignored.
	Grouped bool
	// SigmoidGate: the output gate is a sigmoid, not SiLU.
	SigmoidGate bool
}

// String describes the part.
func (DeltaNet) String() string { return "layers of the gated delta rule" }

// Forward reads and changes the state of each head, token by token.
func (d DeltaNet) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, size, heads, kHeads := int64(p.config.Embd), int64(d.HeadSize), int64(d.Heads), int64(d.KHeads)
	keys, values := kHeads*size, heads*size
	matrix := func(kind Kind, out int64) nn.Matrix {
		return p.Matrix(kind, embd, out, MatrixOptions{NoScale: d.Grouped, Rows: d.rows(p, kind, out)})
	}
	matrices := []nn.Matrix{matrix("attn_qkv", 2*keys+values), matrix("attn_gate", values)}
	if d.Grouped {
		matrices = append(matrices, matrix("ssm_ba", 2*heads))
	} else {
		matrices = append(matrices, matrix("ssm_beta", heads), matrix("ssm_alpha", heads))
	}
	made := t.Linear(x, matrices...)
	qkv, z, numbers := made[0], made[1], made[2:]
	if d.Grouped {
		numbers = t.SplitGroups(numbers[0], kHeads, heads/kHeads, heads/kHeads)
	}

	rule := nn.DeltaRule{Beta: t.Sigmoid(numbers[0]), G: d.decay(p, t, numbers[1]), Rows: p.Rows, Packed: p.Packed}
	mix := nn.Convolution{Kernel: p.kernel("ssm_conv1d", d.ConvLength, 2*keys+values), Step: 1, SiLU: true}
	parts := t.Split(p.convolve(t, qkv, mix, 0), keys, keys, values)
	rule.Q, rule.K, rule.V, rule.Unit = t.Heads(parts[0], kHeads), t.Heads(parts[1], kHeads), t.Heads(parts[2], heads), p.config.RMSEps
	if d.Grouped {
		rule.Q, rule.K = t.RepeatHeads(rule.Q, heads/kHeads), t.RepeatHeads(rule.K, heads/kHeads)
	}
	n := p.normOf()
	n.Weight = p.Weight(Weight{Kind: "ssm_norm", Shape: []int64{size}, Role: Norm})
	y := t.Flat(t.Norm(recur(p, t, 1, rule, t.GatedDelta, nn.GatedDeltaStep), n))
	out := p.Matrix("ssm_out", values, embd, MatrixOptions{NoScale: d.Grouped, Residual: true, Rows: d.rows(p, "ssm_out", embd)})
	if d.SigmoidGate {
		return t.Linear(t.Mul(p.Kept(t, y), t.Sigmoid(p.Kept(t, z))), out)[0]
	}
	return t.Linear(gated(p, t, z, y), out)[0]
}

// rows describes the rows of a matrix [in, out], whose last rows belong to heads. If transformers groups the matrix by key
// heads, its rows match no module.
func (d DeltaNet) rows(p Place, kind Kind, out int64) []Rows {
	all := p.rows(kind, out, 0)
	tiles := Tiling{d.KHeads, d.Heads / d.KHeads}
	switch {
	case d.Grouped && (kind == "attn_qkv" || kind == "attn_gate"):
		all.Module = ""
	case d.Grouped || tiles.Each == 1:
	case kind == "ssm_out":
		all.TiledInputs = tiles
	case kind == "attn_qkv":
		keys, values := all, all
		keys.Name, keys.Count = p.prefix+"attn_qk", 2*int64(d.KHeads*d.HeadSize)
		values.Name, values.Count, values.Tiled = p.prefix+"attn_v", out-keys.Count, tiles
		return []Rows{keys, values}
	default:
		all.Tiled = tiles
	}
	return []Rows{all}
}

// decay returns the logarithm of the state's decay, [heads, n].
func (d DeltaNet) decay(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	heads := int64(d.Heads)
	x = t.AddWeight(x, p.bias("ssm_dt", heads, Always))
	return t.MulWeight(t.Softplus(x), p.Weight(Weight{Kind: "ssm_a", Shape: []int64{heads}, Role: Decay, Init: decays}))
}

// decays draws initial decay rates between 1 and 16, as transformers does.
func decays(rng *rand.Rand, values []float32) {
	for i := range values {
		values[i] = -float32(1 + 15*rng.Float64())
	}
}

// NewStates makes two states: the last inputs of the convolution, and the heads' matrices.
func (d DeltaNet) NewStates(o state.Options) ([]state.State, error) {
	return recurrentStates(o, d.HeadSize*(d.Heads+2*d.KHeads), d.ConvLength, d.HeadSize*d.HeadSize*d.Heads)
}

// Check reports heads whose sizes differ or that cannot share queries and keys.
func (d DeltaNet) Check(c Config) (faults []string) {
	faults = c.sizeFaults([]sizeBound{
		{"ssm.state_size", d.HeadSize, 1 << 12}, {"ssm.time_step_rank", d.Heads, 1 << 12}, {"ssm.group_count", d.KHeads, 1 << 12}, {"ssm.conv_kernel", d.ConvLength, math.MaxInt16},
	})
	if len(faults) > 0 {
		return faults
	}
	if d.Heads%d.KHeads != 0 {
		faults = append(faults, fmt.Sprintf("%s: %d heads cannot share the queries and keys of %d heads", c.key("ssm.group_count"), d.Heads, d.KHeads))
	}
	if c.Inner != d.Heads*d.HeadSize {
		faults = append(faults, fmt.Sprintf("%s is %d, not %d heads times %d elements", c.key("ssm.inner_size"), c.Inner, d.Heads, d.HeadSize))
	}
	return faults
}

// MixingFLOPs counts a token's three operations on each head's state: subtract the key's reading, add, read.
func (d DeltaNet) MixingFLOPs(int) float64 { return 6 * float64(d.Heads*d.HeadSize*d.HeadSize) }

const (
	recurrentLayers = "attention.recurrent_layers"
	nextLayers      = "nextn_predict_layers"
)

// deltaKeys are the keys of models with a DeltaNet in most layers.
var deltaKeys = []key{
	count("ssm.conv_kernel", func(c *Config) *int { return &c.ConvLength }),
	count("ssm.inner_size", func(c *Config) *int { return &c.Inner }),
	count("ssm.state_size", func(c *Config) *int { return &c.StateSize }),
	count("ssm.time_step_rank", func(c *Config) *int { return &c.StateHeads }),
	count("ssm.group_count", func(c *Config) *int { return &c.StateKHeads }),
	optional("full_attention_interval", func(c *Config) *int { return &c.AttentionStep }, always(4)),
	nextLayersKey,
	recurrentFlags,
}

// nextLayersKey is the number of the last layers, which predict several tokens ahead and are not computed.
var nextLayersKey = key{
	name: nextLayers,
	read: func(m *metadata, name string, c *Config) {
		n := m.size(name, 0, true)
		if n < 0 || n >= max(c.Layers, 1) {
			m.fault("%s.%s is %d, but there are %d layers", m.arch, name, n, c.Layers)
			return
		}
		c.NextLayers, c.Layers = n, c.Layers-n
	},
	write: optional(nextLayers, func(c *Config) *int { return &c.NextLayers }, nil).write,
}

// recurrentFlags says of each layer whether it has a recurrence.
var recurrentFlags = key{
	name: recurrentLayers,
	read: func(m *metadata, name string, c *Config) {
		if list := m.flags(name); list != nil {
			c.Recurrent = list[:min(c.Layers, len(list))]
		}
	},
	write: func(c *Config) any {
		if c.Recurrent == nil {
			return nil
		}
		return append(slices.Clone(c.Recurrent), make([]bool, c.NextLayers)...)
	},
}

// unusedNext are the weights of layers for multi-token prediction, and other tensors beside the model in files of Qwen3.5.
func unusedNext(c *Config) []Weight {
	return slices.Concat([]Weight{unused("cls.output.weight", c.Embd, 1), unused("cls.output.bias")},
		unusedNextLayers(c, "attn_norm", "post_attention_norm", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "attn_q_norm", "attn_k_norm", "ffn_gate_inp_shexp"))
}

// unusedNextLayers are the weights of layers for multi-token prediction: these kinds, and networks.
func unusedNextLayers(c *Config, kinds ...string) (list []Weight) {
	for i := c.Layers; i < c.Layers+c.NextLayers; i++ {
		for _, kind := range append(slices.Clone(kinds),
			"ffn_gate", "ffn_up", "ffn_down", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps", "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
			"nextn.eh_proj", "nextn.enorm", "nextn.hnorm", "nextn.embed_tokens", "nextn.shared_head_head", "nextn.shared_head_norm",
		) {
			for _, suffix := range []string{".weight", ".scale", ".input_scale"} {
				list = append(list, unused(blockPrefix(i)+kind+suffix))
			}
		}
	}
	return list
}

// isRecurrent reports whether a layer has a recurrence, and no attention.
func (c *Config) isRecurrent(i int) bool {
	if c.Recurrent != nil {
		return i < len(c.Recurrent) && c.Recurrent[i]
	}
	return c.AttentionStep > 0 && (i+1)%c.AttentionStep != 0
}

// firstAttention returns the first layer with attention.
func (c *Config) firstAttention() int {
	for i := range min(c.Layers, maxLayers) {
		if !c.isRecurrent(i) && (i >= len(c.KVHeadsAt) || c.KVHeadsAt[i] > 0) {
			return i
		}
	}
	return 0
}

// deltaLayer has a DeltaNet in recurrent layers; grouped if heads are in transformers' order.
func deltaLayer(grouped bool) func(c *Config, i int, attention, network Residual) Layer {
	return func(c *Config, i int, attention, network Residual) Layer {
		if c.isRecurrent(i) {
			attention.Part = DeltaNet{Heads: c.StateHeads, KHeads: c.StateKHeads, HeadSize: c.StateSize, ConvLength: c.ConvLength, Grouped: grouped}
		}
		return Layer{attention, network}
	}
}

// oldDeltaInput is the matrix of older files that makes queries, keys, values and the gate. Newer files have separate
// matrices.
func oldDeltaInput(c *Config) []Weight {
	made := 2 * c.StateSize * (c.StateKHeads + c.StateHeads)
	return []Weight{unused("ssm_in.weight", c.Embd, made), unused("ssm_in.scale", 1), unused("ssm_in.input_scale", 1)}
}

// gatedQueries has the gate in the matrix of queries.
func gatedQueries(_ *Config, _ int, a *Attention) { a.Gate = QueryGate }

var deltaModules = naming{matrices: map[Kind]string{
	"attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z", "ssm_beta": "linear_attn.in_proj_b",
	"ssm_alpha": "linear_attn.in_proj_a", "ssm_ba": "linear_attn.in_proj_ba", "ssm_out": "linear_attn.out_proj",
}}

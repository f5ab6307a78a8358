package arch

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

func init() {
	family(map[string]spec{
		"kimi-linear": {
			rope: ggml.RoPENorm, noRoPE: true, norms: normBefore, act: ggml.SwiGLU, untied: true, perLayer: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, mlaSizes, kimiKeys), arrange: kimiLayer, unsuffixed: []Kind{"ssm_a"}, unusedInLayers: unusedKimiBiases,
			mixture: &mixture{
				router: Router{Normalized: true, ChoiceBias: Always, Module: "block_sparse_moe.gate"}, module: "block_sparse_moe.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsScale,
			},
		},
	})
}

var kimiKeys = []key{
	count("ssm.conv_kernel", func(c *Config) *int { return &c.ConvLength }),
	count("kda.head_dim", func(c *Config) *int { return &c.StateSize }),
}

// unusedKimiBiases returns the biases that files contain but no graph uses.
func unusedKimiBiases(c *Config) (list []Weight) {
	for _, kind := range []string{"attn_q.bias", "attn_k.bias", "attn_v.bias"} {
		list = append(list, unused(kind, c.StateSize*at(c.HeadsAt, 0, c.Heads)))
	}
	return list
}

// kimiLayer puts delta attention into layers without key heads, and latent attention without RoPE into others.
func kimiLayer(c *Config, _ int, attention, network Residual) Layer {
	a := attention.Part.(Attention)
	if a.KVHeads == 0 {
		attention.Part = KimiDelta{Heads: at(c.HeadsAt, 0, c.Heads), HeadSize: c.StateSize, ConvLength: c.ConvLength, Gate: "ssm_g_a"}
		return Layer{attention, network}
	}
	l := latentAttention(c, a)
	l.Scale = float32(1 / math.Sqrt(float64(l.KeySize)))
	attention.Part = l
	return Layer{attention, network}
}

// KimiDelta is linear attention by the gated delta rule with a decay for each channel (arXiv 2510.26692), see [nn.DeltaRule].
// Short convolutions mix queries, keys and values with the tokens before.
type KimiDelta struct {
	Heads, HeadSize, ConvLength int
	FullDecay, FullGate         bool    // one matrix makes the decays, or the output gate; otherwise two of low rank
	Negated                     bool    // files have the factors a of decays as a vector, and of decays with a bound −a
	Gate                        Kind    // kind of the gate's first matrix
	DecayBound                  float32 // log decays are DecayBound·σ(a·x); 0: a·log(1 + eˣ)
	UnitEps                     float32 // added to the squared lengths of queries and keys; 0: the model's epsilon
}

// String describes the part.
func (KimiDelta) String() string { return "layers of the gated delta rule with a decay per channel" }

// Forward reads and changes the state of each head, token by token.
func (k KimiDelta) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, size, heads := int64(p.config.Embd), int64(k.HeadSize), int64(k.Heads)
	inner := size * heads
	rank := func(full bool) int64 {
		if full {
			return inner
		}
		return size
	}
	made := t.Linear(x, k.matrix(p, "attn_q", embd, inner), k.matrix(p, "attn_k", embd, inner), k.matrix(p, "attn_v", embd, inner),
		k.matrix(p, "ssm_f_a", embd, rank(k.FullDecay)), k.matrix(p, k.Gate, embd, rank(k.FullGate)), k.matrix(p, "ssm_beta", embd, heads))
	convolved := func(i int, kind Kind) *nn.Value {
		kernel := p.Weight(Weight{Kind: kind, Shape: []int64{int64(k.ConvLength), 1, inner}, Role: Kernel})
		return t.Heads(p.convolve(t, t.Contiguous(made[i]), nn.Convolution{Kernel: kernel, Step: 1, SiLU: true}, i), heads)
	}
	rule := nn.DeltaRule{
		Q: convolved(0, "ssm_conv1d_q"), K: convolved(1, "ssm_conv1d_k"), V: convolved(2, "ssm_conv1d_v"), Unit: cmp.Or(k.UnitEps, p.config.RMSEps),
		G: k.decay(p, t, made[3]), Beta: t.Sigmoid(made[5]), Rows: p.Rows, Packed: p.Packed,
	}
	n := p.normOf()
	n.Weight = p.Weight(Weight{Kind: "ssm_norm", Shape: []int64{size}, Role: Norm})
	y := p.Kept(t, t.Flat(t.Norm(recur(p, t, 3, rule, t.GatedDelta, nn.GatedDeltaStep), n)))
	gate := k.widen(p, t, "ssm_g_b", p.Kept(t, made[4]), k.FullGate)
	out := p.Matrix("attn_output", inner, embd, MatrixOptions{NoScale: true, NoLoRA: true, Residual: true})
	return t.Linear(t.Mul(y, t.Sigmoid(gate)), out)[0]
}

// matrix declares a matrix that stock llama.cpp multiplies without adapters.
func (KimiDelta) matrix(p Place, kind Kind, in, out int64) nn.Matrix {
	return p.Matrix(kind, in, out, latentMatrix)
}

// decay returns the logarithms of the states' decays, [size, heads, n].
func (k KimiDelta) decay(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	size, heads := int64(k.HeadSize), int64(k.Heads)
	x = t.AddWeight(k.widen(p, t, "ssm_f_b", x, k.FullDecay), p.bias("ssm_dt", size*heads, Always))
	rates := Weight{Kind: "ssm_a", Shape: []int64{1, heads}, Role: Decay, Init: decays}
	if k.Negated {
		rates.Shape = rates.Shape[1:]
	}
	if k.DecayBound == 0 {
		return t.MulHeads(t.Heads(t.Softplus(x), heads), p.Weight(rates))
	}
	if k.Negated {
		x = t.Scale(x, -1)
	} else {
		rates.Init = steepness
	}
	return t.Scale(t.Sigmoid(t.MulHeads(t.Heads(x, heads), p.Weight(rates))), k.DecayBound)
}

// steepness draws initial factors of bounded decays, between 1 and 16, as transformers does.
func steepness(rng *rand.Rand, values []float32) {
	decays(rng, values)
	for i := range values {
		values[i] = -values[i]
	}
}

// widen multiplies x by the second matrix of low rank, unless one of full rank made it.
func (k KimiDelta) widen(p Place, t *nn.Tape, kind Kind, x *nn.Value, full bool) *nn.Value {
	if x = t.Contiguous(x); full {
		return x
	}
	return t.Linear(x, k.matrix(p, kind, int64(k.HeadSize), int64(k.HeadSize*k.Heads)))[0]
}

// NewStates makes four states: the last inputs of each convolution, and the heads' matrices.
func (k KimiDelta) NewStates(o state.Options) (list []state.State, err error) {
	for range 3 {
		recent, err := state.NewRecent(o, k.HeadSize*k.Heads, k.ConvLength-1)
		if err != nil {
			return nil, err
		}
		list = append(list, recent)
	}
	heads, err := state.NewRecurrent(o, k.HeadSize*k.HeadSize*k.Heads, recurrentSnapshots)
	return append(list, heads), err
}

// Check reports sizes that are out of bounds, and a bound above 0.
func (k KimiDelta) Check(c Config) []string {
	faults := c.sizeFaults([]sizeBound{
		{"attention.head_count", k.Heads, 1 << 12}, {"kda.head_dim", k.HeadSize, 1 << 12}, {"ssm.conv_kernel", k.ConvLength, math.MaxInt16},
	})
	if k.DecayBound > 0 || k.FullDecay && k.DecayBound == 0 {
		faults = append(faults, fmt.Sprintf("%s is %v; it must be negative", c.key("kda.gate_lower_bound"), k.DecayBound))
	}
	return faults
}

// MixingFLOPs counts a token's three operations on each head's state: subtract the key's reading, add, read.
func (k KimiDelta) MixingFLOPs(int) float64 { return 6 * float64(k.Heads*k.HeadSize*k.HeadSize) }

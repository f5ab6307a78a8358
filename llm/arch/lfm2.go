package arch

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

func init() {
	lfm2 := spec{
		rope: ggml.RoPENeoX, norms: normBefore, outputNorm: "token_embd_norm", act: ggml.SwiGLU, qkNorm: PerHead, perLayer: true, noExperts: true,
		keys: []key{convLength, oneWindow}, complete: allLocal, layer: allLocalLayer, arrange: lfm2Layer, modules: lfm2Modules,
	}
	moe := lfm2
	moe.noExperts, moe.keys, moe.complete, moe.layer = false, []key{convLength}, nil, nil
	moe.mixture = &mixture{
		router: Router{Normalized: true, ChoiceBias: Always, Module: "feed_forward.gate"}, reads: readsWidth | readsDense | readsGating,
	}
	family(map[string]spec{"lfm2": lfm2, "lfm2moe": moe})
}

var (
	convLength = count("shortconv.l_cache", func(c *Config) *int { return &c.ConvLength })
	oneWindow  = optional("attention.sliding_window", func(c *Config) *int { return &c.Window }, always(0))
)

var lfm2Modules = naming{matrices: map[Kind]string{
	"attn_output": "self_attn.out_proj", "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
	"shortconv.in_proj": "conv.in_proj", "shortconv.out_proj": "conv.out_proj",
}}

// allLocal applies the window to all layers.
func allLocal(c *Config) {
	if c.Window > 0 {
		c.LocalLayers = slices.Repeat([]bool{true}, c.Layers)
	}
}

func allLocalLayer(c *Config, i int, a *Attention) { local(c, i, a) }

// lfm2Layer has a convolution in layers without keys and values.
func lfm2Layer(c *Config, _ int, attention, network Residual) Layer {
	if attention.Part.(Attention).KVHeads == 0 {
		attention.Part = ShortConv{c.Embd, c.ConvLength}
	}
	return Layer{attention, network}
}

// ShortConv is a gated convolution of each channel over a token and the few before it (arXiv
// 2511.23404): W_out · (c ⊙ conv(b ⊙ x)), where a matrix makes b, c and x.
type ShortConv struct{ Width, Length int }

// String describes the part.
func (ShortConv) String() string { return "short convolutions" }

// Forward convolves with the tokens before, of the sample or of the state.
func (s ShortConv) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd := int64(s.Width)
	matrix := func(kind Kind, out int64, residual bool) nn.Matrix {
		return p.Matrix(kind, embd, out, MatrixOptions{NoScale: true, Residual: residual})
	}
	parts := t.Split(t.Linear(x, matrix("shortconv.in_proj", 3*embd, false))[0], embd, embd, embd)
	y := p.convolve(t, t.Mul(parts[0], parts[2]), nn.Convolution{Kernel: p.kernel("shortconv.conv", s.Length, embd), Step: 1}, 0)
	y = p.Kept(t, t.Mul(y, parts[1]))
	return t.Linear(y, matrix("shortconv.out_proj", embd, true))[0]
}

// kernel declares the kernel of a convolution of `length` taps over a number of channels.
func (p Place) kernel(kind Kind, length int, channels int64) *ggml.Tensor {
	return p.Weight(Weight{Kind: kind, Shape: []int64{int64(length), channels}, Role: Kernel})
}

// convolve mixes each channel of x [channels, n] with its values at the tokens before: of the sample, or in the part's state of
// this number.
func (p Place) convolve(t *nn.Tape, x *nn.Value, v nn.Convolution, number int) *nn.Value {
	if kept := p.State(number); kept != nil {
		before, now := kept.(*state.Recent).Before(t, p.Pass, x)
		return t.ConvolveAfter(before, now, v)
	}
	return t.ShortConv(x, v)
}

// NewStates makes a state of the last inputs of the convolution.
func (s ShortConv) NewStates(o state.Options) ([]state.State, error) {
	return oneState(state.NewRecent(o, s.Width, s.Length-1))
}

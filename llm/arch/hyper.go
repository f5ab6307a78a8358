package arch

import "github.com/goggml/ggml/internal/nn"

// HyperConnected is a residual of several residual streams [n_embd·Streams, n]: its part sees a weighted sum of them, and
// each stream adds a multiple of the part's result (hyper-connections, arXiv 2409.19606).
type HyperConnected struct {
	Residual
	Streams int
	Kind    Kind // begins the kinds of the mixer's weights, such as "hc_attn"
	Mixer   StreamMixer
}

// A StreamMixer computes the weights of streams from the streams x [n_embd·streams, n]; without adds only of their sum.
type StreamMixer interface {
	mix(p Place, t *nn.Tape, kind Kind, x *nn.Value, streams int64, adds bool) streamMix
}

// A streamMix is the result of a [StreamMixer] for each token.
type streamMix struct {
	sum       *nn.Value // weighted sum of the streams [n_embd, n]
	multiples *nn.Value // factors of the sum that is added to each stream [streams, n]; nil adds nothing
	carry     *nn.Value // weights of the streams in what each becomes [from·to, n]; nil: they stay
}

// Residuals returns the residual.
func (h HyperConnected) Residuals() []Residual { return []Residual{h.Residual} }

// Forward returns the streams after the residual.
func (h HyperConnected) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	n := int64(h.Streams)
	mix := h.Mixer.mix(p, t, h.Kind, x, n, true)
	y := h.apart(p.Part(0), t, mix.sum)
	streams := t.Heads(lastOf(t, x, y), n)
	if mix.carry != nil {
		streams = t.Mix(streams, t.Heads(lastOf(t, mix.carry, y), n)) // [n_embd, from, n] · [from, to, n]
	}
	added := t.Mix(t.Columns(y), t.Heads(lastOf(t, mix.multiples, y), n)) // [n_embd, 1, n] · [1, streams, n]
	return t.Flat(t.Add(streams, added))
}

// hyperConnected makes attention and network residuals of several streams.
func hyperConnected(layer Layer, streams int, by StreamMixer) Layer {
	of := func(r Residual, kind Kind) Residual {
		return Residual{Part: HyperConnected{Residual: r, Streams: streams, Kind: kind, Mixer: by}, Replaces: true}
	}
	return Layer{of(layer[0], "hc_attn"), of(layer[1], "hc_ffn")}
}

// hyperOrder begins with as many copies of the embedding as there are streams, and ends with their weighted sum.
func hyperOrder(by func(c *Config) StreamMixer) func(p Place, t *nn.Tape, x *nn.Value, pass func(x *nn.Value, layer int) *nn.Value) *nn.Value {
	return func(p Place, t *nn.Tape, x *nn.Value, pass func(x *nn.Value, layer int) *nn.Value) *nn.Value {
		n := int64(p.config.Streams)
		x = t.Flat(t.RepeatHeads(t.Columns(x), n))
		for i := range p.layers {
			x = pass(x, i)
		}
		return by(&p.config).mix(p, t, "output_hc", x, n, false).sum
	}
}

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

// A StreamMixer computes the weights of streams from the streams x [n_embd·streams, n].
type StreamMixer interface {
	// mix returns the weighted sum [n_embd, n], and the multiples [streams, n] of what is added to each stream; without adds
	// nothing is, and they are nil.
	mix(p Place, t *nn.Tape, kind Kind, x *nn.Value, streams int64, adds bool) (sum, multiples *nn.Value)
}

// Residuals returns the residual.
func (h HyperConnected) Residuals() []Residual { return []Residual{h.Residual} }

// Forward returns the streams after the residual.
func (h HyperConnected) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	n := int64(h.Streams)
	sum, multiples := h.Mixer.mix(p, t, h.Kind, x, n, true)
	y := h.apart(p.Part(0), t, sum)
	x, multiples = lastOf(t, x, y), lastOf(t, multiples, y)
	added := t.Mix(t.Columns(y), t.Heads(multiples, n)) // [n_embd, 1, n] · [1, streams, n]
	return t.Flat(t.Add(t.Heads(x, n), added))
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
		sum, _ := by(&p.config).mix(p, t, "output_hc", x, n, false)
		return sum
	}
}

package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// SinkhornStreams weigh streams as [StreamGates] do, and also mix what the streams become by a matrix whose rows and columns
// sum to nearly 1 (manifold-constrained hyper-connections, arXiv 2512.24880).
type SinkhornStreams struct {
	Iterations int
	Eps        float32
}

func (s SinkhornStreams) mix(p Place, t *nn.Tape, kind Kind, x *nn.Value, streams int64, _ bool) (m streamMix) {
	sizes := []int64{streams, streams, streams * streams}
	width := sizes[0] + sizes[1] + sizes[2]
	scale := p.Weight(Weight{Kind: kind + "_scale", Shape: []int64{int64(len(sizes))}, Role: Gate})
	base := p.Weight(Weight{Kind: kind + "_base", Name: p.prefix + string(kind) + "_base.weight", Shape: []int64{width}, Role: Bias})
	mixes := t.Linear(t.Norm(x, p.normOf()), p.Matrix(kind+"_fn", x.T.Dim(0), width, latentMatrix))[0]
	parts := t.Split(t.AddWeight(t.MulRanges(mixes, scale, sizes...), base), sizes...)
	comb := nn.Sinkhorn.Build(t, nn.SinkhornOperands{
		Logits: parts[2], Mixes: mixes, Scale: scale, Base: base, Streams: streams, Sinkhorn: ggml.Sinkhorn{Eps: s.Eps, Iterations: s.Iterations},
	})
	return streamMix{
		sum:       t.Weigh(t.Heads(x, streams), t.AddNumber(t.Sigmoid(parts[0]), s.Eps)),
		multiples: t.Scale(t.Sigmoid(parts[1]), 2),
		carry:     t.Flat(comb),
	}
}

// sinkhornKeys are the keys of [SinkhornStreams].
var sinkhornKeys = []key{
	count("hyper_connection.count", func(c *Config) *int { return &c.Streams }),
	count("hyper_connection.sinkhorn_iterations", func(c *Config) *int { return &c.StreamIterations }),
	factor("hyper_connection.epsilon", func(c *Config) *float32 { return &c.StreamEps }, 0, true),
}

func sinkhornStreams(c *Config) StreamMixer { return SinkhornStreams{c.StreamIterations, c.StreamEps} }

// MeanStreams ends with the mean of the streams.
type MeanStreams struct{}

func (MeanStreams) mix(_ Place, t *nn.Tape, _ Kind, x *nn.Value, streams int64, _ bool) streamMix {
	return streamMix{sum: t.Scale(t.SumExperts(t.Heads(x, streams)), 1/float32(streams))}
}

func meanStreams(*Config) StreamMixer { return MeanStreams{} }

// sinkhorn reports numbers of streams and iterations that stock llama.cpp has no model of.
func (c *configCheck) sinkhorn() {
	const streams, most = 4, 1 << 10
	if !c.hasKey("hyper_connection.sinkhorn_iterations") {
		return
	}
	c.require(c.Streams == streams, "%s is %d; supported: %d", c.key("hyper_connection.count"), c.Streams, streams)
	c.require(c.StreamIterations >= 1 && c.StreamIterations <= most, "%s is %d", c.key("hyper_connection.sinkhorn_iterations"), c.StreamIterations)
	c.require(c.StreamEps >= 0, "%s is %v", c.key("hyper_connection.epsilon"), c.StreamEps)
}

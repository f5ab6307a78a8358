package arch

import "github.com/goggml/ggml/internal/nn"

// LowRankStreams are the means of streams, each normalised and times a gate of low rank. What is added to a stream is
// multiplied by 2·σ of a matrix times the normalised streams.
type LowRankStreams struct{ Rank int }

func (l LowRankStreams) mix(p Place, t *nn.Tape, kind Kind, x *nn.Value, streams int64, adds bool) (m streamMix) {
	width, rank := x.T.Dim(0), int64(l.Rank)
	n := p.normOf()
	n.Groups, n.Weight = int(streams), p.Weight(Weight{Kind: kind + "_norm", Shape: []int64{width}, Role: Norm})
	x = t.Norm(x, n)
	matrices := []nn.Matrix{p.Matrix(kind+"_down", width, rank, streamMatrix)}
	if adds {
		matrices = append(matrices, p.Matrix(kind+"_inject", width, streams, streamMatrix))
	}
	made, mean := t.Linear(x, matrices...), 1/float32(streams)
	gate := t.Linear(t.SiLU(t.Scale(t.Contiguous(made[0]), mean)), p.Matrix(kind+"_up", rank, width, streamMatrix))[0]
	if adds {
		m.multiples = t.Scale(t.Sigmoid(t.Scale(t.Contiguous(made[1]), mean)), 2)
	}
	gated := t.Mul(x, t.Sigmoid(gate))
	m.sum = t.Scale(t.SumExperts(t.Heads(gated, streams)), mean)
	return m
}

var streamMatrix = MatrixOptions{NoScale: true}

package arch

import "github.com/goggml/ggml/internal/nn"

// AttentionResidual is a residual whose part sees a weighted sum of the residual stream and of earlier streams. The
// weights are a softmax of scores, each a vector times the normalised stream (arXiv 2603.15031).
type AttentionResidual struct {
	Residual
	Score   Kind // kind of the vector
	Earlier int  // number of earlier streams
	// Restarts: the input becomes an earlier stream, and the stream goes on with the part's result alone.
	Restarts bool
}

// Residuals returns the residual.
func (r AttentionResidual) Residuals() []Residual { return []Residual{r.Residual} }

// Forward returns the stream after the residual.
func (r AttentionResidual) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := r.apart(p.Part(0), t, p.mixStreams(t, x, r.Score, r.Earlier))
	if r.Restarts {
		return y
	}
	return t.Add(lastOf(t, x, y), y)
}

// mixStreams returns the weighted sum of earlier streams and x [n_embd, n].
func (p Place) mixStreams(t *nn.Tape, x *nn.Value, score Kind, earlier int) *nn.Value {
	w := Weight{Kind: score, Shape: []int64{x.T.Dim(0)}, Role: Gate}
	if earlier == 0 {
		w.Role = Unused
		p.Weight(w)
		return x
	}
	vector := p.Weight(w)
	streams := make([]*nn.Value, 0, earlier+1)
	for _, s := range p.beside.streams[:earlier] {
		streams = append(streams, lastOf(t, t.Reused(s), x))
	}
	streams = append(streams, x)
	var scores *nn.Value // [streams, n]
	ones := make([]int64, len(streams))
	for i, s := range streams {
		of := t.Dot(t.Norm(s, p.normOf()), vector)
		if scores != nil {
			of = t.Join(scores, of)
		}
		scores, ones[i] = of, 1
	}
	var sum *nn.Value
	for i, weight := range t.Split(t.SoftMax(scores), ones...) {
		of := t.Mul(streams[i], t.Contiguous(weight))
		if sum != nil {
			of = t.Add(sum, of)
		}
		sum = of
	}
	return sum
}

// attentionResiduals makes attention residuals of a layer's residuals: every so many layers the stream starts anew. A step of
// 0 changes nothing.
func attentionResiduals(layer Layer, i, step int) Layer {
	if step == 0 {
		return layer
	}
	earlier := (i + step - 1) / step
	return Layer{
		{Part: AttentionResidual{Residual: layer[0], Score: "attn_res_score", Earlier: earlier, Restarts: i%step == 0}, Replaces: true},
		{Part: AttentionResidual{Residual: layer[1], Score: "ffn_res_score", Earlier: i/step + 1}, Replaces: true},
	}
}

// attentionResidualOrder keeps the streams of layers that start a new one, and ends with the weighted sum of all.
func attentionResidualOrder(p Place, t *nn.Tape, x *nn.Value, pass func(x *nn.Value, layer int) *nn.Value) *nn.Value {
	step := p.config.ResidualStep
	for i := range p.layers {
		if step > 0 && i%step == 0 {
			p.beside.streams = append(p.beside.streams, x)
		}
		x = pass(x, i)
	}
	if step == 0 {
		return x
	}
	return p.mixStreams(t, x, "output_res_score", len(p.beside.streams))
}

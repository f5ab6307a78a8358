package arch

import (
	"math"

	"github.com/goggml/ggml/internal/nn"
)

// AltUp is a layer whose residual stream has several versions of each token, [n_embd·Versions, n] (arXiv 2301.13310). It
// predicts all versions, computes attention and network for the first one, and corrects all versions by the difference
// between the result and the prediction. A low-rank matrix runs beside attention (LAuReL, arXiv 2411.07501).
type AltUp struct {
	Attention, Network   Residual
	Versions, LaurelRank int
	Embedding            LayerEmbedding // added to all versions but the first
}

// altUpVersions is the number of versions; files have no key for it.
const altUpVersions = 4

// Residuals returns both.
func (a AltUp) Residuals() []Residual { return []Residual{a.Attention, a.Network} }

// Forward returns the versions after the layer.
func (a AltUp) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, versions := int64(p.config.Embd), int64(a.Versions)
	predicted := a.predict(p, t, x)
	active, _ := a.split(t, predicted, embd)

	seen := p.Norm(t, a.Attention.Before, active)
	y := p.Norm(t, a.Attention.After, a.Attention.Part.Forward(p.Part(0), t, seen))
	predicted, active = lastOf(t, predicted, y), lastOf(t, active, y)
	y = t.Add(t.Add(y, active), a.laurel(p, t, lastOf(t, seen, y)))
	y = a.Network.build(p.Part(1), t, stream{x: t.Scale(y, 1/math.Sqrt2)}).sum(t)

	surprise := t.Columns(t.Add(y, t.Scale(active, -1))) // [n_embd, 1, n]
	shares := t.AddNumber(a.coefficients(p, t, y, "altup_correct_coef", versions), 1)
	x = t.Flat(t.Add(t.Heads(predicted, versions), t.Mix(surprise, t.Heads(shares, versions))))

	first, rest := a.split(t, x, embd)
	scaled := t.MulWeight(first, p.Weight(Weight{Kind: "altup_correct_scale", Shape: []int64{embd}, Role: Norm}))
	own := p.Norm(t, "post_norm", a.Embedding.Forward(p, t, scaled))
	rest = t.Add(t.Heads(rest, versions-1), t.RepeatHeads(t.Columns(own), versions-1))
	return t.Join(first, t.Flat(rest))
}

// split returns the first version of x, and the others.
func (AltUp) split(t *nn.Tape, x *nn.Value, embd int64) (first, rest *nn.Value) {
	parts := t.Split(x, embd, x.T.Dim(0)-embd)
	return t.Contiguous(parts[0]), t.Contiguous(parts[1])
}

// predict returns the prediction of all versions.
func (a AltUp) predict(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	versions := int64(a.Versions)
	first, _ := a.split(t, x, int64(p.config.Embd))
	mixed := t.Mix(t.Heads(x, versions), t.Heads(a.coefficients(p, t, first, "altup_predict_coef", versions*versions), versions))
	return t.Flat(t.Add(mixed, t.Heads(x, versions)))
}

// coefficients returns the mixing coefficients: a matrix times the router's result for x.
func (a AltUp) coefficients(p Place, t *nn.Tape, x *nn.Value, kind Kind, n int64) *nn.Value {
	embd, versions := int64(p.config.Embd), int64(a.Versions)
	x = t.Scale(p.Norm(t, "altup_router_norm", x), 1/float32(embd))
	modalities := t.Tanh(t.Linear(x, p.Matrix("altup_router", embd, versions, MatrixOptions{NoScale: true, NoLoRA: true, KeepType: true}))[0])
	return t.Contiguous(t.Linear(modalities, p.Matrix(kind, versions, n, altUpMatrix))[0])
}

// laurel returns x plus the product of two low-rank matrices with it.
func (a AltUp) laurel(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, rank := int64(p.config.Embd), int64(a.LaurelRank)
	y := t.Linear(t.Linear(x, p.Matrix("laurel_l", embd, rank, altUpMatrix))[0], p.Matrix("laurel_r", rank, embd, altUpMatrix))[0]
	return t.Add(p.Norm(t, "laurel_post_norm", y), x)
}

// altUpMatrix are the options of small matrices, which keep their type when a model is quantised.
var altUpMatrix = MatrixOptions{NoScale: true, KeepType: true}

// altUpLayerOrder makes the other versions of the embedding, scaled to its length, and ends with the mean of all versions.
func altUpLayerOrder(p Place, t *nn.Tape, x *nn.Value, pass func(x *nn.Value, layer int) *nn.Value) *nn.Value {
	embd, others := int64(p.config.Embd), int64(altUpVersions-1)
	each := t.EachMatrix(others, x.T.Dim(1))
	like := func(x, versions *nn.Value, kind Kind) *nn.Value {
		ids := t.C.View(each, []int64{others, x.T.Dim(1)}, nil, 0)
		m := Router{Experts: int(others), Used: int(others)}.matrix(p, kind, embd, embd, MatrixOptions{NoScale: true, NoLoRA: true, KeepType: true})
		y := t.L2Norm(t.LinearID(versions, ids, m), 1e-30)
		return t.Mul(y, t.RepeatHeads(t.Columns(t.Length(x)), others))
	}
	x = t.Join(x, t.Flat(like(x, t.Columns(x), "altup_proj")))
	for i := range p.layers {
		x = pass(x, i)
	}
	first, rest := AltUp{}.split(t, x, embd)
	rest = like(first, t.Heads(rest, others), "altup_unembd_proj")
	return t.Scale(t.Add(first, t.SumExperts(rest)), 1/float32(altUpVersions))
}

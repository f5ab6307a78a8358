package arch

import "github.com/goggml/ggml/internal/nn"

// LatentExperts are experts between two matrices for all tokens. The router sees the input of the
// first matrix.
type LatentExperts struct {
	Experts
	Latent int  // width of the experts' input
	Prefix Kind // of the kinds of both matrices, such as "ffn_latent"
}

// latentExperts reduces the width of the experts' input by matrices whose kinds begin with a prefix.
func latentExperts(prefix Kind) func(c *Config, i int, attention, network Residual) Layer {
	return func(c *Config, _ int, attention, network Residual) Layer {
		if e, ok := network.Part.(Experts); ok && c.ExpertLatent > 0 {
			network.Part = LatentExperts{e, c.ExpertLatent, prefix}
		}
		return Layer{attention, network}
	}
}

// Forward computes the chosen experts of each token. The file may have a norm of their result.
func (l LatentExperts) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, latent := x.T.Dim(0), int64(l.Latent)
	ids, weights := l.Router.choose(p, t, l.Router.logits(p, t, x))
	in := t.Linear(x, p.Matrix(l.Prefix+"_down", embd, latent, MatrixOptions{NoScale: true, NoLoRA: true}))[0]
	y := l.compute(p, t, in, ids, weights)
	n := p.normOf()
	n.Weight = p.Weight(Weight{Kind: l.Prefix + "_norm", Shape: []int64{latent}, Role: Norm, Optional: true})
	if n.Weight != nil {
		y = t.Norm(y, n)
	}
	y = t.Linear(y, p.Matrix(l.Prefix+"_up", latent, embd, MatrixOptions{NoScale: true, NoLoRA: true, Residual: true}))[0]
	if l.Shared.Width == 0 {
		return y
	}
	return t.Add(y, l.shared(p, t, x))
}

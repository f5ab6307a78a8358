package arch

import "github.com/goggml/ggml/internal/nn"

// values returns the chosen experts' values of x [n_embd, n], activated and summed by weights.
func (r Router) values(p Place, t *nn.Tape, x *nn.Value, out int64) *nn.Value {
	ids, weights := r.choose(p, t, r.logits(p, t, x))
	m := r.matrix(p, "attn_v_exps", x.T.Dim(0), out, MatrixOptions{NoScale: true})
	return t.Weigh(t.SiLU(t.LinearID(t.Columns(x), ids, m)), weights)
}

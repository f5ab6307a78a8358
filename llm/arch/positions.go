package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// addPositions adds the row of each token's position in a matrix [n_embd, n_ctx] that is learned.
func (p Place) addPositions(t *nn.Tape, x *nn.Value, there Presence) *nn.Value {
	rows := int64(p.config.Context)
	m := p.matrixOf(Weight{Kind: positionEmbd, Shape: []int64{int64(p.config.Embd), rows}, Role: Position, KeepType: true, Optional: there == Maybe})
	w := m.W
	if w == nil {
		return x
	}
	if n := int64(p.Context); n > rows {
		t.C.BuildOp("positions", []*ggml.Tensor{w}, func(b *ggml.OpBuilder) *ggml.Tensor {
			b.Require(false, "the model has learned %d positions; a context of %d is too long", rows, n)
			return nil
		})
	}
	return t.Add(x, t.Embed(t.Positions(x.T.Dim(1))(false), m))
}

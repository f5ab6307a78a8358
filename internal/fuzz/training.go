package fuzz

import (
	"strings"

	"github.com/goggml/ggml"
)

type tensor = ggml.Tensor

// Ops with a backward, and some without.
var trained = strings.Fields(`Add Sub Mul Div Sqr Sqrt Log Sin Cos Abs Neg Relu Silu Exp Expm1 Softplus Scale Sum SumRows Mean
	Repeat RepeatBack Cont Reshape View Permute Transpose GetRows Cast Copy MulMat OutProd RMSNorm SoftMax SoftMaxExt RoPE
	CrossEntropyLoss GLUSplit Im2Col Pool2D Acc Set Clamp Concat Conv2D Norm`)

func (p *program) runTraining() error {
	p.open()
	defer p.close()
	p.training = true
	p.build(1+p.IntN(8), trained)
	loss := p.existing(func(t *tensor) bool { return t.Type() == f32[0] && t.Context() == p.c })
	if loss == nil || p.c.Err() != nil {
		return nil
	}
	if loss.NumElements() != 1 || p.IntN(4) == 0 {
		if loss = p.c.Sum(loss); p.c.Err() != nil {
			return nil
		}
	}
	params := 0
	for _, l := range p.data {
		if p.IntN(2) == 0 {
			l.t.SetParam()
			params++
		}
	}
	p.note("%d parameters; backward", params)
	g := p.c.NewTrainingGraph(loss.SetLoss())
	if err := g.Backward(); err != nil {
		p.machine.Stats.refused("Backward", err)
		return p.harmless(err)
	}
	p.machine.Stats.Trained++
	return p.evaluate(g, []*tensor{loss})
}

// reset prepares the gradients of a training program.
func (p *program) reset(g *ggml.Graph) error {
	if !p.training {
		return nil
	}
	return g.Reset()
}

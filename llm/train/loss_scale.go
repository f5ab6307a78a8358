package train

import (
	"context"
	"math"
)

// scaleLoss chooses the scale of the loss whose gradients a step computes, 1 where no engine of the
// group asks for another. It brings the largest weight of a token to between 1 and 2, so that
// gradients of logits are the size of probabilities, however many tokens a step has. A power of two
// rounds nothing, and the update takes it back out: of the gradient, and of the norm.
func (t *Trainer) scaleLoss(ctx context.Context, s *step) error {
	if t.scalesLoss == nil {
		asking := []float64{0}
		if t.engine.ScalesLoss() {
			asking[0] = 1
		}
		if err := agree(ctx, t.group, nil, asking); err != nil {
			return err
		}
		scales := asking[0] > 0
		t.scalesLoss = &scales
	}
	if *t.scalesLoss {
		_, exponent := math.Frexp(s.weight / s.largest)
		s.scale = math.Ldexp(1, exponent)
	}
	return nil
}

package train

import (
	"context"
	"math"
)

// lossScale returns the scale of the loss whose gradients a step computes; 1 if no engine of the
// group needs another. It brings the largest weight of a token to between 1 and 2, so that
// gradients of logits are the size of probabilities, however many tokens a step has. A power of two
// rounds nothing, and the update divides gradient and norm by it.
func (t *Trainer) lossScale(weight, largest float64) float64 {
	if !*t.scalesLoss {
		return 1
	}
	_, exponent := math.Frexp(weight / largest)
	return math.Ldexp(1, exponent)
}

// agreeOnScale finds out, before the first step, whether any engine of the group needs a scale.
func (t *Trainer) agreeOnScale(ctx context.Context) error {
	if t.scalesLoss != nil {
		return nil
	}
	asking := []float64{0}
	if t.engine.ScalesLoss() {
		asking[0] = 1
	}
	if err := agree(ctx, t.group, ctx.Err(), asking); err != nil {
		return err
	}
	scales := asking[0] > 0
	t.scalesLoss = &scales
	return nil
}

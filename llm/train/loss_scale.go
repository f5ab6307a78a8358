package train

import (
	"context"
	"math"

	"github.com/goggml/ggml/llm/parallel"
)

// lossScale returns the scale of the loss for computing gradients; 1 if no engine of the group needs
// one. Scaled, the largest weight of a token is between 1 and 2, so gradients of logits have the size
// of probabilities, however many tokens a step has. It is a power of two, which does not round; the
// update divides gradient and norm by it.
func (t *Trainer) lossScale(weight, largest float64) float64 {
	if !*t.scalesLoss {
		return 1
	}
	_, exponent := math.Frexp(weight / largest)
	return math.Ldexp(1, exponent)
}

// agreeOnScale determines, before the first step, whether any engine of the group needs a scale.
func (t *Trainer) agreeOnScale(ctx context.Context) error {
	if t.scalesLoss != nil {
		return nil
	}
	asking := []float64{0}
	if t.engine.ScalesLoss() {
		asking[0] = 1
	}
	if err := parallel.Agree(ctx, t.group, ctx.Err(), asking); err != nil {
		return err
	}
	scales := asking[0] > 0
	t.scalesLoss = &scales
	return nil
}

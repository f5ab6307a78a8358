package refmath

import "math"

// AdamWParams are the 7 values of ggml_opt_step_adamw's last operand, in order.
type AdamWParams struct {
	Alpha, Beta1, Beta2, Eps, WD float64
	Beta1H, Beta2H               float64 // bias corrections 1/(1 − betaᵗ) at step t = 1, 2, …
}

// AdamWAt fills in the bias corrections of step t, counted from 1.
func AdamWAt(t int, alpha, beta1, beta2, eps, wd float64) AdamWParams {
	return AdamWParams{
		Alpha: alpha, Beta1: beta1, Beta2: beta2, Eps: eps, WD: wd,
		Beta1H: 1 / (1 - math.Pow(beta1, float64(t))),
		Beta2H: 1 / (1 - math.Pow(beta2, float64(t))),
	}
}

// Tensor returns the parameters as the operand that ggml_opt_step_adamw takes, [7].
func (p AdamWParams) Tensor() Tensor {
	return From([]float64{p.Alpha, p.Beta1, p.Beta2, p.Eps, p.WD, p.Beta1H, p.Beta2H})
}

// OptStepAdamW returns the new weights and moments after one step:
// m = β₁m + (1−β₁)g, v = β₂v + (1−β₂)g²,
// w = w·(1 − α·wd) − α·(m·β₁h) / (√(v·β₂h) + ε). All shapes are equal.
func OptStepAdamW(w, grad, m, v Tensor, p AdamWParams) (newW, newM, newV Tensor) {
	for _, t := range []Tensor{grad, m, v} {
		sameShape("OptStepAdamW", w, t)
	}
	newW, newM, newV = w.Clone(), m.Clone(), v.Clone()
	for i, g := range grad.Data {
		newM.Data[i] = p.Beta1*m.Data[i] + (1-p.Beta1)*g
		newV.Data[i] = p.Beta2*v.Data[i] + (1-p.Beta2)*g*g
		update := newM.Data[i] * p.Beta1H / (math.Sqrt(newV.Data[i]*p.Beta2H) + p.Eps)
		newW.Data[i] = w.Data[i]*(1-p.Alpha*p.WD) - p.Alpha*update
	}
	return newW, newM, newV
}

// OptStepSGD returns w·(1 − alpha·wd) − alpha·g.
func OptStepSGD(w, grad Tensor, alpha, wd float64) Tensor {
	sameShape("OptStepSGD", w, grad)
	return zip("OptStepSGD", w, grad, func(w, g float64) float64 { return w*(1-alpha*wd) - alpha*g })
}

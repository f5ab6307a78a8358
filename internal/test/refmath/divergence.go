package refmath

import (
	"math"
	"slices"
)

// others is added to the probability of all labels that have none of their own.
const others = 1e-6

// Divergence returns, for each row of logits, the divergence of q = softmax(logits) from the probabilities p of its
// labels, probs [k+1, rows]; the last probability is the sum for all other labels: Σ p·log(p/q) for beta 0, Σ q·log(q/p) for beta
// 1, and between β·Σ p·log(p/m) + (1−β)·Σ q·log(q/m), with m = β·p + (1−β)·q.
func Divergence(logits, labels, probs Tensor, beta float64) Tensor {
	n := logits.Rows()
	losses, k := New(n), int64(len(labels.Data))/n
	for r := range n {
		p, q := slices.Clone(probs.Data[r*(k+1):(r+1)*(k+1)]), make([]float64, k+1)
		lse := LogSumExp(logits.Row(r))
		q[k] = 1
		for i := range k {
			q[i] = math.Exp(logits.Row(r)[int(labels.Data[r*k+i])] - lse)
			q[k] -= q[i]
		}
		p[k], q[k] = p[k]+others, max(0, q[k])+others
		losses.Data[r] = divergence(p, q, beta)
	}
	return losses
}

func divergence(p, q []float64, beta float64) (sum float64) {
	kl := func(p, q float64) float64 {
		if p == 0 {
			return 0
		}
		return p * math.Log(p/q)
	}
	for i := range p {
		switch m := beta*p[i] + (1-beta)*q[i]; beta {
		case 0:
			sum += kl(p[i], q[i])
		case 1:
			sum += kl(q[i], p[i])
		default:
			sum += beta*kl(p[i], m) + (1-beta)*kl(q[i], m)
		}
	}
	return sum
}

// DivergenceBack returns the gradient of Σ weights · Divergence for the logits: by the chain rule, with the derivatives
// along q and the Jacobian of softmax, q_i·(δ_ij − q_j).
func DivergenceBack(logits, labels, probs, weights Tensor, beta float64) Tensor {
	d, n := SoftMax(logits), logits.Rows()
	k := int64(len(labels.Data)) / n
	for r := range n {
		q := d.Row(r)
		rest := 1.0
		own := map[int]float64{} // p of the labels
		for i := range k {
			id := int(labels.Data[r*k+i])
			own[id] = probs.Data[r*(k+1)+i]
			rest -= q[id]
		}
		others := slope(probs.Data[r*(k+1)+k]+others, max(0, rest)+others, beta)
		h, mean := make([]float64, len(q)), 0.0
		for i := range q {
			h[i] = others
			if p, ok := own[i]; ok {
				h[i] = slope(p, q[i], beta)
			}
			mean += q[i] * h[i]
		}
		for i := range q {
			q[i] *= weights.Data[r] * (h[i] - mean)
		}
	}
	return d
}

// slope returns the derivative of a term of divergence along q.
func slope(p, q, beta float64) float64 {
	switch beta {
	case 0:
		return -p / q
	case 1:
		return math.Log(q/p) + 1
	}
	return (1 - beta) * math.Log(q/(beta*p+(1-beta)*q))
}

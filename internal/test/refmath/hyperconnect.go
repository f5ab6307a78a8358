package refmath

// LightningIndexer returns Σₕ w[h, i]·relu(q[·, h, i]·k[·, 0, j]) + mask[j, i].
func LightningIndexer(q, k, w, mask Tensor) Tensor {
	return generate([4]int64{k.Ne[2], q.Ne[2], 1, q.Ne[3]}, func(j, i, _, s int64) float64 {
		total := mask.At(j, i, 0, s%mask.Ne[3])
		for h := range q.Ne[1] {
			dot := 0.0
			for e := range q.Ne[0] {
				dot += q.At(e, h, i, s) * k.At(e, 0, j, s)
			}
			total += w.At(h, i, 0, s) * max(dot, 0)
		}
		return total
	})
}

// HyperConnectComb returns the mixing matrices [to, from, tokens]: a softmax over to,
// plus eps, made doubly stochastic by n steps.
func HyperConnectComb(mixes, scale, base Tensor, eps float64, n int) Tensor {
	hc := int64(4)
	out := generate([4]int64{hc, hc, mixes.Ne[1], 1}, func(to, from, t, _ int64) float64 {
		i := 2*hc + to + hc*from
		return mixes.At(i, t, 0, 0)*scale.Data[2] + base.Data[i]
	})
	out = Map(SoftMax(out), func(v float64) float64 { return v + eps })
	for t := range mixes.Ne[1] {
		m := out.Data[t*hc*hc : (t+1)*hc*hc]
		for i := range n {
			if i > 0 {
				balance(m, hc, 1, hc, eps)
			}
			balance(m, 1, hc, hc, eps)
		}
	}
	return out
}

// balance divides hc groups of elements by their sum plus eps. Groups start outer elements apart, their
// elements are inner apart.
func balance(m []float64, outer, inner, hc int64, eps float64) {
	for g := range hc {
		total := eps
		for i := range hc {
			total += m[g*outer+i*inner]
		}
		for i := range hc {
			m[g*outer+i*inner] /= total
		}
	}
}

// HyperConnectPre returns Σₕ x[·, h, t]·weights[h, t].
func HyperConnectPre(x, weights Tensor) Tensor {
	return generate([4]int64{x.Ne[0], x.Ne[2], 1, 1}, func(i, t, _, _ int64) float64 {
		total := 0.0
		for h := range x.Ne[1] {
			total += x.At(i, h, t, 0) * weights.At(h, t, 0, 0)
		}
		return total
	})
}

// HyperConnectPreGated returns scale·Σₕ x·sigmoid(gate).
func HyperConnectPreGated(x, gate Tensor, scale float64) Tensor {
	ones := Fill(New(x.Ne[1], x.Ne[2]), scale)
	return HyperConnectPre(Mul(x, Sigmoid(gate)), ones)
}

// HyperConnectPost returns x[·, t]·post[to, t] + Σ residual[·, from, t]·comb[to, from, t],
// and residual[·, to, t] for the sum without comb.
func HyperConnectPost(x, residual, post, comb Tensor) Tensor {
	return generate(residual.Ne, func(i, to, t, _ int64) float64 {
		v := x.At(i, t, 0, 0) * post.At(to, t, 0, 0)
		if comb.absent() {
			return v + residual.At(i, to, t, 0)
		}
		for from := range residual.Ne[1] {
			v += residual.At(i, from, t, 0) * comb.At(to, from, t, 0)
		}
		return v
	})
}

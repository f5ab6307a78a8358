package refmath

// causalWeights returns the weights of the keys that query i sees, the first of them,
// and the group of keys that its head sees.
func causalWeights(q, k, firstVisible Tensor, scale float64, i, head, sample int64) (weights []float64, first, group int64) {
	group = head / (q.Ne[1] / k.Ne[1])
	if firstVisible.Data != nil {
		first = min(max(0, int64(firstVisible.row(sample, 0, 0)[i])), i)
	}
	scores := New(i + 1 - first)
	for j := range scores.Data {
		scores.Data[j] = dot(q.row(head, i, sample), k.row(group, first+int64(j), sample))
	}
	return SoftMaxExt(scores, Tensor{}, Tensor{}, scale, 0).Data, first, group
}

// CausalAttention is softmax(scale · q·kᵀ) · v over the keys up to the query's position:
// q [size, heads, n, batch], k and v [size, groups, n, batch] → [size, heads, n, batch].
// firstVisible [n, batch] is the first key that each query sees, 0 up to its position,
// to which other values are moved; the zero Tensor is 0 for all.
func CausalAttention(q, k, v, firstVisible Tensor, scale float64) Tensor {
	y := New(q.Ne[:]...)
	eachRow(q.Ne, func(head, i, sample int64) {
		weights, first, group := causalWeights(q, k, firstVisible, scale, i, head, sample)
		for j, w := range weights {
			add(y.row(head, i, sample), w, v.row(group, first+int64(j), sample))
		}
	})
	return y
}

// CausalAttentionBack returns the gradients of q, k and v, given that of the result.
func CausalAttentionBack(dy, q, k, v, firstVisible Tensor, scale float64) (dq, dk, dv Tensor) {
	dq, dk, dv = New(q.Ne[:]...), New(k.Ne[:]...), New(v.Ne[:]...)
	eachRow(q.Ne, func(head, i, sample int64) {
		weights, first, group := causalWeights(q, k, firstVisible, scale, i, head, sample)
		d, along := make([]float64, len(weights)), 0.0
		for j, w := range weights {
			d[j] = dot(dy.row(head, i, sample), v.row(group, first+int64(j), sample))
			along += w * d[j]
			add(dv.row(group, first+int64(j), sample), w, dy.row(head, i, sample))
		}
		for j, w := range weights {
			score := scale * w * (d[j] - along)
			add(dq.row(head, i, sample), score, k.row(group, first+int64(j), sample))
			add(dk.row(group, first+int64(j), sample), score, q.row(head, i, sample))
		}
	})
	return dq, dk, dv
}

// add adds factor · x to y.
//
//go:norace
func add(y []float64, factor float64, x []float64) {
	for i := range y {
		y[i] += factor * x[i]
	}
}

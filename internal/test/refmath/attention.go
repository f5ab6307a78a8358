package refmath

import "math"

// Attention is the operands of causal attention: q [size, heads, n, batch], k and v
// [size, groups, n, batch].
type Attention struct {
	Q, K, V Tensor
	Scale   float64
	// FirstVisible [n, batch] is the first key that each query sees, clamped to 0 … the query's position; the
	// zero Tensor stands for 0.
	FirstVisible Tensor
	// HiddenFrom and HiddenTo [n, batch] bound the keys [from, to) that each query skips, clamped to its first visible
	// key and its position; for ALiBi the keys before them are nearer by their number. Zero Tensors stand for none.
	HiddenFrom, HiddenTo Tensor
	Softcap              float64 // scores become Softcap·tanh(score/Softcap); 0 means none
	MaxBias              float64 // of ALiBi, whose bias is added after the softcap; 0 means none
	Sinks                Tensor  // [heads], an additional score of each head; the zero Tensor means none
}

// attended has the keys that a query sees, with their weights, the derivative of each score in the softcap, and the
// key and value head of its group.
type attended struct {
	keys            []int64
	weights, slopes []float64
	sink            float64
	group           int64
}

// bound returns a bound of the keys of a query, clamped.
func bound(of Tensor, sample, i, least, most int64) int64 {
	if of.absent() {
		return least
	}
	return min(max(least, int64(of.row(sample, 0, 0)[i])), most)
}

func (a Attention) of(head, i, sample int64) (s attended) {
	heads := a.Q.Ne[1]
	s.group = head / (heads / a.K.Ne[1])
	first := bound(a.FirstVisible, sample, i, 0, i)
	to := bound(a.HiddenTo, sample, i, first, i)
	from := bound(a.HiddenFrom, sample, i, first, to)
	for key := first; key <= i; key++ {
		if key < from || key >= to {
			s.keys = append(s.keys, key)
		}
	}
	row := make([]float64, len(s.keys))
	s.slopes = make([]float64, len(row))
	for j, key := range s.keys {
		row[j], s.slopes[j] = a.Scale*dot(a.Q.row(head, i, sample), a.K.row(s.group, key, sample)), 1
		if a.Softcap != 0 {
			bent := math.Tanh(row[j] / a.Softcap)
			row[j], s.slopes[j] = a.Softcap*bent, 1-bent*bent
		}
		if a.MaxBias != 0 {
			distance := i - key
			if key < from {
				distance -= to - from
			}
			row[j] -= ALiBiSlope(head, heads, a.MaxBias) * float64(distance)
		}
	}
	sink := math.Inf(-1)
	if !a.Sinks.absent() {
		sink = a.Sinks.Data[head]
	}
	top := LogSumExp(append([]float64{sink}, row...))
	softmax(row, sink)
	s.weights, s.sink = row, math.Exp(sink-top)
	return s
}

// CausalAttention returns softmax(scores)·v over the visible keys up to the query's position: [size, heads, n, batch].
func CausalAttention(a Attention) Tensor {
	y := New(a.Q.Ne[:]...)
	eachRow(a.Q.Ne, func(head, i, sample int64) {
		s := a.of(head, i, sample)
		for j, w := range s.weights {
			add(y.row(head, i, sample), w, a.V.row(s.group, s.keys[j], sample))
		}
	})
	return y
}

// CausalAttentionBack returns the gradients of q, k, v and the sinks, given the result's. Without sinks the
// shape of their gradient is arbitrary.
func CausalAttentionBack(dy Tensor, a Attention) (dq, dk, dv, dsinks Tensor) {
	dq, dk, dv, dsinks = New(a.Q.Ne[:]...), New(a.K.Ne[:]...), New(a.V.Ne[:]...), New(a.Q.Ne[1])
	eachRow(a.Q.Ne, func(head, i, sample int64) {
		s := a.of(head, i, sample)
		d, along := make([]float64, len(s.weights)), 0.0
		for j, w := range s.weights {
			d[j] = dot(dy.row(head, i, sample), a.V.row(s.group, s.keys[j], sample))
			along += w * d[j]
			add(dv.row(s.group, s.keys[j], sample), w, dy.row(head, i, sample))
		}
		for j, w := range s.weights {
			score := a.Scale * s.slopes[j] * w * (d[j] - along)
			add(dq.row(head, i, sample), score, a.K.row(s.group, s.keys[j], sample))
			add(dk.row(s.group, s.keys[j], sample), score, a.Q.row(head, i, sample))
		}
		dsinks.Data[head] -= s.sink * along
	})
	return dq, dk, dv, dsinks
}

// add adds factor · x to y.
//
//go:norace
func add(y []float64, factor float64, x []float64) {
	for i := range y {
		y[i] += factor * x[i]
	}
}

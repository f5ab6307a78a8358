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
	Softcap      float64 // scores become Softcap·tanh(score/Softcap); 0 means none
	MaxBias      float64 // of ALiBi, whose bias is added after the softcap; 0 means none
	Sinks        Tensor  // [heads], an additional score of each head; the zero Tensor means none
}

// attended is what a query sees: the weights of the keys from the first visible one on, the derivative of each
// score in the softcap, and the key and value head of its group.
type attended struct {
	weights, slopes []float64
	sink            float64
	first, group    int64
}

func (a Attention) of(head, i, sample int64) (s attended) {
	heads := a.Q.Ne[1]
	s.group = head / (heads / a.K.Ne[1])
	if a.FirstVisible.Data != nil {
		s.first = min(max(0, int64(a.FirstVisible.row(sample, 0, 0)[i])), i)
	}
	row := make([]float64, i+1-s.first)
	s.slopes = make([]float64, len(row))
	for j := range row {
		key := s.first + int64(j)
		row[j], s.slopes[j] = a.Scale*dot(a.Q.row(head, i, sample), a.K.row(s.group, key, sample)), 1
		if a.Softcap != 0 {
			bent := math.Tanh(row[j] / a.Softcap)
			row[j], s.slopes[j] = a.Softcap*bent, 1-bent*bent
		}
		if a.MaxBias != 0 {
			row[j] -= ALiBiSlope(head, heads, a.MaxBias) * float64(i-key)
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

// CausalAttention returns softmax(scores)·v over the keys up to the query's position: [size, heads, n, batch].
func CausalAttention(a Attention) Tensor {
	y := New(a.Q.Ne[:]...)
	eachRow(a.Q.Ne, func(head, i, sample int64) {
		s := a.of(head, i, sample)
		for j, w := range s.weights {
			add(y.row(head, i, sample), w, a.V.row(s.group, s.first+int64(j), sample))
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
			d[j] = dot(dy.row(head, i, sample), a.V.row(s.group, s.first+int64(j), sample))
			along += w * d[j]
			add(dv.row(s.group, s.first+int64(j), sample), w, dy.row(head, i, sample))
		}
		for j, w := range s.weights {
			score := a.Scale * s.slopes[j] * w * (d[j] - along)
			add(dq.row(head, i, sample), score, a.K.row(s.group, s.first+int64(j), sample))
			add(dk.row(s.group, s.first+int64(j), sample), score, a.Q.row(head, i, sample))
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

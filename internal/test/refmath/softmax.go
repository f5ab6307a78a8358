package refmath

import (
	"math"
	"slices"
)

// SoftMax returns e^a / Σe^a along each row.
func SoftMax(a Tensor) Tensor { return SoftMaxExt(a, Tensor{}, Tensor{}, 1, 0) }

// SoftMaxExt returns softmax(scale·a + slope·mask) along the rows of a [ne0, rows, heads, batch]. mask [ne0, ≥
// rows, m2, m3] is optional and shared by heads i2 mod m2 and batches i3 mod m3. The slope is 1 without ALiBi
// (maxBias 0), else ALiBiSlope of head i2. sinks [heads] is optional: an additional logit per head that is part
// of the sum and has no output. A row whose mask is all −Inf gives NaN.
func SoftMaxExt(a, mask, sinks Tensor, scale, maxBias float64) Tensor {
	check(mask.absent() || mask.Ne[0] == a.Ne[0] && mask.Ne[1] >= a.Ne[1] &&
		a.Ne[2]%mask.Ne[2] == 0 && a.Ne[3]%mask.Ne[3] == 0, "SoftMaxExt: mask %v for %v", mask.Ne, a.Ne)
	check(sinks.absent() || sinks.Ne[0] == a.Ne[2], "SoftMaxExt: sinks %v for %v", sinks.Ne, a.Ne)
	out := Scale(a, scale)
	eachRow(a.Ne, func(i1, i2, i3 int64) {
		row := out.row(i1, i2, i3)
		if !mask.absent() {
			addMask(row, mask.row(i1, i2%mask.Ne[2], i3%mask.Ne[3]), ALiBiSlope(i2, a.Ne[2], maxBias))
		}
		sink := math.Inf(-1)
		if !sinks.absent() {
			sink = sinks.Data[i2]
		}
		softmax(row, sink)
	})
	return out
}

//go:norace
func addMask(row, mask []float64, slope float64) {
	for i, m := range mask {
		row[i] += slope * m
	}
}

// softmax replaces row by its softmax; sink is an additional logit without output.
//
//go:norace
func softmax(row []float64, sink float64) {
	top := sink
	for _, v := range row {
		top = max(top, v)
	}
	total := math.Exp(sink - top)
	for i, v := range row {
		row[i] = math.Exp(v - top)
		total += row[i]
	}
	for i := range row {
		row[i] /= total
	}
}

// ALiBiSlope returns the slope of head h of heads. With n the largest power of
// two ≤ heads: 2^(−maxBias·(h+1)/n) for h < n, else 2^(−maxBias·(2(h−n)+1)/2n);
// 1 when maxBias is 0.
func ALiBiSlope(h, heads int64, maxBias float64) float64 {
	if maxBias <= 0 {
		return 1
	}
	n := int64(1)
	for 2*n <= heads {
		n *= 2
	}
	if h < n {
		return math.Exp2(-maxBias * float64(h+1) / float64(n))
	}
	return math.Exp2(-maxBias * float64(2*(h-n)+1) / float64(2*n))
}

// SoftMaxExtBack returns the gradient of SoftMaxExt with respect to a, from its
// result y: scale·y·(dy − Σ(y·dy)), row by row. All shapes are equal.
func SoftMaxExtBack(dy, y Tensor, scale float64) Tensor {
	sameShape("SoftMaxExtBack", dy, y)
	out := New(y.Ne[:]...)
	for r := range y.Rows() {
		ys, gs, dst := y.Row(r), dy.Row(r), out.Row(r)
		along := dot(ys, gs)
		for i := range dst {
			dst[i] = scale * ys[i] * (gs[i] - along)
		}
	}
	return out
}

// LogSumExp returns log Σeˣ without overflow.
//
//go:norace
func LogSumExp(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	total := 0.0
	for _, v := range x {
		total += math.Exp(v - top)
	}
	return top + math.Log(total)
}

// CrossEntropyLoss returns −Σ labels·log softmax(logits) / rows, [1]. labels
// has the shape of logits, each row a distribution (one-hot or soft).
func CrossEntropyLoss(logits, labels Tensor) Tensor {
	sameShape("CrossEntropyLoss", logits, labels)
	loss := 0.0
	for r := range logits.Rows() {
		row := logits.Row(r)
		lse := LogSumExp(row)
		for i, p := range labels.Row(r) {
			loss -= p * (row[i] - lse)
		}
	}
	return From([]float64{loss / float64(logits.Rows())})
}

// CrossEntropyLossBack returns grad·(softmax(logits) − labels) / rows, the
// gradient with respect to the logits when each row of labels sums to 1.
// ggml_cross_entropy_loss_back takes (grad, logits, labels) in this order,
// although its header names them differently.
func CrossEntropyLossBack(grad, logits, labels Tensor) Tensor {
	sameShape("CrossEntropyLossBack", logits, labels)
	check(len(grad.Data) == 1, "CrossEntropyLossBack: gradient %v is not a scalar", grad.Ne)
	return Scale(Sub(SoftMax(logits), labels), grad.Data[0]/float64(logits.Rows()))
}

// CrossEntropy returns, for each row of logits and its label, −log softmax(logits)[label], the maximum, and
// Σ exp(logits − max): [rows, 3].
func CrossEntropy(logits, labels Tensor) Tensor {
	n := logits.Rows()
	all := New(n, 3)
	for r := range n {
		row := logits.Row(r)
		top := slices.Max(row)
		lse := LogSumExp(row)
		all.Data[r] = lse - row[int(labels.Data[r])]
		all.Data[n+r], all.Data[2*n+r] = top, math.Exp(lse-top)
	}
	return all
}

// CrossEntropyBack returns weight · (softmax(logits) − onehot(label)) of each row.
func CrossEntropyBack(logits, labels, weights Tensor) Tensor {
	d := SoftMax(logits)
	for r := range d.Rows() {
		row := d.Row(r)
		row[int(labels.Data[r])]--
		for i := range row {
			row[i] *= weights.Data[r]
		}
	}
	return d
}

// FlashAttnExt returns attention softmax(s)·v for q [k, n, heads, batch],
// k [k, kv, kvHeads, batch], v [dv, kv, kvHeads, batch] (not transposed) and an
// optional mask [kv, ≥ n, m2, m3], shared as in SoftMaxExt. Consecutive groups
// of heads/kvHeads query heads share a key head. With u = scale·qᵀk:
// s = u, or softcap·tanh(u/softcap) when softcap is not 0; then ALiBi slope·mask
// is added. sinks [heads] is optional. Result [dv, heads, n, batch], permuted.
func FlashAttnExt(q, k, v, mask, sinks Tensor, scale, maxBias, softcap float64) Tensor {
	scores := Scale(MulMat(k, q), scale)
	if softcap != 0 {
		scores = Map(scores, func(x float64) float64 { return softcap * math.Tanh(x/softcap) })
	}
	p := SoftMaxExt(scores, mask, sinks, 1, maxBias)
	return Permute(MulMat(Transpose(v), p), 0, 2, 1, 3)
}

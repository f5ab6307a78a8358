package refmath

import "math"

// mapRows returns a tensor of a's shape; f fills each row dst from a's row.
func mapRows(a Tensor, f func(dst, row []float64)) Tensor {
	out := New(a.Ne[:]...)
	for r := range a.Rows() {
		f(out.Row(r), a.Row(r))
	}
	return out
}

// Norm returns (a − mean) / √(variance + eps) along each row; the variance
// divides by n.
func Norm(a Tensor, eps float64) Tensor {
	return mapRows(a, func(dst, row []float64) { normalise(dst, row, eps) })
}

func normalise(dst, src []float64, eps float64) {
	n := float64(len(src))
	mean := sum(src) / n
	variance := 0.0
	for _, x := range src {
		variance += (x - mean) * (x - mean) / n
	}
	for i, x := range src {
		dst[i] = (x - mean) / math.Sqrt(variance+eps)
	}
}

// RMSNorm returns a / √(mean(a²) + eps) along each row.
func RMSNorm(a Tensor, eps float64) Tensor {
	return mapRows(a, func(dst, row []float64) {
		r := 1 / math.Sqrt(dot(row, row)/float64(len(row))+eps)
		for i, x := range row {
			dst[i] = x * r
		}
	})
}

// RMSNormBack returns the gradient of RMSNorm at x, with r = 1/√(mean(x²)+eps)
// and n = ne0: dx = r·(dy − x·r²·Σ(x·dy)/n), row by row. All shapes are equal.
// ggml_rms_norm_back takes its operands in this order too, although its header
// names them the other way round.
func RMSNormBack(dy, x Tensor, eps float64) Tensor {
	sameShape("RMSNormBack", dy, x)
	out := New(x.Ne[:]...)
	n := float64(x.Ne[0])
	for r := range x.Rows() {
		xs, gs, dst := x.Row(r), dy.Row(r), out.Row(r)
		inv := 1 / math.Sqrt(dot(xs, xs)/n+eps)
		along := inv * inv * dot(xs, gs) / n
		for i := range dst {
			dst[i] = inv * (gs[i] - xs[i]*along)
		}
	}
	return out
}

// NormBack returns the gradient of Norm at x. All shapes are equal.
func NormBack(dy, x Tensor, eps float64) Tensor {
	centred := func(a Tensor) Tensor {
		return mapRows(a, func(dst, row []float64) {
			mean := sum(row) / float64(len(row))
			for i, x := range row {
				dst[i] = x - mean
			}
		})
	}
	return centred(RMSNormBack(dy, centred(x), eps))
}

// L2Norm returns a / max(√Σa², eps) along each row.
func L2Norm(a Tensor, eps float64) Tensor {
	return mapRows(a, func(dst, row []float64) {
		length := max(math.Sqrt(dot(row, row)), eps)
		for i, x := range row {
			dst[i] = x / length
		}
	})
}

// GroupNorm normalises as Norm does, but over groups of consecutive channels:
// a [w, h, channels, batch] has ⌈channels/groups⌉ channels in each group, the
// last group maybe fewer.
func GroupNorm(a Tensor, groups int64, eps float64) Tensor {
	check(groups > 0, "GroupNorm: %d groups", groups)
	out := New(a.Ne[:]...)
	plane := a.Ne[0] * a.Ne[1]
	perGroup := (a.Ne[2] + groups - 1) / groups
	for i3 := range a.Ne[3] {
		for first := int64(0); first < a.Ne[2]; first += perGroup {
			start := plane * (first + a.Ne[2]*i3)
			end := start + plane*min(perGroup, a.Ne[2]-first)
			normalise(out.Data[start:end], a.Data[start:end], eps)
		}
	}
	return out
}

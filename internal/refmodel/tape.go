package refmodel

import "slices"

// A value is a matrix: of results a row for each token, of a weight [in, out] one for
// each output. Its gradient is nil where nothing that is wanted lies upstream.
type value struct {
	width      int
	data, grad []float64
}

func (v *value) rows() int           { return len(v.data) / v.width }
func (v *value) row(i int) []float64 { return v.data[i*v.width : (i+1)*v.width] }

// gradRow is nil where there is no gradient.
func (v *value) gradRow(i int) []float64 {
	if v.grad == nil {
		return nil
	}
	return v.grad[i*v.width : (i+1)*v.width]
}

// A tape differentiates in reverse mode: each operation leaves its vector-Jacobian
// product, which adds to the gradients of the inputs from that of the result, and
// backward runs them from the last to the first.
type tape struct{ products []func() }

func (t *tape) backward() {
	for _, product := range slices.Backward(t.products) {
		product()
	}
}

// result makes room for what is computed from inputs.
func (t *tape) result(rows, width int, inputs ...*value) *value {
	y := &value{width: width, data: make([]float64, rows*width)}
	if slices.ContainsFunc(inputs, func(x *value) bool { return x.grad != nil }) {
		y.grad = make([]float64, len(y.data))
	}
	return y
}

func (t *tape) record(y *value, product func()) {
	if y.grad != nil {
		t.products = append(t.products, product)
	}
}

// addScaled adds s·x to dst, if there is one. The inner loops are marked go:norace: a model is one goroutine's, and the
// race detector would make them several times slower.
//
//go:norace
func addScaled(dst []float64, s float64, x []float64) {
	if dst == nil {
		return
	}
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] += s * v
	}
}

// dot adds up in four parts, which do not wait for each other.
//
//go:norace
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return s0 + s1 + s2 + s3
}

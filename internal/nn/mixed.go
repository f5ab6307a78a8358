package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// Mix returns the pairs of several adapters for graphs whose tokens use one adapter each ([Tape.Mixed], [Feed.Owners]). The product
// with a matrix is computed once for all tokens. The low-rank products A·x are computed for all adapters, and set to zero
// for the adapters that a token does not use.
func Mix(list []Adapters) Adapters {
	mixed := Adapters{}
	for owner, adapters := range list {
		for name, pairs := range adapters {
			for _, p := range pairs {
				p.Owner = owner
				mixed[name] = append(mixed[name], p)
			}
		}
	}
	return mixed
}

// Owners returns the input [adapters, n] that is 1 at the adapter of each column, else 0. A token has one column, or several
// in a row.
func (t *Tape) Owners(n int64) *ggml.Tensor {
	count := t.Mixed
	return Declare(t.Inputs, fmt.Sprintf("adapter_owners_%d", n), ggml.F32, []int64{int64(count), n}, func(f *Feed, x []float32) {
		for i := range int(n) {
			x[i*count+f.Owners[i*len(f.Owners)/int(n)]] = 1
		}
	})
}

// owned sets the columns of a low-rank product h [r, n] or [r, used, n] to zero whose tokens do not have the pair's adapter.
func (t *Tape) owned(h *ggml.Tensor, p LoRAPair) *ggml.Tensor {
	if t.Mixed == 0 {
		return h
	}
	n := h.Dim(1)
	if h.Dim(2) > 1 {
		n = h.Dim(2)
	}
	owners := t.Owners(n)
	shape, strides := []int64{1, n}, []int64{owners.Stride(1)}
	if h.Dim(2) > 1 {
		shape, strides = []int64{1, 1, n}, []int64{owners.Stride(1), owners.Stride(1)}
	}
	return t.C.Mul(h, t.C.View(owners, shape, strides, int64(p.Owner)*owners.Stride(0)))
}

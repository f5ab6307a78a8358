package arch

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// Relative is a bias of scores by the distance of query and key (T5, arXiv 1910.10683). Distances share Buckets, more of
// them the larger they are; half of the buckets are for keys after the query. The zero value adds nothing.
type Relative struct{ Buckets int }

// farthestBucket is the distance from which on all distances share a bucket.
const farthestBucket = 128

// bucket returns the bucket of a key at a distance after the query.
func (r Relative) bucket(distance int) int {
	half, bucket := r.Buckets/2, 0
	if distance > 0 {
		bucket = half
	}
	n := max(distance, -distance)
	exact := half / 2
	if n < exact {
		return bucket + n
	}
	of := float32(math.Log(float64(n)/float64(exact))) * float32(half-exact)
	wide := exact + int(float64(of)/math.Log(float64(farthestBucket)/float64(exact)))
	return bucket + min(wide, half-1)
}

// bias returns the bias [n, n, heads] of keys and queries of a sequence of length n. A layer without weights of its own
// has the bias of the first layer.
func (r Relative) bias(p Place, t *nn.Tape, heads int, n int64) *ggml.Tensor {
	if r.Buckets == 0 {
		return nil
	}
	shape := []int64{int64(heads), int64(r.Buckets)}
	w := p.Weight(Weight{Kind: "attn_rel_b", Shape: shape, Role: Position, KeepType: true, Optional: p.block > 0})
	if w == nil {
		return p.beside.relative
	}
	buckets := nn.Declare(t.Inputs, "relative buckets", ggml.I32, []int64{n * n}, func(_ *nn.Feed, x []int32) {
		for i := range x {
			key, query := i%int(n), i/int(n)
			x[i] = int32(r.bucket(key - query))
		}
	})
	c := t.C
	rows := c.Reshape(c.GetRows(w, buckets), int64(heads), n, n)
	bias := c.Cont(c.Permute(rows, [4]int{2, 0, 1, 3})) // [heads, n, n] → [n, n, heads]
	if p.block == 0 {
		p.beside.relative = bias
	}
	return bias
}

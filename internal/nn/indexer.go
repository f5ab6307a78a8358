package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// An Indexer scores the keys of each query for sparse attention (arXiv 2512.02556): Σₕ Weights·relu(Q·K) over its heads.
type Indexer struct {
	Q       *Value // [size, heads, n]
	K       *Value // [size, 1, n]
	Weights *Value // [heads, n]
	Keys    int    // that each query chooses
}

// A Chosen lists the keys that each query attends to, of those that it sees; nil stands for all.
type Chosen struct {
	block int64          // number of queries in a block
	ids   []*ggml.Tensor // of each block: keys I32 [k, n·batch]; nil: all
}

// IndexOperands are queries Q [size, heads, n, batch], keys K [size, 1, keys, batch] and Weights [heads, n, 1, batch]. Mask
// [keys, n, 1, batch], F16 or F32, is added to the scores.
type IndexOperands struct{ Q, K, Weights, Mask *ggml.Tensor }

// IndexScores are the scores of an [Indexer], [keys, n, 1, batch], without gradients.
var IndexScores = &Op[IndexOperands, *ggml.Tensor]{plainIndexScores}

// lightningIndexer is a row for devices that have the op.
var lightningIndexer = IndexScores.When(func(t *Tape, o IndexOperands) bool {
	return t.Lowering.Supports != nil && t.Lowering.Supports(lightningScores(t, o))
}, lightningScores)

func lightningScores(t *Tape, o IndexOperands) *ggml.Tensor {
	if o.Mask.Type() != ggml.F16 {
		o.Mask = t.C.Cast(o.Mask, ggml.F16) // very low values become −∞
	}
	return t.C.LightningIndexer(o.Q, o.K, o.Weights, o.Mask)
}

// plainIndexScores goes through groups of heads: the products of all heads would be most of the memory.
func plainIndexScores(t *Tape, o IndexOperands) *ggml.Tensor {
	const elements = 1 << 24 // of products at a time
	c, heads, n, batch := t.C, o.Q.Dim(1), o.Q.Dim(2), o.Q.Dim(3)
	keys := c.Permute(o.K, [4]int{0, 2, 1, 3}) // [size, keys, 1, batch]
	each := max(1, elements/max(1, o.K.Dim(2)*n*batch))
	scores := o.Mask
	if scores.Type() != ggml.F32 {
		scores = c.Cast(scores, ggml.F32)
	}
	for from := int64(0); from < heads; from += each {
		some := min(each, heads-from)
		q := c.View(o.Q, []int64{o.Q.Dim(0), some, n, batch}, []int64{o.Q.Stride(1), o.Q.Stride(2), o.Q.Stride(3)}, from*o.Q.Stride(1))
		products := c.MulMat(keys, c.Cont(c.Permute(q, [4]int{0, 2, 1, 3}))).SetAccPrecision(ggml.PrecisionF32) // [keys, n, heads, batch]
		byHead := c.Relu(c.Cont(c.Permute(products, [4]int{2, 1, 0, 3})))                                       // [heads, n, keys, batch]
		weights := c.View(o.Weights, []int64{some, n, 1, batch}, []int64{o.Weights.Stride(1), o.Weights.Stride(2), o.Weights.Stride(3)}, from*o.Weights.Stride(0))
		sums := c.SumRows(c.Mul(byHead, c.Cont(weights))) // [1, n, keys, batch]
		scores = c.Add(c.Cont(c.Permute(sums, [4]int{2, 1, 0, 3})), scores)
	}
	return scores
}

// chosenBlock is the number of queries whose keys are chosen at a time, since the scores of all would take memory that is
// quadratic in the length.
const chosenBlock = 128

// Choose returns the keys that the queries of whole sequences choose. A checkpoint keeps the choice, see [Tape.Saved].
func (t *Tape) Choose(x Indexer, o AttentionOptions) *Chosen {
	tokens := x.Q.T.Dim(2)
	n := tokens / o.Rows
	if n <= int64(x.Keys) {
		return nil
	}
	q, k := t.Sequences(x.Q, o.Rows).T, t.Sequences(x.K, o.Rows).T
	a := t.visibleKeys(AttentionOperands{Q: q, K: k}, o)
	chosen := &Chosen{block: chosenBlock}
	for from := int64(0); from < n; from += chosenBlock {
		to := min(from+chosenBlock, n)
		if to <= int64(x.Keys) {
			chosen.ids = append(chosen.ids, nil)
			continue
		}
		chosen.ids = append(chosen.ids, t.savedOf(columnRange{from * o.Rows, to * o.Rows}, func() *ggml.Tensor {
			mask := hiddenKeys(t, a, &scoreBlock{from: from, to: to, end: to}, chosenBlock)
			return t.bestKeys(x.operands(t.C, a, from, to, mask), x.Keys)
		}))
	}
	return chosen
}

// operands are the queries [from, to), and the keys before to.
func (x Indexer) operands(c *ggml.Context, a AttentionOperands, from, to int64, mask *ggml.Tensor) IndexOperands {
	tokens := func(x *ggml.Tensor, from int64) *ggml.Tensor { // of x [size, heads, n, batch]
		return c.View(x, []int64{x.Dim(0), x.Dim(1), to - from, x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, from*x.Stride(2))
	}
	w := x.Weights.T
	ofRow := a.Q.Dim(2) * w.Stride(1)
	weights := c.View(w, []int64{w.Dim(0), to - from, 1, a.Q.Dim(3)}, []int64{w.Stride(1), ofRow, ofRow}, from*w.Stride(1))
	return IndexOperands{Q: tokens(a.Q, from), K: tokens(a.K, 0), Weights: weights, Mask: mask}
}

// bestKeys returns the k keys of the largest scores, I32 [k, n·batch].
func (t *Tape) bestKeys(o IndexOperands, k int) *ggml.Tensor {
	best := t.C.TopK(IndexScores.Build(t, o), k)
	return t.C.Reshape(best, best.Dim(0), best.Dim(1)*best.Dim(3))
}

// ChooseCached returns the keys that the queries of a pass choose, n of each slot, from cached keys [size, 1, keys, slots] with
// the mask of attention, F16 [keys, n, 1, slots].
func (t *Tape) ChooseCached(x Indexer, keys, mask *ggml.Tensor) *Chosen {
	c, q, slots := t.C, x.Q.T, keys.Dim(3)
	if keys.Dim(2) <= int64(x.Keys) {
		return nil
	}
	n := q.Dim(2) / max(1, slots)
	return &Chosen{n, []*ggml.Tensor{t.bestKeys(IndexOperands{
		Q: c.Reshape(q, q.Dim(0), q.Dim(1), n, slots), K: keys, Weights: c.Reshape(x.Weights.T, x.Weights.T.Dim(0), n, 1, slots), Mask: mask,
	}, x.Keys)}}
}

// hideOthers returns the mask [keys, n, 1, batch or 1] of the queries from a token on. At keys that they did not choose, it
// has the value.
func (x *Chosen) hideOthers(c *ggml.Context, mask *ggml.Tensor, from int64, value float32) *ggml.Tensor {
	if x == nil || x.ids[from/x.block] == nil {
		return mask
	}
	ids := x.ids[from/x.block]
	keys, n := mask.Dim(0), mask.Dim(1)
	batch := ids.Dim(1) / max(1, n) // 0 if an op failed
	if mask.Dim(3) != batch {
		mask = c.Repeat(mask, keys, n, 1, batch)
	}
	rows := c.Reshape(mask, 1, keys, n*batch)
	chosen := c.SetRows(c.Fill(rows, value), c.GetRows(rows, ids), ids)
	return c.Reshape(chosen, keys, n, 1, batch)
}

// Only returns the mask of a cache, F16 [keys, n, 1, slots], which also hides the keys that a pass did not choose.
func (x *Chosen) Only(c *ggml.Context, mask *ggml.Tensor) *ggml.Tensor {
	return x.hideOthers(c, mask, 0, float32(math.Inf(-1)))
}

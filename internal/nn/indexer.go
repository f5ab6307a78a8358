package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// An Indexer scores the keys of each query for sparse attention (arXiv 2512.02556): Σₕ Weights·relu(Q·K) over its heads.
type Indexer struct {
	Q       *Value // [size, heads, n]
	K       *Value // [size, 1, n], or of pools
	Weights *Value // [heads, n]
	Keys    int    // that each query chooses
	// Pooling says that K are of pools, which are chosen whole, beside the tokens that a query always sees. The zero value is no
	// pools. Without Weights, Q has one head, K has all keys of each pool, and the score of a pool is its largest Q·K.
	Pooling Pooling
}

// A Chosen lists the keys that each query attends to, of those that it sees; nil stands for all.
type Chosen struct {
	block int64          // number of queries in a block
	ids   []*ggml.Tensor // of each block: keys I32 [k, n·batch]; nil: all
	pools *chosenPools   // if ids are pools, I32 [k, n·batch]
}

// IndexOperands are queries Q [size, heads, n, batch], keys K [size, 1, keys, batch] and Weights [heads, n, 1, batch]. Mask
// [keys, n, 1, batch], F16 or F32, is added to the scores. Without Weights, K has several keys for each of the mask's.
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

// largestProducts are the scores without Weights: the largest product of each query with the keys of each pool, plus the mask.
func largestProducts(c *ggml.Context, o IndexOperands) *ggml.Tensor {
	pools, n, batch := o.Mask.Dim(0), o.Q.Dim(2), o.Q.Dim(3)
	products := c.MulMat(c.Permute(o.K, [4]int{0, 2, 1, 3}), c.Cont(c.Permute(o.Q, [4]int{0, 2, 1, 3}))).SetAccPrecision(ggml.PrecisionF32) // [keys, n, 1, batch]
	all := pools * n * batch
	members := c.Reshape(products, products.NumElements()/max(1, all), all)
	largest := c.GetRows(c.Reshape(members, 1, members.Dim(0), all), c.Reshape(c.ArgMax(members), 1, all))
	return c.Add(c.Reshape(largest, pools, n, 1, batch), c.Cast(o.Mask, ggml.F32))
}

// onesOf identifies a matrix of ones.
type onesOf struct{ m, n int64 }

// Ones is a matrix of ones [m, n], such as the weights of an indexer whose heads count alike.
func (t *Tape) Ones(m, n int64) *ggml.Tensor {
	return t.constant(onesOf{m, n}, func() *ggml.Tensor {
		return t.C.Repeat(t.C.ScaleBias(t.C.Arange(0, 1, 1), 0, 1), m, n)
	})
}

// chosenBlock is the number of queries whose keys are chosen at a time, since the scores of all would take memory that is
// quadratic in the length.
const chosenBlock = 128

// Choose returns the keys that the queries of whole sequences choose. A checkpoint keeps the choice, see [Tape.Saved].
func (t *Tape) Choose(x Indexer, o AttentionOptions) *Chosen {
	if x.Pooling.Every > 0 {
		return t.choosePools(x, o)
	}
	tokens := x.Q.T.Dim(2)
	n := tokens / o.Rows
	if n <= int64(x.Keys) {
		return nil
	}
	a := x.visible(t, o)
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

// choosePools is Choose of whole pools.
func (t *Tape) choosePools(x Indexer, o AttentionOptions) *Chosen {
	n, most := x.Q.T.Dim(2)/o.Rows, x.Keys/x.Pooling.Every
	l := newPoolLayout(x.Pooling, n, o.Rows, o.Packed)
	if l.pools <= int64(most) {
		return nil
	}
	a := x.visible(t, o)
	chosen := &Chosen{block: chosenBlock, pools: &chosenPools{l.pools, l.ofKey(t), l.tail(t)}}
	for from := int64(0); from < n; from += chosenBlock {
		to := min(from+chosenBlock, n)
		pools := to / int64(l.Every) // that may end before
		if pools <= int64(most) {
			chosen.ids = append(chosen.ids, nil)
			continue
		}
		chosen.ids = append(chosen.ids, t.savedOf(columnRange{from * o.Rows, to * o.Rows}, func() *ggml.Tensor {
			return t.bestKeys(x.operands(t.C, a, from, to, l.hidden(t, from, to, pools)), most)
		}))
	}
	return chosen
}

// visible are the queries and keys by rows, with what queries see.
func (x Indexer) visible(t *Tape, o AttentionOptions) AttentionOperands {
	return t.visibleKeys(AttentionOperands{Q: t.Sequences(x.Q, o.Rows).T, K: t.Sequences(x.K, o.Rows).T}, o)
}

// operands are the queries [from, to), and as many keys as the mask has.
func (x Indexer) operands(c *ggml.Context, a AttentionOperands, from, to int64, mask *ggml.Tensor) IndexOperands {
	tokens := func(x *ggml.Tensor, from, to int64) *ggml.Tensor { // of x [size, heads, n, batch]
		return c.View(x, []int64{x.Dim(0), x.Dim(1), to - from, x.Dim(3)}, []int64{x.Stride(1), x.Stride(2), x.Stride(3)}, from*x.Stride(2))
	}
	o := IndexOperands{Q: tokens(a.Q, from, to), Mask: mask}
	if x.Weights == nil {
		o.K = tokens(a.K, 0, mask.Dim(0)*int64(x.Pooling.Every))
		return o
	}
	w := x.Weights.T
	ofRow := a.Q.Dim(2) * w.Stride(1)
	o.K, o.Weights = tokens(a.K, 0, mask.Dim(0)), c.View(w, []int64{w.Dim(0), to - from, 1, a.Q.Dim(3)}, []int64{w.Stride(1), ofRow, ofRow}, from*w.Stride(1))
	return o
}

// bestKeys returns the k keys of the largest scores, I32 [k, n·batch].
func (t *Tape) bestKeys(o IndexOperands, k int) *ggml.Tensor {
	var scores *ggml.Tensor
	if o.Weights == nil {
		scores = largestProducts(t.C, o)
	} else {
		scores = IndexScores.Build(t, o)
	}
	best := t.C.TopK(scores, k)
	return t.C.Reshape(best, best.Dim(0), best.Dim(1)*best.Dim(3))
}

// CachedKeys are cached keys of an indexer [size, 1, keys, slots], and the mask of the queries of a pass, F16 [keys or pools, n, 1,
// slots].
type CachedKeys struct {
	Keys, Mask *ggml.Tensor
	// Of pools: the pool of each key of attention, I32 [attended, slots], and the first key that each query always sees, F32 [n,
	// slots].
	PoolOfKey, Tail *ggml.Tensor
}

// ChooseCached returns the keys that the queries of a pass choose, n of each slot.
func (t *Tape) ChooseCached(x Indexer, k CachedKeys) *Chosen {
	c, q, slots, most := t.C, x.Q.T, k.Keys.Dim(3), x.Keys/max(1, x.Pooling.Every)
	if k.Mask.Dim(0) <= int64(most) {
		return nil
	}
	n := q.Dim(2) / max(1, slots)
	o := IndexOperands{Q: c.Reshape(q, q.Dim(0), q.Dim(1), n, slots), K: k.Keys, Mask: k.Mask}
	if x.Weights != nil {
		o.Weights = c.Reshape(x.Weights.T, x.Weights.T.Dim(0), n, 1, slots)
	}
	ids := t.bestKeys(o, most)
	chosen := &Chosen{block: n, ids: []*ggml.Tensor{ids}}
	if k.PoolOfKey != nil {
		chosen.pools = &chosenPools{k.Mask.Dim(0), k.PoolOfKey, func(ggml.Type) *ggml.Tensor { return k.Tail }}
	}
	return chosen
}

// hideOthers returns the mask [keys, n, 1, batch or 1] of a block's queries. At keys that they did not choose, it is −1e30.
func (x *Chosen) hideOthers(c *ggml.Context, mask *ggml.Tensor, b *scoreBlock) *ggml.Tensor {
	if x == nil || x.ids[b.from/x.block] == nil {
		return mask
	}
	ids := x.ids[b.from/x.block]
	if batch := ids.Dim(1) / max(1, mask.Dim(1)); mask.Dim(3) != batch { // 0 if an op failed
		mask = c.Repeat(mask, mask.Dim(0), mask.Dim(1), 1, batch)
	}
	if x.pools != nil {
		return c.Add(mask, x.pools.hidden(c, ids, b))
	}
	return showKeys(c, mask, ids, -masked)
}

// Only returns the mask of a cache, F16 [keys, n, 1, slots], which also hides the keys that a pass did not choose.
func (x *Chosen) Only(c *ggml.Context, mask *ggml.Tensor) *ggml.Tensor {
	if x == nil || x.ids[0] == nil {
		return mask
	}
	if x.pools != nil {
		b := &scoreBlock{to: mask.Dim(1), end: mask.Dim(0)}
		return c.Cast(c.Add(c.Cast(mask, ggml.F32), x.pools.hidden(c, x.ids[0], b)), ggml.F16) // very low values become −∞
	}
	return showKeys(c, mask, x.ids[0], float32(math.Inf(-1)))
}

// showKeys returns the mask with a value at all but the keys [k, n·batch].
func showKeys(c *ggml.Context, mask, keys *ggml.Tensor, value float32) *ggml.Tensor {
	rows := c.Reshape(mask, 1, mask.Dim(0), mask.Dim(1)*mask.Dim(3))
	return c.Reshape(c.SetRows(c.Fill(rows, value), c.GetRows(rows, keys), keys), mask.Shape()...)
}

// chosenPools returns the keys that queries see: the keys of the pools that each query chose, and the keys that it always sees. If
// a query has fewer pools to choose from, the other chosen ones lie after it, or it always sees them.
type chosenPools struct {
	count int64        // of pools
	ofKey *ggml.Tensor // I32 [keys, batch]: the pool of each key; any, of a key that is in none
	tail  KeyOfQuery
}

// hidden [keys, n, 1, batch] is very low where a block's queries do not see a key.
func (p *chosenPools) hidden(c *ggml.Context, chosen *ggml.Tensor, b *scoreBlock) *ggml.Tensor {
	keys, batch := b.end, p.ofKey.Dim(1)
	n := chosen.Dim(1) / batch
	all := func(value float32, rows int64) *ggml.Tensor {
		return c.Repeat(c.ScaleBias(c.Arange(0, 1, 1), 0, value), 1, rows, n*batch)
	}
	swapped := func(x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Permute(x, [4]int{1, 0, 2, 3})) }
	pools := c.Reshape(c.SetRows(all(-masked, p.count), all(0, chosen.Dim(0)), chosen), p.count, n, batch)
	ofKey := c.Cont(c.View(p.ofKey, []int64{keys, batch}, []int64{p.ofKey.Stride(1)}, 0))
	hidden := c.Reshape(swapped(c.GetRows(swapped(pools), ofKey)), keys, n, 1, batch)
	before := c.Clamp(c.Sub(keyOf(c, p.tail, b), c.Arange(0, float32(keys), 1)), 0, 1) // 1 before the tail
	return c.Mul(hidden, before)
}

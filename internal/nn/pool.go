package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// A Pooling divides the tokens of a sequence or sample into pools of Every adjacent tokens. An incomplete pool at the end is
// left out.
type Pooling struct {
	Every    int
	Overlaps bool // a pool also has the tokens of the one before it
	// Local is the number of pools that a query always sees: the last ones up to its own, complete or not. 0: its own if incomplete.
	Local int
}

// Before returns how many pools come before those that a query at a position always sees.
func (p Pooling) Before(position int) int {
	if p.Local == 0 {
		return (position + 1) / p.Every
	}
	return max(0, position/p.Every+1-p.Local)
}

// Parts is the number of adjacent pools whose tokens a pool has.
func (p Pooling) Parts() int {
	if p.Overlaps {
		return 2
	}
	return 1
}

// PoolMembers are the tokens of pools. Positions before a sequence's first token have scores so low that they weigh nothing.
type PoolMembers struct {
	Values, Scores              *Value        // [size, members, pools]; without scores, members weigh alike
	Positions, SectionPositions PositionInput // of the first token of each pool, see [Tape.SectionPositions]
}

// AbsentScore is the score of an absent member.
const AbsentScore = -masked

// GatherPools returns the members of the pools of whole sequences, from values and scores [size·parts, n·rows] of each token, or
// from values alone; nil if sequences are shorter than a pool. In each row as many pools as fit follow each other; where samples
// leave fewer, the last ones repeat a token.
func (t *Tape) GatherPools(values, scores *Value, p Pooling, rows int64) *PoolMembers {
	l := newPoolLayout(p, values.T.Dim(1)/rows, rows, false) // members are alike
	if l.pools == 0 {
		return nil
	}
	m := &PoolMembers{Values: l.members(t, values), Positions: l.positions(t, "positions", 1, 1), SectionPositions: l.positions(t, "positions of sections", 4, 3)}
	if scores != nil {
		m.Scores = l.hideAbsent(t, l.members(t, scores))
	}
	return m
}

// KeysOfPools gathers the keys of the pools of whole sequences, of k [size, 1, n·rows] → [size, 1, every·pools·rows]; nil if
// sequences are shorter than a pool.
func (t *Tape) KeysOfPools(k *Value, p Pooling, rows int64) *Value {
	m := t.GatherPools(t.Flat(k), nil, p, rows)
	if m == nil {
		return nil
	}
	return t.Unflatten(t.Flatten(m.Values), 1)
}

// A poolLayout says where pools lie in rows of n tokens.
type poolLayout struct {
	Pooling
	n, rows, pools int64 // pools: in each row
	packed         bool  // rows may hold several samples
}

func newPoolLayout(p Pooling, n, rows int64, packed bool) poolLayout {
	return poolLayout{p, n, rows, n / int64(p.Every), packed}
}

// each calls f for each pool with the index of its last token in the batch.
func (l poolLayout) each(f *Feed, do func(pool, last int)) {
	for row := range int(l.rows) {
		pool := row * int(l.pools)
		for i := row * f.Length(); i < (row+1)*f.Length(); i++ {
			if (int(f.Positions[i])+1)%l.Every == 0 {
				do(pool, i)
				pool++
			}
		}
	}
}

// name identifies an input of the layout.
func (l poolLayout) name(what string) string {
	return fmt.Sprintf("%s of pools %v of %v", what, l.Pooling, l.n)
}

// members gathers x [size·parts, n·rows] → [size, members, pools].
func (l poolLayout) members(t *Tape, x *Value) *Value {
	parts := int64(l.Parts())
	sizes := make([]int64, parts)
	for i := range sizes {
		sizes[i] = x.T.Dim(0) / parts
	}
	var all *Value
	for i, part := range t.Split(x, sizes...) {
		part = t.gather(part, l.tokens(t, i), l.columns(t, i))
		part = t.Unflatten(part, int64(l.Every))
		if all == nil {
			all = part
		} else {
			all = t.stack(all, part)
		}
	}
	return all
}

// back is the distance from a pool's last token to the last one of a part.
func (l poolLayout) back(part int) int { return (l.Parts() - 1 - part) * l.Every }

// tokens is the input of the tokens of each pool in a part [every·pools].
func (l poolLayout) tokens(t *Tape, part int) *ggml.Tensor {
	return Declare(t.Inputs, l.name(fmt.Sprint("tokens in part ", part)), ggml.I32, []int64{int64(l.Every) * l.pools * l.rows}, func(f *Feed, x []int32) {
		l.each(f, func(pool, last int) {
			for i := range l.Every {
				if back := l.back(part) + l.Every - 1 - i; back <= int(f.Positions[last]) {
					x[pool*l.Every+i] = int32(last - back)
				} else {
					x[pool*l.Every+i] = int32(last)
				}
			}
		})
	})
}

// columns is the input of the places of tokens in a part's members [n·rows]; the place behind them for tokens that are none.
func (l poolLayout) columns(t *Tape, part int) *ggml.Tensor {
	return Declare(t.Inputs, l.name(fmt.Sprint("columns in part ", part)), ggml.I32, []int64{l.n * l.rows}, func(f *Feed, x []int32) {
		for i := range x {
			x[i] = int32(int64(l.Every) * l.pools * l.rows)
		}
		l.each(f, func(pool, last int) {
			for i := range l.Every {
				if back := l.back(part) + l.Every - 1 - i; back <= int(f.Positions[last]) {
					x[last-back] = int32(pool*l.Every + i)
				}
			}
		})
	})
}

// hideAbsent lowers the scores of members before a sample's first token.
func (l poolLayout) hideAbsent(t *Tape, scores *Value) *Value {
	if !l.Overlaps {
		return scores
	}
	members := 2 * l.Every
	absent := Declare(t.Inputs, l.name("absent members"), ggml.F32, []int64{1, int64(members), l.pools * l.rows}, func(f *Feed, x []float32) {
		l.each(f, func(pool, last int) {
			for i := range members {
				if members-1-i > int(f.Positions[last]) {
					x[pool*members+i] = AbsentScore
				}
			}
		})
	})
	return t.Op(t.C.Add(scores.T, absent), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{dy} }, scores)
}

// positions is an input: the positions of the pools' first tokens, in sections. The first axes sections hold the positions, the
// others 0.
func (l poolLayout) positions(t *Tape, name string, sections int64, axes int) PositionInput {
	return func(negated bool) *ggml.Tensor {
		name, sign := l.name(name), int32(1)
		if negated {
			name, sign = "negated "+name, -1
		}
		all := l.pools * l.rows
		return Declare(t.Inputs, name, ggml.I32, []int64{sections * all}, func(f *Feed, x []int32) {
			l.each(f, func(pool, last int) {
				for axis := range axes {
					x[axis*int(all)+pool] = sign * (f.Positions[last] + 1 - int32(l.Every))
				}
			})
		})
	}
}

// bounds are the inputs of the first and the last token of each pool in its row [pools, rows]. A row's surplus
// elements have a last token after all queries.
func (l poolLayout) bounds(t *Tape) (first, last *ggml.Tensor) {
	shape := []int64{l.pools, l.rows}
	first = Declare(t.Inputs, l.name("first tokens"), ggml.F32, shape, func(f *Feed, x []float32) {
		l.each(f, func(pool, last int) { x[pool] = float32(last%f.Length() + 1 - l.Every) })
	})
	last = Declare(t.Inputs, l.name("last tokens"), ggml.F32, shape, func(f *Feed, x []float32) {
		for i := range x {
			x[i] = float32(2 * l.n)
		}
		l.each(f, func(pool, last int) { x[pool] = float32(last % f.Length()) })
	})
	return first, last
}

// tail is the first key that each query always sees; behind the query if there is none.
func (l poolLayout) tail(t *Tape) KeyOfQuery {
	return t.keyOfQuery(l.name("tails"), l.n, l.rows, func(f *Feed, i int) int32 {
		position := int(f.Positions[i])
		return int32(i%f.Length() - position + l.Before(position)*l.Every)
	})
}

// hidden [pools, n, 1, batch] is 0 where the queries [from, to) may choose one of the first pools, and very low where not: a pool
// ends before the keys that a query always sees, and begins in its sample.
func (l poolLayout) hidden(t *Tape, from, to, pools int64) *ggml.Tensor {
	c, n := t.C, to-from
	first, last := l.bounds(t)
	of := func(x *ggml.Tensor) *ggml.Tensor {
		part := c.Cont(c.View(x, []int64{pools, 1, 1, l.rows}, []int64{x.Stride(1), x.Stride(1), x.Stride(1)}, 0))
		return c.Repeat(part, pools, n, 1, l.rows)
	}
	b := &scoreBlock{from: from, to: to, end: pools}
	mask := hide(c, nil, c.ScaleBias(c.Sub(keyOf(c, l.tail(t), b), of(last)), 1, -1), masked)
	if l.packed {
		sample := t.firstVisible(Window{}, l.n, l.rows)
		mask = hide(c, mask, c.Sub(of(first), keyOf(c, sample, b)), masked)
	}
	return mask
}

// ofKey is the input of the pool in its row of each token [n, rows]; 0 of a token in none.
func (l poolLayout) ofKey(t *Tape) *ggml.Tensor {
	return Declare(t.Inputs, l.name("pools of keys"), ggml.I32, []int64{l.n, l.rows}, func(f *Feed, x []int32) {
		l.each(f, func(pool, last int) {
			for i := range l.Every {
				x[last-i] = int32(int64(pool) % l.pools)
			}
		})
	})
}

// gather returns the columns of x [m, n] whose indices are in columns. back holds, for each column of x, its index in the
// result, or the result's length if it is not there. So the gradient counts a column once, even if columns names it twice.
func (t *Tape) gather(x *Value, columns, back *ggml.Tensor) *Value {
	return t.Op(t.C.GetRows(x.T, columns), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{t.C.GetRows(t.C.Pad(dy, [4]int{0, 1}), back)}
	}, x)
}

// stack puts y [m, l, n] behind x [m, k, n] → [m, k+l, n].
func (t *Tape) stack(x, y *Value) *Value {
	c := t.C
	part := func(d *ggml.Tensor, of *Value, from int64) *ggml.Tensor {
		return c.Cont(c.View(d, of.T.Shape(), []int64{d.Stride(1), d.Stride(2)}, from*d.Stride(1)))
	}
	return t.Op(c.Concat(x.T, y.T, 1), func(d *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{part(d, x, 0), part(d, y, x.T.Dim(1))}
	}, x, y)
}

// Pool returns the sums over members of values [size, members, pools], weighted for each element by the softmax of the scores
// → [size, pools]. Without scores it returns the means, which have no gradient.
func (t *Tape) Pool(m PoolMembers) *Value {
	c, size, members, pools := t.C, m.Values.T.Dim(0), m.Values.T.Dim(1), m.Values.T.Dim(2)
	transposed := func(x *ggml.Tensor) *ggml.Tensor { // [members, size·pools]
		return c.Reshape(c.Cont(c.Permute(x, [4]int{1, 0, 2, 3})), members, size*pools)
	}
	back := func(d *ggml.Tensor) *ggml.Tensor {
		return c.Cont(c.Permute(c.Reshape(d, members, size, pools), [4]int{1, 0, 2, 3}))
	}
	v := transposed(m.Values.T)
	if m.Scores == nil {
		return Input(c.Reshape(c.Scale(c.SumRows(v), 1/float32(members)), size, pools))
	}
	weights := c.SoftMax(transposed(m.Scores.T))
	y := c.SumRows(c.Mul(v, weights)) // [1, size·pools]
	return t.Op(c.Reshape(y, size, pools), func(dy *ggml.Tensor) []*ggml.Tensor {
		dv := c.Mul(weights, c.Reshape(dy, 1, size*pools))
		return []*ggml.Tensor{back(dv), back(c.Mul(dv, c.Sub(v, y)))}
	}, m.Values, m.Scores)
}

// AddByOffset adds a column of w [m, every] to each column of x [m, n], by the token's offset in its pool.
func (t *Tape) AddByOffset(x *Value, w *ggml.Tensor) *Value {
	every := w.Dim(1)
	offsets := Declare(t.Inputs, fmt.Sprint("offsets in pools of ", every), ggml.I32, []int64{x.T.Dim(1)}, func(f *Feed, x []int32) {
		for i, p := range f.Positions {
			x[i] = p % int32(every)
		}
	})
	y := &Value{T: t.C.Add(x.T, t.C.GetRows(w, offsets)), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return ScatterAdd.Build(t, ScatterOperands{dy, offsets, w}) })
		t.flow(x, func() *ggml.Tensor { return dy })
	})
	return y
}

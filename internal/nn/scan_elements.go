package nn

import "github.com/goggml/ggml"

// scanElements bounds the elements of states in memory: channels are independent, and computed in slices.
const scanElements = 1 << 24

// elementScan is a selective scan with a decay for each element of the state, of x·Δ [1, channels, n] and Δ
// [channels, n]. It combines pairs of tokens, then pairs of pairs (a parallel prefix scan), for all tokens at once.
func (t *Tape) elementScan(s Scan, x, steps *Value) *Value {
	channels, c := x.T.Dim(1), t.C
	var y *ggml.Tensor
	for _, f := range t.scanSlices(s, x, steps) {
		y = joined(c, y, mulMat(c, f.states, f.read), 0)
	}
	v := &Value{T: c.Reshape(y, x.T.Shape()...), needsGrad: x.needsGrad || steps.needsGrad || s.B.needsGrad || s.C.needsGrad || t.Trains(s.A)}
	t.record(v, func(dy *ggml.Tensor) {
		var dx, dSteps, dB, dC, dA *ggml.Tensor
		dy = c.Reshape(contiguous(c, dy), channels, dy.Dim(2))
		for _, f := range t.scanSlices(s, x, steps) { // again
			g := f.grads(t, s.A, dy)
			dx, dSteps, dA = joined(c, dx, g.x, 0), joined(c, dSteps, g.steps, 0), joined(c, dA, g.a, 1)
			dB, dC = added(c, dB, g.b), added(c, dC, g.c)
		}
		t.accumulate(s.A, func() *ggml.Tensor { return dA })
		t.flow(x, func() *ggml.Tensor { return c.Reshape(dx, 1, channels, dx.Dim(2)) })
		t.flow(steps, func() *ggml.Tensor { return c.Reshape(dSteps, channels, dSteps.Dim(2)) })
		t.flow(s.B, func() *ggml.Tensor { return dB })
		t.flow(s.C, func() *ggml.Tensor { return dC })
	})
	return v
}

// A scanSlice is a range of channels of a scan. Decays, inputs and states are [d, channels, n].
type scanSlice struct {
	c            *ggml.Context
	first, count int64        // channels
	a            *ggml.Tensor // [d, channels]
	x, steps     *ggml.Tensor // [1, channels, n]
	write, read  *ggml.Tensor // B and C, [d, 1, n]

	decay, new, states *ggml.Tensor
}

// scanSlices computes the states of all channels.
func (t *Tape) scanSlices(s Scan, x, steps *Value) (list []*scanSlice) {
	c, d, channels, n := t.C, s.A.Dim(0), x.T.Dim(1), x.T.Dim(2)
	goesOn := Declare(t.Inputs, "whether samples go on", ggml.F32, []int64{1, 1, n}, func(f *Feed, x []float32) {
		for i := range x {
			if i < len(f.Positions) && f.Positions[i] > 0 {
				x[i] = 1
			}
		}
	})
	xs, dt := c.Reshape(contiguous(c, x.T), channels, n), contiguous(c, steps.T)
	most := max(1, scanElements/max(1, d*n))
	for first := int64(0); first < max(1, channels); first += most {
		f := &scanSlice{c: c, first: first, count: min(most, channels-first), write: contiguous(c, s.B.T), read: contiguous(c, s.C.T)}
		f.a = c.View(s.A, []int64{d, f.count}, []int64{s.A.Stride(1)}, first*s.A.Stride(1))
		f.x, f.steps = f.channels(xs), f.channels(dt)
		f.decay = c.Mul(c.Exp(c.Mul(c.Repeat(f.a, d, f.count, n), f.steps)), goesOn)
		f.new = c.Mul(c.Repeat(f.write, d, f.count, n), f.x)
		f.states = f.scan(f.decay, f.new, false)
		list = append(list, f)
	}
	return list
}

// channels returns the slice's channels of a contiguous x [channels, n], as [1, channels, n].
func (f *scanSlice) channels(x *ggml.Tensor) *ggml.Tensor {
	return f.c.View(x, []int64{1, f.count, x.Dim(1)}, []int64{x.Stride(0), x.Stride(1)}, f.first*x.Stride(0))
}

// scan returns s[i] = a[i]·s[i−1] + b[i] along the tokens of a and b [d, channels, n], or with back a[i]·s[i+1] + b[i].
func (f *scanSlice) scan(a, b *ggml.Tensor, back bool) *ggml.Tensor {
	c, n := f.c, b.Dim(2)
	m := b.Dim(0) * b.Dim(1)
	return c.Reshape(scanPairs(c, c.Reshape(a, m, n), c.Reshape(b, m, n), back), b.Shape()...)
}

// scanPairs is scan for a and b [m, n]. A scan over pairs gives every other token (arXiv 1709.04057), and these give the
// tokens in between.
func scanPairs(c *ggml.Context, a, b *ggml.Tensor, back bool) *ggml.Tensor {
	m, n := b.Dim(0), b.Dim(1)
	if n <= 1 {
		return b
	}
	if n%2 == 1 {
		longer := func(x *ggml.Tensor) *ggml.Tensor { return c.Pad(x, [4]int{0, 1}) }
		return c.Cont(c.View(scanPairs(c, longer(a), longer(b), back), []int64{m, n}, []int64{b.Stride(1)}, 0))
	}
	pairs, column := n/2, b.Stride(1)
	every := func(x *ggml.Tensor, from int64) *ggml.Tensor {
		return c.View(x, []int64{m, pairs}, []int64{2 * column}, from*column)
	}
	firstOf, lastOf := int64(0), int64(1)
	if back {
		firstOf, lastOf = 1, 0
	}
	aFirst, bFirst, aLast := c.Cont(every(a, firstOf)), c.Cont(every(b, firstOf)), every(a, lastOf)
	last := scanPairs(c, c.Mul(aFirst, aLast), c.Add(c.Mul(bFirst, aLast), every(b, lastOf)), back)
	first := bFirst
	if pairs > 1 {
		some := func(x *ggml.Tensor, from, n int64) *ggml.Tensor {
			return c.View(x, []int64{m, n}, []int64{column}, from*column)
		}
		if back {
			inner := c.Add(c.Mul(some(aFirst, 0, pairs-1), some(last, 1, pairs-1)), some(bFirst, 0, pairs-1))
			first = c.Concat(inner, some(bFirst, pairs-1, 1), 1)
		} else {
			inner := c.Add(c.Mul(some(aFirst, 1, pairs-1), some(last, 0, pairs-1)), some(bFirst, 1, pairs-1))
			first = c.Concat(some(bFirst, 0, 1), inner, 1)
		}
	}
	if back {
		first, last = last, first
	}
	single := func(x *ggml.Tensor) *ggml.Tensor { return c.Reshape(x, m, 1, pairs) }
	return c.Reshape(c.Concat(single(first), single(last), 1), m, n)
}

// scanGrads are gradients of a slice.
type scanGrads struct {
	x, steps *ggml.Tensor // [channels, 1, n]
	b, c     *ggml.Tensor // [d, 1, n]
	a        *ggml.Tensor // [d, channels]; nil where it is not trained
}

// grads returns the gradients of the slice, given the gradient dy [all channels, n].
func (f *scanSlice) grads(t *Tape, a, dy *ggml.Tensor) (g scanGrads) {
	c, d, n := f.c, f.states.Dim(0), f.states.Dim(2)
	byChannel := func(x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Permute(x, [4]int{1, 0, 2, 3})) } // [channels, d, n]
	line := func(x *ggml.Tensor) *ggml.Tensor { return c.Reshape(c.Cont(x), f.count, 1, n) }
	dy = f.channels(dy)
	g.c = mulMat(c, byChannel(f.states), line(dy))

	later := c.Reshape(f.decay, d*f.count, n) // of the token after each
	if n > 1 {
		later = c.Pad(c.View(later, []int64{d * f.count, n - 1}, []int64{later.Stride(1)}, later.Stride(1)), [4]int{0, 1})
	}
	dStates := f.scan(later, c.Mul(c.Repeat(f.read, d, f.count, n), dy), true)
	g.x = mulMat(c, dStates, f.write)
	g.b = mulMat(c, byChannel(dStates), line(f.x))

	dDecay := c.Mul(dStates, c.Sub(f.states, f.new)) // gradient of log decay
	g.steps = c.Reshape(c.SumRows(c.Mul(dDecay, f.a)), f.count, 1, n)
	if t.Trains(a) {
		m := d * f.count
		sum := SumColumns.Build(t, SumOperands{c.Reshape(c.Mul(dDecay, f.steps), m, n), c.Reshape(f.a, m)})
		g.a = c.Reshape(sum, d, f.count)
	}
	return g
}

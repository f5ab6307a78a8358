package fuzz

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
)

// A trial is a call of an op with plain operands, the reference for calls with varied operands.
type trial struct {
	op      op
	program *program
	args    []reflect.Value
	effect  []float64 // how much the result depends on each operand's values
}

// base returns a call that an op accepts, if possible with operands that all affect the result, and with rows
// of whole blocks of any type.
func (s *sweeper) base(op string, flat uint64) *trial {
	key := fmt.Sprint(op, flat)
	if t := s.bases[key]; t != nil {
		return t
	}
	var best *trial
	for seed, left := flat*1000, 8; left > 0 && seed < (flat+1)*1000; seed++ {
		t := s.draw(op, seed)
		if t == nil {
			continue
		}
		if flat > 0 {
			best = t
			break
		}
		left--
		if best == nil || t.rank() > best.rank() {
			best, t = t, best
		}
		if t != nil {
			t.program.close()
		}
		if best.rank() == 1 {
			break
		}
	}
	if best == nil {
		panic("no arguments for " + op)
	}
	s.bases[key] = best
	return best
}

// draw draws a call; nil if the op refuses it.
func (s *sweeper) draw(op string, seed uint64) *trial {
	t := &trial{program: s.program(op, seed)}
	t.op, _ = opOf(op)
	p := t.program
	p.width, p.flat = sweepWidth, seed >= 1000
	t.args = p.arguments(t.op)
	p.invoke(p.trial, t.op, t.args)
	if p.trial.Err() != nil || p.leaves.Err() != nil {
		p.close()
		return nil
	}
	t.effect = make([]float64, len(operands(t.args)))
	for i, a := range operands(t.args) {
		if x := tensorOf(a); x != nil {
			t.effect[i] = s.effect(t, i, x.Type())
		}
	}
	return t
}

func (s *sweeper) program(op string, seed uint64) *program {
	p := &program{Rand: rand.New(rand.NewPCG(seed, 7)), machine: s.machine, used: map[string]bool{op: true}, simple: true}
	p.open()
	return p
}

// rank is 1 for a call in which every operand has an effect.
func (t *trial) rank() float64 {
	r := 1.0
	for i, a := range operands(t.args) {
		x := tensorOf(a)
		if x != nil && t.effect[i] == 0 {
			r -= 0.1
		}
		if x != nil && (x.Dim(0)%sweepWidth != 0 || x.Dim(1) == 1 || x.Dim(2) == 1) {
			r -= 0.01
		}
	}
	return r
}

// tensorOf returns the tensor of an argument, or nil.
func tensorOf(a reflect.Value) *ggml.Tensor {
	t, _ := a.Interface().(*ggml.Tensor)
	return t
}

// A maker returns type, layout and data for an operand that replaces another.
type maker func(operand int, x *ggml.Tensor, data []byte) (ggml.Type, layout, []byte)

// with makes the arguments again, with operands replaced.
func (t *trial) with(p *program, make maker) []reflect.Value {
	args := settable(t.args)
	for i, a := range operands(args) {
		if x := tensorOf(a); x != nil {
			typ, l, data := make(i, x, t.program.leafData(x))
			a.Set(reflect.ValueOf(p.operand(t.op.name, typ, dims(x), l, data)))
		}
	}
	return args
}

// leafData returns the data of a trial's operand.
func (p *program) leafData(t *ggml.Tensor) []byte {
	for _, l := range p.data {
		if l.t.Is(t) {
			return l.data
		}
	}
	panic("an operand of a trial has no data")
}

// operand creates a tensor in a layout, with values given in order.
func (p *program) operand(op string, typ ggml.Type, ne [4]int64, l layout, data []byte) *ggml.Tensor {
	t := p.placed(typ, ne, l)
	if strings.HasPrefix(op, "OptStep") {
		t.SetParam()
	}
	p.data[len(p.data)-1] = leaf{t, data} // replaces the data that placed has drawn
	return t
}

// effect measures how much other values of an operand change the result.
func (s *sweeper) effect(t *trial, operand int, typ ggml.Type) float64 {
	if typ == ggml.I32 || typ == ggml.I64 {
		return 1 // other values may be invalid ids
	}
	var got [2][]float32
	for k := range got {
		p := s.program(t.op.name, 1)
		defer p.close()
		y := p.invoke(p.c, t.op, t.with(p, func(i int, x *ggml.Tensor, data []byte) (ggml.Type, layout, []byte) {
			if k == 1 && i == operand {
				data = another(x, data)
			}
			return x.Type(), contiguous, data
		}))[0]
		var err error
		if got[k], err = p.results(p.c, y, p.machine.backends[0], 0); err != nil {
			return 0
		}
	}
	return difference(got[1], got[0])
}

// another returns data with other values in another order.
func another(x *ggml.Tensor, data []byte) []byte {
	v, _ := decode(x.Type(), data)
	for i := range v {
		v[i] = v[i]/2 + 0.125
	}
	slices.Reverse(v)
	if other, ok := encode(x.Type(), v, x.Dim(0)); ok {
		return other
	}
	return data
}

// try runs a variation; unchecked bypasses the op's checks.
func (s *sweeper) try(v variation, unchecked bool) (outcome, error) {
	t := s.base(v.op, v.flat)
	p := s.program(v.op, 1+v.flat)
	defer p.close()
	ok := true
	twins := map[int][]byte{}
	varied := t.with(p, func(i int, x *ggml.Tensor, data []byte) (ggml.Type, layout, []byte) {
		typ, l := x.Type(), contiguous
		switch {
		case v.operand != i && v.operand >= 0:
		case v.layout != contiguous:
			l = v.layout
		default:
			typ = v.typ
		}
		data, twin, same := inBoth(x, data, typ)
		twins[i], ok = twin, ok && same
		return typ, l, data
	})
	if !ok {
		return unknown, nil
	}
	plain := t.with(p, func(i int, x *ggml.Tensor, _ []byte) (ggml.Type, layout, []byte) {
		return x.Type(), contiguous, twins[i]
	})
	if p.leaves.Err() != nil {
		return unknown, p.leaves.Err()
	}
	twin := ggml.NewContext()
	defer twin.Close()
	y := p.invoke(twin, t.op, plain)[0]
	if twin.Err() != nil {
		return unknown, twin.Err()
	}
	p.guards = append(p.guards, p.c.NewTensor(ggml.F32, guardSize))
	testhook.Unchecked = unchecked
	x := p.invoke(p.c, t.op, varied)[0]
	testhook.Unchecked = false
	p.c.NewTensor(ggml.F32, guardSize)
	if err := p.c.Err(); err != nil {
		if fromLibrary.MatchString(err.Error()) || unchecked {
			return barred, err
		}
		return refused, err
	}
	tolerance := 1e-2
	if x.Type().IsQuantized() {
		tolerance = 3e-2 // rounded twice
	}
	shows := v.operand < 0 || t.effect[v.operand] > 0
	if v.operand >= 0 && shows {
		tolerance = min(tolerance, t.effect[v.operand]/10)
	}
	o, err := p.compare(x, twin, y, tolerance)
	if o == right && !shows {
		o = idle
	}
	return o, err
}

// inBoth returns the data of x as values that both its type and another can represent, in the other type and in its own.
func inBoth(x *ggml.Tensor, data []byte, typ ggml.Type) (other, own []byte, ok bool) {
	values, ok := decode(x.Type(), data)
	if !ok {
		return nil, nil, false
	}
	if whole(typ) && !whole(x.Type()) {
		for i := range values { // most would be 0, whose bits are equal in all types
			values[i] = float32(math.Round(float64(values[i]*4))) + 1
		}
	}
	if other, ok = encode(typ, values, x.Dim(0)); !ok {
		return nil, nil, false
	}
	values, _ = decode(typ, other)
	own, ok = encode(x.Type(), values, x.Dim(0))
	return other, own, ok
}

// compare computes both calls, and the varied one twice.
func (p *program) compare(x *ggml.Tensor, twin *ggml.Context, y *ggml.Tensor, tolerance float64) (outcome, error) {
	if x.NumBytes() > maxBytes || x.NumBytes() < 0 {
		return unknown, nil
	}
	want, err := p.results(twin, y, p.machine.backends[0], 0)
	if err != nil {
		return unknown, err
	}
	rounded := want
	if x.Type() != y.Type() {
		data, ok := encode(x.Type(), want, x.Dim(0))
		if !ok {
			return unknown, nil
		}
		rounded, _ = decode(x.Type(), data)
	}
	var first []float32
	for i, backend := range []*ggml.Backend{p.machine.backends[0], p.machine.backends[2]} {
		got, err := p.results(p.c, x, backend, patterns[i])
		switch {
		case errors.Is(err, errOutside):
			return spoils, err
		case errors.Is(err, ggml.ErrBroken):
			return stops, err
		case errors.Is(err, errUnreadable):
			return unknown, err
		case err != nil:
			return barred, err
		case i > 0 && !same(got, first):
			return spoils, errors.New("the result depends on the memory around, or the number of threads")
		}
		first = got
	}
	if e := min(difference(first, want), difference(first, rounded)); !(e <= tolerance) { // also for NaN
		return wrong, fmt.Errorf("the normalised mean squared error is %g", e)
	}
	return right, nil
}

var (
	errOutside    = errors.New("something wrote outside of its tensor")
	errUnreadable = errors.New("the result cannot be read as numbers")
)

// results computes a call, and returns its result as numbers.
func (p *program) results(c *ggml.Context, y *ggml.Tensor, b *ggml.Backend, pattern byte) ([]float32, error) {
	g := c.NewGraph(y)
	for _, c := range []*ggml.Context{p.leaves, c} {
		buffers, err := c.Allocate(ggml.CPUBufferType())
		if err != nil {
			return nil, err
		}
		defer buffers.Close()
		if err := buffers.Clear(pattern); err != nil {
			return nil, err
		}
	}
	for _, l := range p.data {
		if !l.t.IsAllocated() { // belongs to the other call
			continue
		}
		if err := writeInOrder(l.t, l.data); err != nil {
			return nil, err
		}
	}
	if err := p.run(b.Compute, g); err != nil {
		return nil, err
	}
	for _, t := range p.guards {
		if !t.IsAllocated() {
			continue
		}
		data, err := content(t)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(data, func(x byte) bool { return x != pattern }) {
			return nil, errOutside
		}
	}
	return numbers(y)
}

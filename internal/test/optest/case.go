// Package optest is the harness of op tests, for the binding and for other packages with ops: a [Case] draws
// operands, builds an op, computes it on each of the [Devices], and compares the result with a reference of
// package refmath within a [Bound].
package optest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Case is an op with its reference.
type Case struct {
	Name     string
	Types    []ggml.Type // of the operands; nil for F32
	Layouts  []Layout    // of the operands; nil for any
	Operands func(d *Draw) []Operand
	Build    func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor
	Want     func(x []refmath.Tensor) refmath.Tensor
	Bound    *Bound // nil for Exact
	Runs     int    // 0 for 10

	Slow      bool // skipped with -short
	InPlace   bool // the result is a view of the first operand
	Unordered bool // the order of elements within a row is undefined

	ByteStrides bool // Build computes byte strides from contiguous operands
}

// Run computes every case, for each type and on each device. With -short it makes one run of each, and takes few
// quantised types.
func Run(t *testing.T, cases []Case) {
	for _, k := range cases {
		k.fill()
		if k.Slow && testing.Short() {
			continue
		}
		for _, typ := range quick(k.Types) {
			t.Run(fmt.Sprintf("%s/%v", k.Name, typ), func(t *testing.T) { k.run(t, typ, Devices(t)) })
		}
	}
}

// fill sets the defaults.
func (k *Case) fill() {
	if k.Types == nil {
		k.Types = []ggml.Type{ggml.F32}
	}
	if k.Layouts == nil {
		k.Layouts = AnyLayout
	}
	if k.Bound == nil {
		k.Bound = Exact
	}
	if k.Runs == 0 {
		k.Runs = 10
	}
	if testing.Short() {
		k.Runs = 1
	}
}

// draw returns the source of a case's random operands; it is the same each time.
func (k *Case) draw(typ ggml.Type) *Draw {
	h := fnv.New64()
	h.Write([]byte(k.Name))
	return &Draw{Rand: rand.New(rand.NewPCG(h.Sum64(), uint64(typ))), Type: typ, Layouts: k.Layouts}
}

// run draws operands and computes their reference once for all devices.
func (k *Case) run(t *testing.T, typ ggml.Type, devices []*Device) {
	d, computed := k.draw(typ), map[*Device]int{}
	for range k.Runs {
		operands := k.Operands(d)
		want := k.reference(operands)
		for _, dev := range devices {
			if enough := (k.Runs + dev.share - 1) / dev.share; computed[dev] < enough && k.check(t, dev, operands, want, typ) {
				computed[dev]++
			}
		}
	}
	for _, dev := range devices {
		if computed[dev] == 0 {
			t.Logf("%s computes none of this", dev.Name)
		}
	}
	require.NotEmpty(t, computed, "no device computes this")
}

// reference returns the expected result of the op, computed on first use.
func (k *Case) reference(operands []Operand) func() refmath.Tensor {
	return sync.OnceValue(func() refmath.Tensor { return k.Want(valuesOf(operands)) })
}

// check compares the op with its reference, if the device supports it.
func (k *Case) check(t *testing.T, dev *Device, operands []Operand, reference func() refmath.Tensor, typ ggml.Type) bool {
	t.Helper()
	view := false
	got, ok := dev.Eval(t, operands, func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor {
		y := k.Build(c, x)
		source, found := y.ViewSource()
		view = found && source.Is(root(x[0]))
		return y
	})
	if !ok {
		return false
	}
	require.True(t, view || !k.InPlace, "the result is not a view of the operand")
	want := reference()
	require.Equal(t, want.Ne, got.Shape, "%s: %s", dev.Name, describe(operands))
	if k.Unordered {
		for i := 0; i < len(got.Values); i += int(got.Shape[0]) {
			slices.Sort(got.Values[i : i+int(got.Shape[0])])
			slices.Sort(want.Data[i : i+int(got.Shape[0])])
		}
	}
	if e, at := k.Bound.excess(got, want, dev.rounded(typ)); !(e <= 1) {
		where := "the result"
		if at >= 0 {
			where = fmt.Sprintf("element %d of %v is %v instead of %v; it", at, want.Ne, got.Values[at], want.Data[at])
		}
		require.Failf(t, "wrong result", "on %s %s is %.3g times the bound away (%s); operands %s", dev.Name, where, e, k.Bound.Why, describe(operands))
	}
	return true
}

// root returns the tensor that owns the memory of a view.
func root(x *ggml.Tensor) *ggml.Tensor {
	if source, found := x.ViewSource(); found {
		return source
	}
	return x
}

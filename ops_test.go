package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// A layout is how an operand lies in memory.
type layout int

const (
	dense   layout = iota // contiguous
	spaced                // contiguous rows, with a gap after each
	gapped                // part of a larger tensor: contiguous rows, with gaps of several sizes
	swapped               // higher dimensions permuted: contiguous rows
	turned                // all dimensions permuted
)

// What an op may accept.
var (
	denseOnly = []layout{dense}
	evenRows  = []layout{dense, spaced}
	denseRows = []layout{dense, spaced, gapped, swapped}
	anyLayout = []layout{dense, spaced, gapped, swapped, turned}
)

// An arg is an operand of a case: its values, type and layout.
type arg struct {
	values refmath.Tensor
	typ    ggml.Type
	layout layout
}

// A draw makes the operands of one run of a case.
type draw struct {
	*rand.Rand
	typ     ggml.Type // of the case's run
	layouts []layout
}

// shape draws four sizes; ones and sizes that are no multiple of a vector
// register's are frequent.
func (d *draw) shape() [4]int64 {
	rows := []int64{1, 1, 2, 3, 5}
	pick := func() int64 { return rows[d.IntN(len(rows))] }
	return [4]int64{1 + d.Int64N(70), pick(), pick(), pick()}
}

func (d *draw) size(most int64) int64 { return 1 + d.Int64N(most) }

func (d *draw) layout() layout { return d.layouts[d.IntN(len(d.layouts))] }

// normal draws an operand of the run's type and one of the case's layouts.
func (d *draw) normal(ne ...int64) arg { return d.arg(refmath.Normal(d.Rand, 1, ne...)) }

func (d *draw) uniform(lo, hi float64, ne ...int64) arg {
	return d.arg(refmath.Uniform(d.Rand, lo, hi, ne...))
}

func (d *draw) arg(v refmath.Tensor) arg {
	return arg{values: rounded(v, d.typ), typ: d.typ, layout: d.layout()}
}

// f32 draws a dense F32 operand in a case of another type.
func (d *draw) f32(ne ...int64) arg {
	return arg{values: refmath.Normal(d.Rand, 1, ne...), typ: ggml.F32}
}

// as gives an operand another type and makes it dense, as the ops want of an
// operand that the case is not about.
func (a arg) as(t ggml.Type) arg {
	return arg{values: rounded(a.values, t), typ: t}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// ids draws whole numbers below n.
func (d *draw) ids(n int64, ne ...int64) arg {
	v := refmath.New(ne...)
	for i := range v.Data {
		v.Data[i] = float64(d.Int64N(n))
	}
	return arg{values: v, typ: ggml.I32}
}

// rounded gives the values that remain in a tensor of the type; those of a
// quantised one are read back when it is written.
func rounded(v refmath.Tensor, t ggml.Type) refmath.Tensor {
	switch {
	case t == ggml.F16:
		return refmath.RoundF16(v)
	case t == ggml.BF16:
		return refmath.RoundBF16(v)
	}
	return v
}

// An opCase is an op with its reference.
type opCase struct {
	name    string
	types   []ggml.Type // of its operands, nil for F32
	layouts []layout    // of its operands, nil for any
	args    func(d *draw) []arg
	build   func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor
	want    func(x []refmath.Tensor) refmath.Tensor
	bound   float64 // of |got − want| / max(1, |want|) in F32
	runs    int     // 0 for 10

	// nmse replaces bound where a type rounds the operands of sums: of the
	// normalised mean squared error of the result.
	nmse func(t ggml.Type) float64
}

// typeBound is what a result of the type adds to a case's bound: a unit in
// its last place.
var typeBound = map[ggml.Type]float64{ggml.F16: 1.0 / (1 << 10), ggml.BF16: 1.0 / (1 << 7)}

// runOps computes every case, for each type and on each device.
func runOps(t *testing.T, cases []opCase) {
	for _, k := range cases {
		if k.types == nil {
			k.types = []ggml.Type{ggml.F32}
		}
		if k.layouts == nil {
			k.layouts = anyLayout
		}
		if k.runs == 0 {
			k.runs = 10
		}
		for _, typ := range k.types {
			for _, m := range machines(t) {
				t.Run(fmt.Sprintf("%s/%v/%s", k.name, typ, m.name), func(t *testing.T) { k.run(t, typ, m) })
			}
		}
	}
}

func (k *opCase) run(t *testing.T, typ ggml.Type, m *machine) {
	h := fnv.New64()
	h.Write([]byte(k.name))
	d := &draw{Rand: rand.New(rand.NewPCG(h.Sum64(), uint64(typ))), typ: typ, layouts: k.layouts}
	for range k.runs {
		args := k.args(d)
		got, shape := m.eval(t, args, k.build)
		var ref []refmath.Tensor
		for _, a := range args {
			ref = append(ref, a.values)
		}
		want := k.want(ref)
		require.Equal(t, want.Ne, shape, "%v", args)
		if k.nmse != nil {
			require.LessOrEqual(t, refmath.NMSE(got, want.Data), k.nmse(typ), describe(args))
			continue
		}
		requireNear(t, got, want, k.bound+typeBound[typ], args)
	}
}

func requireNear(t *testing.T, got []float32, want refmath.Tensor, bound float64, args []arg) {
	t.Helper()
	for i, w := range want.Data {
		g := float64(got[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		if e := math.Abs(g-w) / max(1, math.Abs(w)); !(e <= bound) {
			require.Failf(t, "wrong result", "element %d of %v is %v instead of %v: error %.2g, bound %.2g; operands %s", i, want.Ne, g, w, e, bound, describe(args))
		}
	}
}

func describe(args []arg) string {
	s := ""
	for _, a := range args {
		s += fmt.Sprintf("%v%v layout %d; ", a.typ, a.values.Ne, a.layout)
	}
	return s
}

// A machine computes graphs on one device, with the CPU behind it.
type machine struct {
	name     string
	device   *ggml.Device
	backends []*ggml.Backend
	sched    *ggml.Scheduler
}

var allMachines struct {
	sync.Once
	list []*machine
	err  error
}

// machines gives one machine for each device.
func machines(t testing.TB) []*machine {
	allMachines.Do(func() {
		devices, err := ggml.Devices()
		allMachines.err = err
		for _, d := range devices {
			m, err := newMachine(d)
			if err != nil {
				allMachines.err = err
				continue
			}
			allMachines.list = append(allMachines.list, m)
		}
	})
	require.NoError(t, allMachines.err)
	require.NotEmpty(t, allMachines.list)
	return allMachines.list
}

func newMachine(d *ggml.Device) (*machine, error) {
	m := &machine{name: d.Name(), device: d}
	return m, m.open()
}

func (m *machine) open() error {
	m.backends = nil
	if m.device.Type() != ggml.CPU {
		b, err := m.device.NewBackend()
		if err != nil {
			return err
		}
		m.backends = append(m.backends, b)
	}
	// One thread: an assertion in a compute is then an error of the test.
	cpu, err := ggml.NewCPUBackend(1)
	if err != nil {
		return err
	}
	m.backends = append(m.backends, cpu)
	m.sched, err = ggml.NewScheduler(ggml.SchedulerOptions{}, m.backends...)
	return err
}

func (m *machine) close() {
	m.sched.Close()
	for _, b := range m.backends {
		b.Close()
	}
}

func closeMachines() {
	for _, m := range allMachines.list {
		m.close()
	}
}

// eval computes an op on operands that lie in a context of their own.
func (m *machine) eval(t testing.TB, args []arg, build func(c *ggml.Context, x []*ggml.Tensor) *ggml.Tensor) (values []float32, shape [4]int64) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	var x []*ggml.Tensor
	for _, a := range args {
		x = append(x, a.place(leaves))
	}
	require.NoError(t, leaves.Err())
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	for i := range args {
		args[i].write(t, x[i])
	}
	y := build(c, x)
	m.compute(t, c.NewGraph(y))
	for i := range shape {
		shape[i] = y.Dim(i)
	}
	return numbers(t, y), shape
}

func (m *machine) compute(t testing.TB, g *ggml.Graph) {
	t.Helper()
	require.NoError(t, g.Context().Err())
	require.NoError(t, m.sched.Alloc(g))
	err := m.sched.Compute(context.Background(), g)
	if errors.Is(err, ggml.ErrBroken) {
		m.close() // one failure shall not make all other tests fail
		require.NoError(t, m.open())
	}
	require.NoError(t, err)
}

// place makes the tensor of an operand in its layout.
func (a arg) place(c *ggml.Context) *ggml.Tensor {
	ne := a.values.Ne
	switch {
	case a.layout == spaced && ne[1] == 1:
		// The library takes equal distances of single rows for unequal ones.
	case a.layout == spaced:
		whole := c.NewTensor(a.typ, ne[0]+3*a.typ.BlockSize(), ne[1], ne[2], ne[3])
		return c.View(whole, ne[:], []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}, 2*a.typ.Size())
	case a.layout == gapped:
		whole := c.NewTensor(a.typ, ne[0]+3*a.typ.BlockSize(), ne[1]+1, ne[2]+2, ne[3])
		offset := whole.Stride(2) + whole.Stride(1) + a.typ.Size()
		return c.View(whole, ne[:], []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}, offset)
	case a.layout == swapped:
		return c.Permute(c.NewTensor(a.typ, ne[0], ne[3], ne[1], ne[2]), [4]int{0, 3, 1, 2})
	case a.layout == turned:
		return c.Permute(c.NewTensor(a.typ, ne[2], ne[0], ne[3], ne[1]), [4]int{2, 0, 3, 1})
	}
	return c.NewTensor(a.typ, ne[:]...)
}

func (a *arg) write(t testing.TB, x *ggml.Tensor) {
	switch {
	case a.typ == ggml.I32:
		require.NoError(t, ggml.Write(x, a.values.Int32()))
	case a.typ == ggml.I64:
		require.NoError(t, ggml.Write(x, a.values.Int64()))
	case a.typ.NeedsImportance():
		require.NoError(t, x.WriteBytes(quantized(t, a.typ, a.values.Float32(), int(a.values.Ne[0])), 0))
	default:
		require.NoError(t, x.SetFloat32s(a.values.Float32()))
	}
	if a.typ.Quantized() {
		a.values = refmath.From(numbers(t, x), a.values.Ne[:]...)
	}
}

// numbers reads a tensor of any type.
func numbers(t testing.TB, x *ggml.Tensor) []float32 {
	t.Helper()
	var out []float32
	switch x.Type() {
	case ggml.I32:
		v, err := ggml.Read[int32](x)
		require.NoError(t, err)
		for _, n := range v {
			out = append(out, float32(n))
		}
	case ggml.I64:
		v, err := ggml.Read[int64](x)
		require.NoError(t, err)
		for _, n := range v {
			out = append(out, float32(n))
		}
	default:
		v, err := x.Float32s()
		require.NoError(t, err)
		out = v
	}
	return out
}

package ggml_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
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
	blocks []byte // of a quantised type, one row after the other
}

// A draw makes the operands of one run of a case.
type draw struct {
	*rand.Rand
	typ     ggml.Type // of the case's run
	layouts []layout
	block   int64 // for shapes alone: of which rows are multiples, whatever the type
}

// shape draws four sizes; ones and sizes that are no multiple of a vector
// register's are frequent.
func (d *draw) shape() [4]int64 {
	rows := []int64{1, 1, 2, 3, 5}
	pick := func() int64 { return rows[d.IntN(len(rows))] }
	return [4]int64{d.rowLen(70), pick(), pick(), pick()}
}

// rowLen draws the length of a row: blocks of the type, or at most n elements.
func (d *draw) rowLen(n int64) int64 {
	if block := max(d.block, d.typ.BlockSize()); block > 1 {
		return block * d.size(2)
	}
	return d.size(n)
}

func (d *draw) size(most int64) int64 { return 1 + d.Int64N(most) }

func (d *draw) layout() layout { return d.layouts[d.IntN(len(d.layouts))] }

// normal draws an operand of the run's type and one of the case's layouts.
func (d *draw) normal(ne ...int64) arg { return d.arg(refmath.Normal(d.Rand, 1, ne...)) }

func (d *draw) uniform(lo, hi float64, ne ...int64) arg {
	return d.arg(refmath.Uniform(d.Rand, lo, hi, ne...))
}

func (d *draw) arg(v refmath.Tensor) arg {
	if d.typ.Quantized() && d.block == 0 {
		return d.quantized(v.Ne)
	}
	if whole(d.typ) {
		v = refmath.Map(v, func(x float64) float64 { return math.Trunc(20 * x) })
	}
	return arg{values: rounded(v, d.typ), typ: d.typ, layout: d.layout()}
}

// quantized draws blocks of the run's type.
func (d *draw) quantized(ne [4]int64) arg {
	pool := blocksOf(d.typ)
	a := arg{values: refmath.New(ne[:]...), typ: d.typ, layout: d.layout()}
	size, n := int(d.typ.Size()), int(d.typ.BlockSize())
	for i := 0; i < a.values.Len(); i += n {
		k := d.IntN(len(pool.bytes) / size)
		a.blocks = append(a.blocks, pool.bytes[k*size:(k+1)*size]...)
		for j, x := range pool.values[k*n : (k+1)*n] {
			a.values.Data[i+j] = float64(x)
		}
	}
	return a
}

// blocks are some of a type, and their values.
type blocks struct {
	bytes  []byte
	values []float32
}

var blockPools = map[ggml.Type]blocks{}

// blocksOf gives blocks of a type of normally distributed values. They are made
// once: for some types it takes long.
func blocksOf(t ggml.Type) blocks {
	pool, ok := blockPools[t]
	if !ok {
		n := 32 * int(t.BlockSize())
		pool = blocks{make([]byte, t.RowSize(int64(n))), make([]float32, n)}
		if err := ggml.Quantize(pool.bytes, t, normal(uint64(t), n), n, ones(n)); err != nil {
			panic(err)
		}
		if err := ggml.Dequantize(pool.values, t, pool.bytes); err != nil {
			panic(err)
		}
		blockPools[t] = pool
	}
	return pool
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

// whole tells whether the type is one of integers.
func whole(t ggml.Type) bool {
	return t == ggml.I8 || t == ggml.I16 || t == ggml.I32 || t == ggml.I64
}

// rounded gives the values that remain in a tensor of the type.
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
	build   func(c *ctx, x tensors) *ggml.Tensor
	want    func(x refs) refmath.Tensor
	bound   *bound // nil for exact
	runs    int    // 0 for 10

	inPlace   bool // the result is a view of the first operand
	unordered bool // the order of the elements of a row is not defined

	inBytes bool // build counts the bytes of operands that are dense
}

// opCases lists all cases.
func opCases() []opCase {
	return slices.Concat(
		binaryCases(), unaryCases(), scalarCases(), gluCases(), gatedCases(),
		copyCases(), shapeCases(), concatCases(), partCases(), rowCases(), matrixCases(), tiledCases(), pairCases(), streamedCases(), lowRankCases(), tiledLowRankCases(), causalCases(), causalAttentionCases(), elementCases(), adamWCases(),
		reductionCases(), normCases(), softMaxCases(), ropeCases(), numberedCases(), attentionCases(), backwardCases(), optimizerCases(),
		convolutionCases(), poolCases(), interpolationCases(), imageCases(), recurrentCases(), deepSeekCases(),
		unaryInPlaceCases(), binaryInPlaceCases(), rowsInPlaceCases(),
	)
}

// runOps computes every case, for each type and on each machine.
func runOps(t *testing.T, cases []opCase) {
	for _, k := range cases {
		k.fill()
		for _, typ := range k.types {
			for _, m := range machines(t) {
				t.Run(fmt.Sprintf("%s/%v/%s", k.name, typ, m.name), func(t *testing.T) { k.run(t, typ, m) })
			}
		}
	}
}

// fill puts in what stands for nothing.
func (k *opCase) fill() {
	if k.types == nil {
		k.types = []ggml.Type{ggml.F32}
	}
	if k.layouts == nil {
		k.layouts = anyLayout
	}
	if k.bound == nil {
		k.bound = exact
	}
	if k.runs == 0 {
		k.runs = 10
	}
}

// draw begins the random operands of a case; a case has the same each time.
func (k *opCase) draw(typ ggml.Type) *draw {
	h := fnv.New64()
	h.Write([]byte(k.name))
	return &draw{Rand: rand.New(rand.NewPCG(h.Sum64(), uint64(typ))), typ: typ, layouts: k.layouts}
}

func (k *opCase) run(t *testing.T, typ ggml.Type, m *machine) {
	d := k.draw(typ)
	computed, enough := 0, (k.runs+m.share-1)/m.share
	for i := 0; i < k.runs && computed < enough; i++ {
		if k.check(t, m, k.args(d), typ) {
			computed++
		}
	}
	if computed == 0 {
		t.Skipf("%s computes none of this", m.name)
	}
}

// check compares the op with its reference, if the machine computes it.
func (k *opCase) check(t *testing.T, m *machine, args []arg, typ ggml.Type) bool {
	t.Helper()
	view := false
	got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
		y := k.build(c, x)
		view = y.ViewSource() != nil && y.ViewSource().Is(root(x[0]))
		return y
	})
	if !ok {
		return false
	}
	require.True(t, view || !k.inPlace, "the result is no view of the operand")
	var x refs
	for _, a := range args {
		x = append(x, a.values)
	}
	want := k.want(x)
	require.Equal(t, want.Ne, got.shape, describe(args))
	if k.unordered {
		for i := 0; i < len(got.values); i += int(got.shape[0]) {
			slices.Sort(got.values[i : i+int(got.shape[0])])
			slices.Sort(want.Data[i : i+int(got.shape[0])])
		}
	}
	if e, at := k.bound.excess(got, want, typ); !(e <= 1) {
		where := "the result"
		if at >= 0 {
			where = fmt.Sprintf("element %d of %v is %v instead of %v; it", at, want.Ne, got.values[at], want.Data[at])
		}
		require.Failf(t, "wrong result", "%s is %.3g times the bound away (%s); operands %s", where, e, k.bound.why, describe(args))
	}
	return true
}

// root is the tensor with the memory of a view.
func root(x *ggml.Tensor) *ggml.Tensor {
	if source := x.ViewSource(); source != nil {
		return source
	}
	return x
}

func describe(args []arg) string {
	s := ""
	for _, a := range args {
		s += fmt.Sprintf("%v%v layout %d; ", a.typ, a.values.Ne, a.layout)
	}
	return s
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

func (a arg) write(t testing.TB, x *ggml.Tensor) {
	v := a.values
	switch {
	case a.blocks != nil:
		row := a.typ.RowSize(v.Ne[0])
		for i := range v.Rows() {
			i1, i2, i3 := i%v.Ne[1], i/v.Ne[1]%v.Ne[2], i/v.Ne[1]/v.Ne[2]
			at := i1*x.Stride(1) + i2*x.Stride(2) + i3*x.Stride(3)
			require.NoError(t, x.WriteBytes(a.blocks[i*row:(i+1)*row], at))
		}
	case a.typ == ggml.I8:
		require.NoError(t, ggml.Write(x, elements[int8](v)))
	case a.typ == ggml.I16:
		require.NoError(t, ggml.Write(x, elements[int16](v)))
	case a.typ == ggml.I32:
		require.NoError(t, ggml.Write(x, elements[int32](v)))
	case a.typ == ggml.I64:
		require.NoError(t, ggml.Write(x, elements[int64](v)))
	case a.typ == ggml.F64:
		require.NoError(t, ggml.Write(x, v.Data))
	default:
		require.NoError(t, x.SetFloat32s(v.Float32()))
	}
}

func elements[T int8 | int16 | int32 | int64](v refmath.Tensor) []T {
	out := make([]T, v.Len())
	for i, x := range v.Data {
		out[i] = T(x)
	}
	return out
}

// numbers reads a tensor of any type.
func numbers(t testing.TB, x *ggml.Tensor) []float32 {
	t.Helper()
	switch x.Type() {
	case ggml.I8:
		return read[int8](t, x)
	case ggml.I16:
		return read[int16](t, x)
	case ggml.I32:
		return read[int32](t, x)
	case ggml.I64:
		return read[int64](t, x)
	case ggml.F64:
		return read[float64](t, x)
	}
	v, err := x.Float32s()
	require.NoError(t, err)
	return v
}

func read[T int8 | int16 | int32 | int64 | float64](t testing.TB, x *ggml.Tensor) []float32 {
	t.Helper()
	v, err := ggml.Read[T](x)
	require.NoError(t, err)
	out := make([]float32, len(v))
	for i, n := range v {
		out[i] = float32(n)
	}
	return out
}

package optest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A Layout is the memory layout of an operand.
type Layout int

const (
	Contiguous Layout = iota
	RowPadded         // contiguous rows, with a gap after each
	Submatrix         // part of a larger tensor: contiguous rows, with gaps of different sizes
	Permuted          // higher dimensions permuted: contiguous rows
	Transposed        // all dimensions permuted
)

// Sets of layouts that ops accept.
var (
	ContiguousOnly = []Layout{Contiguous}
	UniformRows    = []Layout{Contiguous, RowPadded} // one stride for all rows
	ContiguousRows = []Layout{Contiguous, RowPadded, Submatrix, Permuted}
	AnyLayout      = []Layout{Contiguous, RowPadded, Submatrix, Permuted, Transposed}
)

// FloatTypes are the types that most ops compute in.
var FloatTypes = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16}

// SlowTypes are types for which ggml takes up to seconds, once, to build tables for quantising.
var SlowTypes = []ggml.Type{ggml.IQ1S, ggml.IQ1M, ggml.IQ2XXS, ggml.IQ2XS, ggml.IQ2S}

// quickTypes are the quantised types of the quick tier.
var quickTypes = []ggml.Type{ggml.Q4_0, ggml.Q8_0, ggml.Q4_K}

// WeightTypes returns the types of matrices; with -short, few of the quantised ones.
func WeightTypes() []ggml.Type {
	return quick(slices.DeleteFunc(ggml.Types(), func(t ggml.Type) bool { return !t.CanQuantize() }))
}

// quick removes all quantised types but [quickTypes] with -short.
func quick(types []ggml.Type) []ggml.Type {
	if !testing.Short() {
		return types
	}
	return slices.DeleteFunc(slices.Clone(types), func(t ggml.Type) bool { return t.IsQuantized() && !slices.Contains(quickTypes, t) })
}

// An Operand has the values, type and layout of a case's operand.
type Operand struct {
	Values refmath.Tensor
	Type   ggml.Type
	Layout Layout
	blocks []byte // of a quantised type, row by row
}

// As returns an operand in another type and contiguous, as ops require of operands that the case does not vary.
func (o Operand) As(t ggml.Type) Operand {
	return Operand{Values: Rounded(o.Values, t), Type: t}
}

// A Draw draws the operands of one run of a case.
type Draw struct {
	*rand.Rand
	Type    ggml.Type // type of the run
	Layouts []Layout
	block   int64 // for shapes only: divides the row length, whatever the type
}

// NewDraw returns a source of contiguous operands, the same for each seed.
func NewDraw(seed uint64, typ ggml.Type) *Draw {
	return &Draw{Rand: RNG(seed), Type: typ, Layouts: ContiguousOnly}
}

// RNG returns a random generator with a seed.
func RNG(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// Shape draws four sizes; ones, and sizes that are not a multiple of a vector register, are frequent.
func (d *Draw) Shape() [4]int64 {
	rows := []int64{1, 1, 2, 3, 5}
	pick := func() int64 { return rows[d.IntN(len(rows))] }
	return [4]int64{d.RowLen(70), pick(), pick(), pick()}
}

// Block returns a divisor of the row lengths.
func (d *Draw) Block() int64 { return max(d.block, d.Type.BlockSize()) }

// RowLen draws a row length: whole blocks of the type, or at most n elements.
func (d *Draw) RowLen(n int64) int64 {
	if block := d.Block(); block > 1 {
		return block * d.Size(2)
	}
	return d.Size(n)
}

// K draws the length of a dot product.
func (d *Draw) K() int64 { return d.RowLen(90) }

// Size draws a size from 1 to most.
func (d *Draw) Size(most int64) int64 { return 1 + d.Int64N(most) }

// Layout draws one of the case's layouts.
func (d *Draw) Layout() Layout { return d.Layouts[d.IntN(len(d.Layouts))] }

// Normal draws an operand of the run's type and one of the case's layouts.
func (d *Draw) Normal(ne ...int64) Operand { return d.Operand(refmath.Normal(d.Rand, 1, ne...)) }

// Uniform draws as [Draw.Normal] does, but with uniformly distributed values.
func (d *Draw) Uniform(lo, hi float64, ne ...int64) Operand {
	return d.Operand(refmath.Uniform(d.Rand, lo, hi, ne...))
}

// Operand returns values as an operand in the run's type and one of the case's layouts. A quantised type
// changes the values.
func (d *Draw) Operand(v refmath.Tensor) Operand {
	if d.Type.IsQuantized() && d.block == 0 {
		return d.quantized(v.Ne)
	}
	if integer(d.Type) {
		v = refmath.Map(v, func(x float64) float64 { return math.Trunc(20 * x) })
	}
	return Operand{Values: Rounded(v, d.Type), Type: d.Type, Layout: d.Layout()}
}

// quantized draws blocks of the run's type.
func (d *Draw) quantized(ne [4]int64) Operand {
	pool := blocksOf(d.Type)
	o := Operand{Values: refmath.New(ne[:]...), Type: d.Type, Layout: d.Layout()}
	size, n := int(d.Type.BlockBytes()), int(d.Type.BlockSize())
	for i := 0; i < o.Values.Len(); i += n {
		k := d.IntN(len(pool.bytes) / size)
		o.blocks = append(o.blocks, pool.bytes[k*size:(k+1)*size]...)
		for j, x := range pool.values[k*n : (k+1)*n] {
			o.Values.Data[i+j] = float64(x)
		}
	}
	return o
}

// F32 draws a contiguous F32 operand in a case of another type.
func (d *Draw) F32(ne ...int64) Operand {
	return Operand{Values: refmath.Normal(d.Rand, 1, ne...), Type: ggml.F32}
}

// Indices draws integers below n.
func (d *Draw) Indices(n int64, ne ...int64) Operand {
	v := refmath.New(ne...)
	for i := range v.Data {
		v.Data[i] = float64(d.Int64N(n))
	}
	return Operand{Values: v, Type: ggml.I32}
}

// Choices draws, for each of n tokens, k different indices below count, as a router does: I32 [k, n].
func (d *Draw) Choices(count, k, n int64) Operand {
	v := refmath.New(k, n)
	for i := range n {
		for j, c := range d.Perm(int(count))[:k] {
			v.Data[i*k+int64(j)] = float64(c)
		}
	}
	return Operand{Values: v, Type: ggml.I32}
}

// integer reports whether the type is an integer type.
func integer(t ggml.Type) bool {
	return t == ggml.I8 || t == ggml.I16 || t == ggml.I32 || t == ggml.I64
}

// Rounded returns the values after rounding to the type.
func Rounded(v refmath.Tensor, t ggml.Type) refmath.Tensor {
	switch {
	case t == ggml.F16:
		return refmath.RoundF16(v)
	case t == ggml.BF16:
		return refmath.RoundBF16(v)
	case t == ggml.F8E4M3:
		return refmath.RoundF8E4M3(v)
	}
	return v
}

func describe(operands []Operand) string {
	s := ""
	for _, o := range operands {
		s += fmt.Sprintf("%v%v layout %d; ", o.Type, o.Values.Ne, o.Layout)
	}
	return s
}

// place creates the tensor of an operand in its layout.
func (o Operand) place(c *ggml.Context) *ggml.Tensor {
	ne := o.Values.Ne
	switch {
	case o.Layout == RowPadded && ne[1] == 1:
		// ggml takes equal strides of single rows for different ones.
	case o.Layout == RowPadded:
		whole := c.NewTensor(o.Type, ne[0]+3*o.Type.BlockSize(), ne[1], ne[2], ne[3])
		return c.View(whole, ne[:], []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}, 2*o.Type.BlockBytes())
	case o.Layout == Submatrix:
		whole := c.NewTensor(o.Type, ne[0]+3*o.Type.BlockSize(), ne[1]+1, ne[2]+2, ne[3])
		offset := whole.Stride(2) + whole.Stride(1) + o.Type.BlockBytes()
		return c.View(whole, ne[:], []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}, offset)
	case o.Layout == Permuted:
		return c.Permute(c.NewTensor(o.Type, ne[0], ne[3], ne[1], ne[2]), [4]int{0, 3, 1, 2})
	case o.Layout == Transposed:
		return c.Permute(c.NewTensor(o.Type, ne[2], ne[0], ne[3], ne[1]), [4]int{2, 0, 3, 1})
	}
	return c.NewTensor(o.Type, ne[:]...)
}

func valuesOf(operands []Operand) []refmath.Tensor {
	values := make([]refmath.Tensor, len(operands))
	for i, o := range operands {
		values[i] = o.Values
	}
	return values
}

// Write writes the values to a tensor of the same type and shape, in any layout.
func (o Operand) Write(t testing.TB, x *ggml.Tensor) {
	v := o.Values
	switch {
	case o.blocks != nil:
		row := o.Type.RowSize(v.Ne[0])
		for i := range v.Rows() {
			i1, i2, i3 := i%v.Ne[1], i/v.Ne[1]%v.Ne[2], i/v.Ne[1]/v.Ne[2]
			at := i1*x.Stride(1) + i2*x.Stride(2) + i3*x.Stride(3)
			require.NoError(t, Err(x.WriteAt(o.blocks[i*row:(i+1)*row], at)))
		}
	case o.Type == ggml.I8:
		require.NoError(t, ggml.Write(x, elements[int8](v)))
	case o.Type == ggml.I16:
		require.NoError(t, ggml.Write(x, elements[int16](v)))
	case o.Type == ggml.I32:
		require.NoError(t, ggml.Write(x, elements[int32](v)))
	case o.Type == ggml.I64:
		require.NoError(t, ggml.Write(x, elements[int64](v)))
	case o.Type == ggml.F64:
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

// Values reads a tensor of any type.
func Values(t testing.TB, x *ggml.Tensor) []float32 {
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
	return need.Value(x.Float32s())(t)
}

func read[T int8 | int16 | int32 | int64 | float64](t testing.TB, x *ggml.Tensor) []float32 {
	t.Helper()
	v := need.Value(ggml.Read[T](x))(t)
	out := make([]float32, len(v))
	for i, n := range v {
		out[i] = float32(n)
	}
	return out
}

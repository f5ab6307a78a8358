package fuzz

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/goggml/ggml"
)

// Families of types.
var (
	f32      = []ggml.Type{ggml.F32}
	f16      = []ggml.Type{ggml.F16}
	i32      = []ggml.Type{ggml.I32}
	f32OrF16 = []ggml.Type{ggml.F32, ggml.F16}
	floats   = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16}
	plain    = []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.I32, ggml.I64}

	quantised = slices.DeleteFunc(ggml.Types(), func(t ggml.Type) bool {
		return !t.IsQuantized() || t == ggml.Q8_1 || t == ggml.Q8_K
	})
	weights  = slices.Concat(floats, quantised)
	allTypes = slices.Concat(plain, quantised)
	rowTypes = append(slices.Clone(weights), ggml.I32) // for GetRows
	outTypes = append(slices.Clone(quantised), ggml.F32)
)

// A leaf is a tensor with its own data.
type leaf struct {
	t    *ggml.Tensor
	data []byte
}

// A layout is the memory layout of an operand.
type layout int

const (
	contiguous layout = iota
	spaced            // a gap after each row
	gapped            // part of a larger tensor
	swapped           // higher dimensions permuted
	transposed        // all dimensions permuted
	odd               // contiguous, except for the strides of dimensions of size 1
	layouts
)

// shape draws four sizes. Ones, and sizes that are not a multiple of a vector register, are frequent.
func (p *program) shape() [4]int64 {
	rows := []int64{1, 1, 1, 2, 3, 4, 5}
	if p.simple && !p.flat && p.IntN(2) == 0 {
		rows = rows[3:] // otherwise some layouts are equal
	}
	pick := func() int64 { return rows[p.IntN(len(rows))] }
	return [4]int64{p.size(p.width), pick(), pick(), pick()}
}

// size draws a number from 1 to most.
func (p *program) size(most int64) int64 {
	most = max(1, most) // half of 1 is 0
	if p.simple && most == p.width {
		return most
	}
	if p.IntN(4) == 0 {
		return 1 + p.Int64N(min(most, 4))
	}
	return 1 + p.Int64N(most)
}

func (p *program) oneOf(types []ggml.Type) ggml.Type {
	for _, exact := range []ggml.Type{ggml.F32, ggml.F16} {
		if p.simple && slices.Contains(types, exact) {
			return exact
		}
	}
	if p.IntN(3) > 0 && slices.Contains(types, ggml.F32) {
		return ggml.F32
	}
	return types[p.IntN(len(types))]
}

// any draws an operand of one of the types: an existing tensor or a new one.
func (p *program) any(types []ggml.Type) *ggml.Tensor {
	if p.IntN(3) > 0 && !p.simple {
		if t := p.existing(func(t *ggml.Tensor) bool { return slices.Contains(types, t.Type()) }); t != nil {
			return t
		}
	}
	return p.shaped(types, p.shape())
}

// existing draws an existing tensor that satisfies ok; recent ones are more likely.
func (p *program) existing(ok func(t *ggml.Tensor) bool) *ggml.Tensor {
	for i := len(p.pool) - 1; i >= 0; i-- {
		if p.IntN(3) == 0 && ok(p.pool[i]) {
			return p.pool[i]
		}
	}
	return nil
}

// shaped draws an operand of a shape, in any layout.
func (p *program) shaped(types []ggml.Type, ne [4]int64) *ggml.Tensor {
	if p.simple {
		return p.placed(p.oneOf(types), ne, contiguous)
	}
	if p.IntN(3) == 0 {
		same := func(t *ggml.Tensor) bool { return dims(t) == ne && slices.Contains(types, t.Type()) }
		if t := p.existing(same); t != nil {
			return t
		}
	}
	l := contiguous
	if p.IntN(3) == 0 {
		l = layout(p.IntN(int(layouts)))
	}
	return p.placed(p.oneOf(types), ne, l)
}

// contiguous draws an operand of a shape, rarely in another layout.
func (p *program) contiguous(types []ggml.Type, ne ...int64) *ggml.Tensor {
	full := [4]int64{1, 1, 1, 1}
	copy(full[:], ne)
	if p.simple {
		return p.placed(p.oneOf(types), full, contiguous)
	}
	switch p.IntN(20) {
	case 0:
		return p.shaped(types, full)
	case 1, 2:
		return p.placed(p.oneOf(types), full, odd)
	}
	if p.IntN(3) == 0 {
		same := func(t *ggml.Tensor) bool {
			return dims(t) == full && t.IsContiguous() && slices.Contains(types, t.Type())
		}
		if t := p.existing(same); t != nil {
			return t
		}
	}
	return p.placed(p.oneOf(types), full, contiguous)
}

// anyContiguous draws a contiguous operand of any shape.
func (p *program) anyContiguous(types []ggml.Type) *ggml.Tensor {
	if p.IntN(2) == 0 && !p.simple {
		if t := p.existing(func(t *ggml.Tensor) bool { return t.IsContiguous() && slices.Contains(types, t.Type()) }); t != nil {
			return t
		}
	}
	ne := p.shape()
	return p.contiguous(types, ne[:]...)
}

// like draws an operand with a's shape.
func (p *program) like(a *ggml.Tensor, types []ggml.Type) *ggml.Tensor {
	return p.shaped(types, dims(a))
}

// part draws an operand that can be repeated to the shape of a.
func (p *program) part(a *ggml.Tensor, types []ggml.Type) *ggml.Tensor {
	ne := dims(a)
	for i, n := range ne {
		if p.IntN(2) == 0 {
			ne[i] = p.divisor(n)
		}
	}
	return p.shaped(types, ne)
}

func (p *program) divisor(n int64) int64 {
	d := 1 + p.Int64N(max(1, min(n, 8)))
	for d > 1 && n%d != 0 {
		d--
	}
	return d
}

func dims(t *ggml.Tensor) (ne [4]int64) {
	for i := range ne {
		ne[i] = t.Dim(i)
	}
	return ne
}

// placed creates a leaf and, unless the layout is contiguous, a view of it. Quantised types get whole blocks.
// Generators divide by sizes, so they get no view of a failed context, whose sizes are 0.
func (p *program) placed(t ggml.Type, ne [4]int64, l layout) *ggml.Tensor {
	block := t.BlockSize()
	ne[0] = (ne[0] + block - 1) / block * block
	c := p.leaves
	if l != contiguous && p.IntN(2) == 0 && p.c.Err() == nil {
		c = p.c
	}
	switch l {
	case spaced:
		whole := p.newLeaf(t, ne[0]+2*block, ne[1], ne[2], ne[3])
		return p.keep(c.View(whole, ne[:], []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}, t.BlockBytes()))
	case gapped:
		whole := p.newLeaf(t, ne[0]+block, ne[1]+1, ne[2]+1, ne[3])
		offset := whole.Stride(2) + whole.Stride(1) + t.BlockBytes()
		return p.keep(c.View(whole, ne[:], []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}, offset))
	case odd:
		whole := p.newLeaf(t, ne[:]...)
		strides := []int64{whole.Stride(1), whole.Stride(2), whole.Stride(3)}
		for i := range strides {
			if ne[i+1] == 1 {
				strides[i] = t.BlockBytes() * []int64{0, 1, 1000, 1 << 20}[p.IntN(4)]
			}
		}
		return p.keep(c.View(whole, ne[:], strides, 0))
	case swapped:
		return p.keep(c.Permute(p.newLeaf(t, ne[0], ne[3], ne[1], ne[2]), [4]int{0, 3, 1, 2}))
	case transposed:
		if block == 1 {
			return p.keep(c.Permute(p.newLeaf(t, ne[2], ne[0], ne[3], ne[1]), [4]int{2, 0, 3, 1}))
		}
	}
	return p.newLeaf(t, ne[:]...)
}

// newLeaf creates a tensor with data, after a guard that detects writes outside of tensors.
func (p *program) newLeaf(t ggml.Type, ne ...int64) *ggml.Tensor {
	p.guards = append(p.guards, p.leaves.NewTensor(ggml.F32, guardSize))
	x := p.leaves.NewTensor(t, ne...)
	p.fill(x)
	return p.keep(x)
}

// fill sets a leaf's data, including the bytes between its rows; none if it is too large to compute.
func (p *program) fill(t *ggml.Tensor) {
	n := t.NumBytes()
	if n < 0 || n > maxBytes {
		p.huge = true
		return
	}
	typ := t.Type()
	blocks := (n + typ.BlockBytes() - 1) / typ.BlockBytes()
	p.data = append(p.data, leaf{t, p.bytes(typ, blocks*typ.BlockSize())[:n]})
}

const guardSize = 16 // floats

// rows draws row indices of type I32, which the graph may compute.
func (p *program) rows(n int64, ne ...int64) *ggml.Tensor {
	if p.IntN(4) > 0 || p.simple {
		return p.ids(n, ggml.I32, ne...)
	}
	x := p.newLeaf(ggml.F32, ne...)
	if !p.huge && p.leaves.Err() == nil {
		for data := p.data[len(p.data)-1].data; len(data) > 0; data = data[4:] {
			binary.NativeEndian.PutUint32(data, math.Float32bits(float32(p.Int64N(max(1, n)))))
		}
	}
	if p.IntN(8) == 0 {
		x = p.leaves.Scale(x, 2) // some out of range
	}
	return p.keep(p.leaves.Cast(x, ggml.I32))
}

// ids draws row indices below n, rarely others.
func (p *program) ids(n int64, t ggml.Type, ne ...int64) *ggml.Tensor {
	x := p.newLeaf(t, ne...)
	if p.huge || p.leaves.Err() != nil {
		return x
	}
	data := p.data[len(p.data)-1].data
	write := func(i int, v int64) {
		if t == ggml.I64 {
			binary.NativeEndian.PutUint64(data[8*i:], uint64(v))
		} else {
			binary.NativeEndian.PutUint32(data[4*i:], uint32(v))
		}
	}
	count := int(x.NumElements())
	distinct := p.Perm(int(min(n, 1<<16)))
	for i := range count {
		write(i, int64(distinct[i%len(distinct)]))
	}
	if p.IntN(50) == 0 && !p.simple {
		write(p.IntN(count), []int64{-1, n, math.MaxInt32, math.MinInt32}[p.IntN(4)])
	}
	return x
}

// bytes draws the data of n elements.
func (p *program) bytes(t ggml.Type, n int64) []byte {
	data := make([]byte, t.RowSize(n))
	switch t {
	case ggml.F32:
		for i := 0; i < len(data); i += 4 {
			binary.NativeEndian.PutUint32(data[i:], math.Float32bits(p.number()))
		}
	case ggml.F64:
		for i := 0; i < len(data); i += 8 {
			binary.NativeEndian.PutUint64(data[i:], math.Float64bits(float64(p.number())))
		}
	case ggml.F16:
		for i := 0; i < len(data); i += 2 {
			binary.NativeEndian.PutUint16(data[i:], uint16(ggml.ToFloat16(p.number())))
		}
	case ggml.BF16:
		for i := 0; i < len(data); i += 2 {
			binary.NativeEndian.PutUint16(data[i:], uint16(ggml.ToBFloat16(p.number())))
		}
	case ggml.I32:
		for i := 0; i < len(data); i += 4 {
			binary.NativeEndian.PutUint32(data[i:], uint32(p.IntN(4)))
		}
	case ggml.I64:
		for i := 0; i < len(data); i += 8 {
			binary.NativeEndian.PutUint64(data[i:], uint64(p.IntN(4)))
		}
	default:
		p.blocks(t, data)
	}
	return data
}

// number draws a number from the program's distribution.
func (p *program) number() float32 {
	if p.wildData && p.IntN(8) == 0 {
		return math.Float32frombits(p.Uint32())
	}
	return float32(p.NormFloat64())
}

// blocks draws quantised data: of numbers, or arbitrary bytes in wild programs.
func (p *program) blocks(t ggml.Type, data []byte) {
	valid := quantisedRow(t)
	if p.wildData && p.IntN(2) == 0 || len(valid) == 0 {
		for i := range data {
			data[i] = byte(p.Uint32())
		}
		return
	}
	size := int(t.BlockBytes())
	for i := 0; i < len(data); i += size {
		block := p.IntN(len(valid) / size)
		copy(data[i:i+size], valid[block*size:])
	}
}

var quantisedRows sync.Map

// quantisedRow returns a row of ordinary numbers in a quantised type. It uses bytes that happen to encode such
// numbers, because quantising takes seconds for some types.
func quantisedRow(t ggml.Type) []byte {
	if row, ok := quantisedRows.Load(t); ok {
		return row.([]byte)
	}
	r := rand.New(rand.NewPCG(1, uint64(t)))
	block, values := make([]byte, t.BlockBytes()), make([]float32, t.BlockSize())
	var row []byte
	for tries := 0; tries < 1<<16 && len(row) < 16*len(block) && t.CanDequantize(); tries++ {
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		if err := ggml.Dequantize(values, t, block); err != nil {
			panic(err)
		}
		usual := func(x float32) bool { return x > -100 && x < 100 }
		if !slices.ContainsFunc(values, func(x float32) bool { return !usual(x) }) {
			row = append(row, block...)
		}
	}
	quantisedRows.Store(t, row)
	return row
}

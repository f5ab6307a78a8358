package ggml

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Format prints a tensor by the verbs of package fmt: %v and %s as [Tensor.String], %+v with its
// values as [Tensor.Dump]. If the values cannot be read, %+v prints the reason.
func (t *Tensor) Format(f fmt.State, verb rune) {
	if f == nil {
		return
	}
	if verb != 'v' || !f.Flag('+') {
		fmt.Fprintf(f, fmt.FormatString(f, verb), t.String())
		return
	}
	text, err := t.dump(DumpOptions{})
	if err != nil {
		text = fmt.Sprintf("%s (%v)", t.String(), err)
	}
	io.WriteString(f, text)
}

// DumpOptions are the settings of [Tensor.Dump]; the zero value suits most uses.
type DumpOptions struct {
	Threshold int // maximum number of elements shown in full, 0 means 1000
	Edge      int // elements shown at each end of a dimension beyond that, 0 means 3
	Precision int // significant digits of floats, 0 means 4
}

// Dump writes name, type, shape and values of a tensor of any type, as numpy prints an array: the
// innermost brackets hold a row along ne0, and the middle of a large tensor is left out. It reads
// only the values shown. The tensor must be allocated and must not be an intermediate result of a
// graph: see [Tensor.SetOutput].
func (t *Tensor) Dump(w io.Writer, o DumpOptions) error {
	t = made(t)
	if w == nil {
		return t.errorf(nil, "the writer is nil")
	}
	text, err := t.dump(o)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text+"\n")
	return err
}

func (t *Tensor) dump(o DumpOptions) (string, error) {
	if err := t.readable(); err != nil {
		return "", err
	}
	d := newDumper(t, o)
	if err := d.collect(t.NumDims()-1, [MaxDims]int64{}); err != nil {
		return "", err
	}
	for _, cell := range d.cells {
		d.width = max(d.width, len(cell))
	}
	d.out.WriteString(t.headline() + "\n")
	d.print(t.NumDims()-1, 1)
	return d.out.String(), nil
}

// headline returns String with the offset of a view.
func (t *Tensor) headline() string {
	s := t.String()
	if source, found := t.ViewSource(); found {
		s += fmt.Sprintf(", a view of %v at byte %d", source, t.ViewOffset())
	}
	if !t.IsContiguous() {
		var strides []string
		for i := range t.NumDims() {
			strides = append(strides, strconv.FormatInt(t.Stride(i), 10))
		}
		s += ", strides [" + strings.Join(strides, ", ") + "]"
	}
	return s
}

// A dumper visits the elements to show twice: first to format them, which gives the column width,
// then to print them.
type dumper struct {
	t         *Tensor
	whole     bool
	edge      int64
	precision int
	strides   [MaxDims]int64

	block  []byte // the last block read
	offset int64  // its offset; initially -1
	values []float64

	cells []string
	width int
	out   strings.Builder
}

func newDumper(t *Tensor, o DumpOptions) *dumper {
	d := &dumper{t: t, edge: 3, precision: 4, offset: -1}
	threshold := int64(1000)
	if o.Threshold > 0 {
		threshold = int64(o.Threshold)
	}
	if o.Edge > 0 {
		d.edge = min(int64(o.Edge), math.MaxInt32)
	}
	if o.Precision > 0 {
		d.precision = min(o.Precision, 100)
	}
	d.whole = t.NumElements() <= threshold
	for i := range d.strides {
		d.strides[i] = t.Stride(i)
	}
	d.block = make([]byte, t.typ.BlockBytes())
	return d
}

const leftOut = -1

// shown lists the indices to show of a dimension of size n; leftOut stands for the omitted middle.
func (d *dumper) shown(n int64) []int64 {
	var list []int64
	for i := int64(0); i < n; i++ {
		if !d.whole && i == d.edge && n > 2*d.edge {
			list = append(list, leftOut)
			i = n - d.edge
		}
		list = append(list, i)
	}
	return list
}

func (d *dumper) collect(dim int, at [MaxDims]int64) error {
	for _, at[dim] = range d.shown(d.t.ne[dim]) {
		if at[dim] == leftOut {
			continue
		}
		if dim > 0 {
			if err := d.collect(dim-1, at); err != nil {
				return err
			}
			continue
		}
		cell, err := d.cell(at)
		if err != nil {
			return err
		}
		d.cells = append(d.cells, cell)
	}
	return nil
}

// print writes one dimension with the dimensions inside it, at a depth of brackets.
func (d *dumper) print(dim, depth int) {
	between := " "
	if dim > 0 {
		between = strings.Repeat("\n", dim) + strings.Repeat(" ", depth)
	}
	d.out.WriteByte('[')
	for i, index := range d.shown(d.t.ne[dim]) {
		if i > 0 {
			d.out.WriteString(between)
		}
		switch {
		case index == leftOut:
			d.out.WriteString("...")
		case dim > 0:
			d.print(dim-1, depth+1)
		default:
			fmt.Fprintf(&d.out, "%*s", d.width, d.cells[0])
			d.cells = d.cells[1:]
		}
	}
	d.out.WriteByte(']')
}

func (d *dumper) cell(at [MaxDims]int64) (string, error) {
	blockSize := d.t.typ.BlockSize()
	offset := at[0] / blockSize * d.strides[0]
	for i := 1; i < MaxDims; i++ {
		offset += at[i] * d.strides[i]
	}
	if offset != d.offset {
		if err := d.t.read(d.block, offset); err != nil {
			return "", err
		}
		d.offset, d.values = offset, nil
	}
	if n, ok := integer(d.t.typ, d.block); ok {
		return strconv.FormatInt(n, 10), nil
	}
	if d.values == nil {
		var err error
		if d.values, err = decodeBlock(d.t.typ, d.block); err != nil {
			return "", d.t.errorf(nil, "%v", err)
		}
	}
	return strconv.FormatFloat(d.values[at[0]%blockSize], 'g', d.precision, 64), nil
}

// integer reads an element of an integer type.
func integer(t Type, p []byte) (n int64, ok bool) {
	switch t {
	case I8:
		return int64(int8(p[0])), true
	case I16:
		return int64(int16(binary.NativeEndian.Uint16(p))), true
	case I32:
		return int64(int32(binary.NativeEndian.Uint32(p))), true
	case I64:
		return int64(binary.NativeEndian.Uint64(p)), true
	}
	return 0, false
}

// decodeBlock returns the values of a block of a float or quantised type.
func decodeBlock(t Type, p []byte) ([]float64, error) {
	values := make([]float64, t.BlockSize())
	switch t {
	case F64:
		values[0] = math.Float64frombits(binary.NativeEndian.Uint64(p))
		return values, nil
	case Q8_1: // ggml has no conversion for the two types that only its kernels use
		scale := Float16(binary.NativeEndian.Uint16(p)).Float32()
		scaled(values, scale, p[4:])
		return values, nil
	case Q8_K:
		scaled(values, math.Float32frombits(binary.NativeEndian.Uint32(p)), p[4:])
		return values, nil
	}
	floats := make([]float32, len(values))
	if err := Dequantize(floats, t, p); err != nil {
		return nil, err
	}
	for i, x := range floats {
		values[i] = float64(x)
	}
	return values, nil
}

// scaled sets each value to the signed byte times the scale.
func scaled(values []float64, scale float32, quants []byte) {
	for i := range values {
		values[i] = float64(scale * float32(int8(quants[i])))
	}
}

package refmath

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Format is a storage type, with ggml's numbers.
type Format int

// The formats that Dequantize supports.
const (
	F32    Format = 0
	F16    Format = 1
	Q4_0   Format = 2
	Q4_1   Format = 3
	Q5_0   Format = 6
	Q5_1   Format = 7
	Q8_0   Format = 8
	Q2_K   Format = 10
	Q3_K   Format = 11
	Q4_K   Format = 12
	Q5_K   Format = 13
	Q6_K   Format = 14
	IQ4_NL Format = 20
	BF16   Format = 30
	Q1_0   Format = 41
	Q2_0   Format = 42
	F8E4M3 Format = 43
)

// layout describes a block: its number of values and bytes, and its reader.
type layout struct {
	name   string
	values int
	bytes  int
	read   func(dst []float32, block []byte)
}

var layouts = map[Format]layout{
	F32:    {"F32", 1, 4, readF32},
	F16:    {"F16", 1, 2, func(dst []float32, b []byte) { dst[0] = half(b) }},
	BF16:   {"BF16", 1, 2, func(dst []float32, b []byte) { dst[0] = BF16ToFloat32(binary.LittleEndian.Uint16(b)) }},
	Q4_0:   {"Q4_0", 32, 18, readQ4_0},
	Q4_1:   {"Q4_1", 32, 20, readQ4_1},
	Q5_0:   {"Q5_0", 32, 22, readQ5_0},
	Q5_1:   {"Q5_1", 32, 24, readQ5_1},
	Q8_0:   {"Q8_0", 32, 34, readQ8_0},
	IQ4_NL: {"IQ4_NL", 32, 18, readIQ4NL},
	Q2_K:   {"Q2_K", 256, 84, readQ2K},
	Q3_K:   {"Q3_K", 256, 110, readQ3K},
	Q4_K:   {"Q4_K", 256, 144, readQ4K},
	Q5_K:   {"Q5_K", 256, 176, readQ5K},
	Q6_K:   {"Q6_K", 256, 210, readQ6K},
	Q1_0:   {"Q1_0", 128, 18, readQ1_0},
	Q2_0:   {"Q2_0", 64, 18, readQ2_0},
	F8E4M3: {"F8_E4M3", 1, 1, readF8E4M3},
}

// Formats returns the formats that Dequantize supports, in no particular order.
func Formats() []Format {
	var out []Format
	for f := range layouts {
		out = append(out, f)
	}
	return out
}

// String returns ggml's upper-case name of the format.
func (f Format) String() string {
	if l, ok := layouts[f]; ok {
		return l.name
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

// Block returns the number of values in a block and its size in bytes, or
// zeros for an unknown format.
func (f Format) Block() (values, bytes int) { return layouts[f].values, layouts[f].bytes }

// Dequantize returns the values of whole blocks, each operation rounded to
// float32 as in ggml's portable code, so that equality can be exact. It fails
// for an unknown format and for data that ends within a block.
func Dequantize(f Format, data []byte) ([]float32, error) {
	l, ok := layouts[f]
	if !ok {
		return nil, fmt.Errorf("refmath: no dequantisation for %v; the known formats are listed by Formats", f)
	}
	if len(data)%l.bytes != 0 {
		return nil, fmt.Errorf("refmath: %d bytes of %v, want a multiple of %d", len(data), f, l.bytes)
	}
	n := len(data) / l.bytes
	out := make([]float32, n*l.values)
	for i := range n {
		l.read(out[i*l.values:(i+1)*l.values], data[i*l.bytes:(i+1)*l.bytes])
	}
	return out, nil
}

// DequantizeTensor dequantizes into a tensor of shape ne.
func DequantizeTensor(f Format, data []byte, ne ...int64) (Tensor, error) {
	values, err := Dequantize(f, data)
	if err != nil {
		return Tensor{}, err
	}
	if shape := shapeOf("DequantizeTensor", ne); count(shape) != int64(len(values)) {
		return Tensor{}, fmt.Errorf("refmath: %d values for shape %v", len(values), ne)
	}
	return From(values, ne...), nil
}

// affine is q·d + m with both operations rounded; the conversion keeps the
// compiler from fusing them.
func affine(q int, d, m float32) float32 { return float32(float32(q)*d) + m }

func half(b []byte) float32 { return F16ToFloat32(binary.LittleEndian.Uint16(b)) }

func readF32(dst []float32, b []byte) {
	dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(b))
}

// readF8E4M3 reads a sign, 4 bits of exponent with a bias of 7, and 3 of mantissa. Exponent 0 means
// exponent 1 without the leading one, and all ones are a NaN.
func readF8E4M3(dst []float32, b []byte) {
	sign, exponent, mantissa := 1-2*float64(b[0]>>7), int(b[0]>>3&15), float64(b[0]&7)/8
	switch {
	case b[0]&0x7f == 0x7f:
		dst[0] = float32(math.NaN())
		return
	case exponent == 0:
		exponent = 1
	default:
		mantissa++
	}
	dst[0] = float32(math.Copysign(math.Ldexp(mantissa, exponent-7), sign))
}

// In the 32-value formats, value j is in the low half of byte j, value j + 16
// in its high half.

// readQ1_0 reads one bit per value: 1 for d and 0 for −d.
func readQ1_0(dst []float32, b []byte) {
	d := half(b)
	for i := range dst {
		dst[i] = float32(2*int(b[2+i/8]>>(i%8)&1)-1) * d
	}
}

// readQ2_0 reads two bits per value: −1 to 2 times d.
func readQ2_0(dst []float32, b []byte) {
	d := half(b)
	for i := range dst {
		dst[i] = float32(int(b[2+i/4]>>(2*(i%4))&3)-1) * d
	}
}

func readQ4_0(dst []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:] {
		dst[j] = float32(int(q&15)-8) * d
		dst[j+16] = float32(int(q>>4)-8) * d
	}
}

func readQ4_1(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for j, q := range b[4:] {
		dst[j] = affine(int(q&15), d, m)
		dst[j+16] = affine(int(q>>4), d, m)
	}
}

// fifth returns bit j of high as the fifth bit of a value.
func fifth(high uint32, j int) int { return int(high>>j&1) << 4 }

func readQ5_0(dst []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for j, q := range b[6:] {
		dst[j] = float32((int(q&15)|fifth(high, j))-16) * d
		dst[j+16] = float32((int(q>>4)|fifth(high, j+16))-16) * d
	}
}

func readQ5_1(dst []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for j, q := range b[8:] {
		dst[j] = affine(int(q&15)|fifth(high, j), d, m)
		dst[j+16] = affine(int(q>>4)|fifth(high, j+16), d, m)
	}
}

func readQ8_0(dst []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:] {
		dst[j] = float32(int8(q)) * d
	}
}

var iq4Values = [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func readIQ4NL(dst []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:] {
		dst[j] = float32(iq4Values[q&15]) * d
		dst[j+16] = float32(iq4Values[q>>4]) * d
	}
}

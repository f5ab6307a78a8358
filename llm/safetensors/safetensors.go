// Package safetensors reads and writes files of tensors in the format of safetensors
// (https://github.com/huggingface/safetensors#format): 8 bytes with the length of the header, the header in JSON with
// names, types, shapes and offsets, and the data of the tensors without gaps.
//
// It reads and writes values of F32, F16 and BF16. Tensors of other types are listed, but not read.
package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/filelink"
)

// A Type is the name of an element type, such as "F32".
type Type string

// The types whose values are read and written.
const (
	F32  Type = "F32"
	F16  Type = "F16"
	BF16 Type = "BF16"
)

// bits has the size of an element by type.
var bits = map[Type]int64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"U16": 16, "I16": 16, F16: 16, BF16: 16,
	"U32": 32, "I32": 32, F32: 32,
	"U64": 64, "I64": 64, "F64": 64, "C64": 64,
}

// ggmlTypes has the ggml types with the same bytes.
var ggmlTypes = map[Type]ggml.Type{F32: ggml.F32, F16: ggml.F16, BF16: ggml.BF16}

// IsSupported reports whether values of the type can be read and written.
func (t Type) IsSupported() bool {
	_, ok := ggmlTypes[t]
	return ok
}

// A Tensor describes a tensor of a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int64 // the last dimension is the fastest: rows of a matrix are contiguous
	begin int64   // of the data, from the end of the header
	end   int64
}

// A File is an open file. It is safe for concurrent use.
type File struct {
	Metadata map[string]string // of the whole file

	name    string
	data    *io.SectionReader
	tensors []Tensor
	closer  io.Closer
}

// Open reads and validates the header of a file. Close it after use.
func Open(path string) (*File, error) {
	file, info, err := filelink.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := NewFile(path, file, info.Size())
	if err != nil {
		file.Close()
		return nil, err
	}
	f.closer = file
	return f, nil
}

// NewFile is [Open] for size bytes of any reader; errors contain the name.
func NewFile(name string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{name: name}
	if err := f.readHeader(r, size); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// A file begins with the length of the header, in lengthSize bytes. The format limits the length.
const (
	lengthSize = 8
	maxHeader  = 100_000_000
)

func (f *File) readHeader(r io.ReaderAt, size int64) error {
	if size < lengthSize {
		return fmt.Errorf("is not a safetensors file: it has %s", counted.Of(size, "byte"))
	}
	var raw [lengthSize]byte
	if _, err := r.ReadAt(raw[:], 0); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint64(raw[:])
	switch {
	case length > maxHeader:
		return fmt.Errorf("is not a safetensors file: its header would have %d bytes; the limit is %d", length, maxHeader)
	case int64(length) > size-lengthSize:
		return fmt.Errorf("is cut short: its header has %d bytes, but the file has %d", length, size)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(r, lengthSize, int64(length)), header); err != nil {
		return err
	}
	start := lengthSize + int64(length)
	f.data = io.NewSectionReader(r, start, size-start)
	var err error
	f.tensors, f.Metadata, err = parseHeader(header, size-start)
	return err
}

// Close closes the file.
func (f *File) Close() error {
	if f == nil || f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Tensors lists the tensors in the order of their data.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Float32s reads the values of a tensor, row by row.
func (f *File) Float32s(t Tensor) ([]float32, error) {
	if f == nil || f.data == nil {
		return nil, errors.New("the safetensors file is nil or a zero value; Open opens one")
	}
	typ, ok := ggmlTypes[t.Type]
	if !ok {
		return nil, fmt.Errorf("%s: tensor %s has type %s; F32, F16 and BF16 can be read", f.name, t.Name, t.Type)
	}
	values := make([]float32, t.NumElements())
	if len(values) == 0 {
		return values, nil
	}
	raw := make([]byte, t.end-t.begin)
	_, err := f.data.ReadAt(raw, t.begin)
	if err == nil {
		err = ggml.Dequantize(values, typ, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %s: %w", f.name, t.Name, err)
	}
	return values, nil
}

// NumElements returns the number of elements.
func (t Tensor) NumElements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// size returns the size of the data in bytes; ok is false if a dimension is negative, or the size overflows or is not
// a whole number of bytes.
func (t Tensor) size() (bytes int64, ok bool) {
	n := bits[t.Type]
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/d {
			return 0, false
		}
		n *= d
	}
	return n / 8, n%8 == 0
}

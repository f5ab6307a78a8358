package ggml

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxHeader limits the header of a file: the vocabularies of the largest models take some ten
// megabytes.
const maxHeader = 1 << 30

// maxAlignment limits general.alignment, which pads every tensor.
const maxAlignment = 1 << 20

const defaultAlignment = 32

// maxGGUFName is the maximum length of a tensor name in bytes.
const maxGGUFName = MaxName

// The numbers of value types in a file.
const (
	ggufBool   = 7
	ggufString = 8
	ggufArray  = 9
)

// ggufSizes lists the sizes of value types in a file, 0 for string and array.
var ggufSizes = [...]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// A ggufHeader is the result of a scan.
type ggufHeader struct {
	raw       []byte // up to the first tensor
	alignment int64
	exact     map[string]any // values with strings that C would cut at a NUL
	tensors   []GGUFTensor
}

// A ggufScanner reads a header before ggml parses it: to find its end, to locate damage, and to
// refuse input that ggml does not check.
type ggufScanner struct {
	r    io.ReaderAt
	size int64  // size of the file
	buf  []byte // the first bytes of the file, as far as read
	pos  int64
	err  error // the first error, after which everything reads as zero

	part   string // the part being read, for messages
	header ggufHeader
}

// scanGGUF reads the header of a file of size bytes. Its errors do not name the file.
func scanGGUF(r io.ReaderAt, size int64) (*ggufHeader, error) {
	s := &ggufScanner{r: r, size: size, part: "header"}
	s.header.alignment = defaultAlignment
	tensors, keys := s.start()
	s.keys(keys)
	s.tensors(tensors)
	if s.err != nil {
		return nil, s.err
	}
	s.header.raw = s.buf[:s.pos]
	return &s.header, nil
}

func (s *ggufScanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// bytes returns the next n bytes, or nil if the file is too short.
func (s *ggufScanner) bytes(n int64) []byte {
	if s.err != nil {
		return nil
	}
	if n < 0 || n > s.size-s.pos {
		s.fail("the file ends inside %s, at byte %d: it is incomplete or damaged; download it again", s.part, s.size)
		return nil
	}
	if n > maxHeader-s.pos {
		s.fail("%s makes the header larger than %d bytes: the file is damaged; download it again", s.part, maxHeader)
		return nil
	}
	if missing := s.pos + n - int64(len(s.buf)); missing > 0 {
		s.read(max(missing, 1<<16))
	}
	if s.err != nil {
		return nil
	}
	s.pos += n
	return s.buf[s.pos-n : s.pos]
}

// read appends n more bytes, or fewer at the end of the file.
func (s *ggufScanner) read(n int64) {
	have := len(s.buf)
	n = min(n, s.size-int64(have))
	s.buf = slices.Grow(s.buf, int(n))[:have+int(n)]
	got, err := s.r.ReadAt(s.buf[have:], int64(have))
	if got == int(n) {
		return
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.fail("cannot be read at byte %d: %w", have+got, err)
}

func (s *ggufScanner) u32() uint32 {
	if b := s.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (s *ggufScanner) u64() uint64 {
	if b := s.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a number of items and checks that the file can hold them at each bytes per item.
func (s *ggufScanner) count(what string, each int64) int64 {
	n := s.u64()
	if s.err == nil && n > uint64(s.size-s.pos)/uint64(each) {
		s.fail("%s claims %d %s, which %d bytes cannot hold: the file is incomplete or damaged; download it again", s.part, n, what, s.size)
		return 0
	}
	return int64(n)
}

func (s *ggufScanner) text() string {
	return string(s.bytes(s.count("bytes of text", 1)))
}

// name reads a text that ggml stores as a C string.
func (s *ggufScanner) name(what string) string {
	name := s.text()
	if s.err == nil && (name == "" || bytes.IndexByte([]byte(name), 0) >= 0) {
		s.fail("%s has the invalid name %q: the file is damaged; download it again", what, name)
	}
	return name
}

func (s *ggufScanner) start() (tensors, keys int64) {
	magic := s.bytes(min(4, s.size))
	if s.err == nil && string(magic) != "GGUF" {
		s.fail("is not a GGUF file: it starts with %q instead of \"GGUF\"; choose a file in that format", magic)
	}
	version := s.u32()
	switch {
	case s.err != nil:
	case version&0xffff == 0:
		s.fail("has the byte order of another machine (big-endian); use the little-endian file")
	case version < 2:
		s.fail("has version %d of the format, which is not supported any more; convert the model again, or download a newer file", version)
	case version > 3:
		s.fail("has version %d of the format, and 3 is the newest known here; upgrade ggml", version)
	}
	tensors = s.count("tensors", 8+4+4+8)
	keys = s.count("keys", 8+4+1)
	return tensors, keys
}

func (s *ggufScanner) keys(n int64) {
	seen := map[string]bool{}
	for i := int64(0); i < n && s.err == nil; i++ {
		s.part = fmt.Sprintf("key %d of %d", i+1, n)
		key := s.name(s.part)
		s.part = fmt.Sprintf("the value of key %q", key)
		if seen[key] {
			s.fail("has the key %q twice: the file is damaged; download it again", key)
		}
		seen[key] = true
		s.value(key)
	}
}

func (s *ggufScanner) value(key string) {
	switch t := s.u32(); {
	case s.err != nil:
	case key == keyAlignment:
		n := s.u32()
		if s.err == nil && (t != ggufTypeU32 || !validAlignment(n)) {
			s.fail("the key %q must be an uint32 that is a power of two up to %d: the file is damaged; download it again", key, maxAlignment)
		}
		s.header.alignment = int64(n)
	case t == ggufString:
		if v := s.text(); hasNUL(v) {
			s.keep(key, v)
		}
	case t == ggufArray:
		s.array(key)
	case t < uint32(len(ggufSizes)):
		s.bytes(ggufSizes[t])
	default:
		s.fail("%s has the unknown type %d: the file is damaged; download it again", s.part, t)
	}
}

func (s *ggufScanner) array(key string) {
	t := s.u32()
	switch {
	case s.err != nil:
	case t == ggufArray:
		s.fail("%s is an array of arrays, which ggml does not support", s.part)
	case t >= uint32(len(ggufSizes)):
		s.fail("%s is an array of the unknown type %d: the file is damaged; download it again", s.part, t)
	case t == ggufString:
		s.strings(key, s.count("strings", 8))
	default:
		s.bytes(ggufSizes[t] * s.count("elements", ggufSizes[t]))
	}
}

func (s *ggufScanner) strings(key string, n int64) {
	first, nul := s.pos, false
	for i := int64(0); i < n && s.err == nil; i++ {
		nul = bytes.IndexByte(s.bytes(s.count("bytes of text", 1)), 0) >= 0 || nul
	}
	if !nul || s.err != nil {
		return
	}
	s.pos = first
	values := make([]string, n)
	for i := range values {
		values[i] = s.text()
	}
	s.keep(key, values)
}

func (s *ggufScanner) keep(key string, value any) {
	if s.header.exact == nil {
		s.header.exact = map[string]any{}
	}
	s.header.exact[key] = value
}

func (s *ggufScanner) tensors(n int64) {
	list := make([]GGUFTensor, 0, min(n, 1<<16))
	seen := map[string]bool{}
	var end int64 // end of the data so far
	for i := int64(0); i < n && s.err == nil; i++ {
		s.part = fmt.Sprintf("the description of tensor %d of %d", i+1, n)
		t := s.tensor()
		if s.err != nil {
			return
		}
		if seen[t.Name] {
			s.fail("has the tensor %q twice: the file is damaged; download it again", t.Name)
		}
		seen[t.Name] = true
		if t.Offset != end {
			s.fail("tensor %q starts at byte %d of the data instead of %d: the file is damaged; download it again", t.Name, t.Offset, end)
		}
		if end = padded(t.Offset+t.Size, s.header.alignment); end > maxBytes {
			s.fail("tensor %q is too large: the file is damaged; download it again", t.Name)
		}
		list = append(list, t)
	}
	if n == 0 || s.err != nil {
		return
	}
	s.part = "the padding before the data"
	s.bytes(padded(s.pos, s.header.alignment) - s.pos)
	for _, t := range list {
		if end := s.pos + t.Offset + t.Size; s.err == nil && end > s.size {
			s.fail("is truncated: tensor %q ends at byte %d but the file has %d bytes; download it again", t.Name, end, s.size)
		}
	}
	s.header.tensors = list
}

func (s *ggufScanner) tensor() GGUFTensor {
	t := GGUFTensor{Name: s.name(s.part)}
	if len(t.Name) > maxGGUFName {
		s.fail("tensor %q has a name of %d bytes; ggml allows %d", t.Name, len(t.Name), maxGGUFName)
	}
	s.part = fmt.Sprintf("the description of tensor %q", t.Name)
	dims := s.u32()
	if dims > MaxDims {
		s.fail("tensor %q has %d dimensions; ggml allows %d", t.Name, dims, MaxDims)
		return t
	}
	t.Shape = []int64{1, 1, 1, 1}
	for i := range dims {
		t.Shape[i] = int64(s.u64())
	}
	t.Type = Type(s.u32())
	t.Offset = int64(s.u64())
	if s.err == nil {
		if err := t.check(); err != nil {
			s.fail("%w: the file is damaged or newer than this ggml; download it again, or upgrade ggml", err)
		}
	}
	return t
}

// padded rounds n up to a multiple of a power of two.
func padded(n, alignment int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

func validAlignment(n uint32) bool { return n > 0 && n&(n-1) == 0 && n <= maxAlignment }

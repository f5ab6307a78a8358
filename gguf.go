package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/goggml/ggml/internal/filelink"
)

// ErrKeyNotFound reports that a GGUF file does not have a key.
var ErrKeyNotFound = errors.New("key not found")

// A FileError is the error of a file that cannot be read or written, or is damaged.
type FileError struct {
	Path   string
	Reason string // what is wrong, and the remedy
	Err    error  // the cause, or nil
}

// Error names the file and the reason.
func (e *FileError) Error() string {
	e = made(e)
	return "ggml: " + e.Path + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error {
	e = made(e)
	return e.Err
}

// fileError describes a failure of a file operation. It takes only the cause of a system error,
// whose text names the file again.
func fileError(path, doing string, err error) error {
	var have *FileError
	if errors.As(err, &have) {
		return err
	}
	cause := err
	var p *fs.PathError
	if errors.As(err, &p) {
		cause = p.Err
	}
	reason := cause.Error()
	if doing != "" {
		reason = doing + ": " + reason
	}
	return &FileError{Path: path, Reason: reason, Err: err}
}

// A GGUF is the metadata of a GGUF file, or of a model split over several files: key-value pairs,
// and the names, types and shapes of tensors. Tensor data stays in the file, or in the tensor given
// to [GGUF.AddTensor], until [GGUF.Load] or [GGUF.WriteFile] reads it.
//
// An opened file can be changed and written to another file, or to the same one. A closed GGUF
// appears empty. It is safe for concurrent use. C: struct gguf_context.
type GGUF struct {
	h    *handle
	core *ggufCore
	name string // name of the file, for messages

	mu    sync.Mutex
	data  map[string]ggufData // source of each tensor's data, by name
	exact map[string]any      // values whose strings C would cut at a NUL

	parts []*ggufPart // the files; none for a new GGUF
}

// A ggufPart is an open file.
type ggufPart struct {
	name   string
	reader io.ReaderAt
	start  int64 // offset of the data section
}

// A ggufData is the source of a tensor's data: a function, or a range of a file.
type ggufData struct {
	write  func(w io.Writer) error
	part   *ggufPart
	offset int64 // in bytes from the start of the file
}

// ggufCore is the part of a GGUF that its handle frees.
type ggufCore struct {
	ctx   *C.struct_gguf_context
	files []*os.File // opened by OpenGGUF
}

func (c *ggufCore) free() {
	C.gguf_free(c.ctx)
	for _, f := range c.files {
		f.Close()
	}
}

func newGGUF(name string, ctx unsafe.Pointer, files ...*os.File) *GGUF {
	core := &ggufCore{ctx: (*C.struct_gguf_context)(ctx), files: files}
	g := &GGUF{name: name, core: core, data: map[string]ggufData{}}
	g.h, _ = newHandle("GGUF", core.free)
	closeOnCollect(g, g.h)
	return g
}

// NewGGUF makes an empty GGUF, to be filled and written. C: gguf_init_empty.
func NewGGUF() (*GGUF, error) {
	r := C.goggml_gguf_new()
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: new GGUF: %w", err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: new GGUF: %w", ErrOutOfMemory)
	}
	return newGGUF("new GGUF", r.value), nil
}

// OpenGGUF reads the header of a file, or of all files of a split model whose first file is path.
// It presents a split model as one file. A file too short for its tensors is refused with a
// [FileError]. The files stay open until Close. C: gguf_init_from_callback, gguf_init_from_file.
func OpenGGUF(path string) (*GGUF, error) {
	g, err := OpenGGUFPart(path)
	if err != nil {
		return nil, err
	}
	if err := g.join(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// OpenGGUFPart opens one file of a split model by itself, with its own keys and tensors, to change
// and replace it. C: gguf_init_from_file.
func OpenGGUFPart(path string) (*GGUF, error) {
	file, info, err := filelink.Open(path)
	if err != nil {
		return nil, fileError(path, "cannot be opened", err)
	}
	g, err := readGGUF(path, file, info.Size())
	if err != nil {
		file.Close()
		return nil, err
	}
	g.core.files = append(g.core.files, file)
	return g, nil
}

// ReadGGUF reads the header of a file of size bytes; for a split model, only the header of this
// file. The reader is used until Close, which does not close it. C: gguf_init_from_callback,
// gguf_init_from_buffer.
func ReadGGUF(r io.ReaderAt, size int64) (*GGUF, error) {
	name := "GGUF data"
	if r == nil {
		return nil, &FileError{Path: name, Reason: "the reader is nil"}
	}
	if named, ok := r.(interface{ Name() string }); ok {
		name = named.Name()
	}
	return readGGUF(name, r, size)
}

func readGGUF(name string, r io.ReaderAt, size int64) (*GGUF, error) {
	header, err := scanGGUF(r, size)
	if err != nil {
		return nil, fileError(name, "", err)
	}
	ctx := C.goggml_gguf_read(unsafe.Pointer(&header.raw[0]), C.size_t(len(header.raw)), C.uint64_t(size))
	if err := guardError(ctx.error); err != nil {
		return nil, fileError(name, "the header is damaged; download the file again", err)
	}
	if ctx.value == nil {
		return nil, &FileError{Path: name, Reason: "the header is damaged; download the file again"}
	}
	g := newGGUF(name, ctx.value)
	g.exact = header.exact
	part := &ggufPart{name: name, reader: r, start: int64(len(header.raw))}
	g.parts = []*ggufPart{part}
	for _, t := range header.tensors {
		g.data[t.Name] = ggufData{part: part, offset: part.start + t.Offset}
	}
	return g, nil
}

// Close frees the metadata, and closes the files that [OpenGGUF] opened. Memory-mapped tensors stay
// valid. It never fails. C: gguf_free.
func (g *GGUF) Close() error {
	if g != nil {
		g.h.close()
	}
	return nil
}

// Name returns the path with which the file was opened.
func (g *GGUF) Name() string {
	g = made(g)
	return g.name
}

// with runs f with the locked C object.
func (g *GGUF) with(f func(ctx *C.struct_gguf_context) error) error {
	if err := g.h.acquire(); err != nil {
		return err
	}
	defer g.h.release()
	g.mu.Lock()
	defer g.mu.Unlock()
	return f(g.core.ctx)
}

// number returns the result of f, or 0 if closed.
func (g *GGUF) number(f func(ctx *C.struct_gguf_context) int64) int64 {
	var n int64
	_ = g.with(func(ctx *C.struct_gguf_context) error {
		n = f(ctx)
		return nil
	})
	return n
}

// Version returns the version of the format; files are written with version 3. C: gguf_get_version.
func (g *GGUF) Version() int {
	g = made(g)
	return int(g.number(func(ctx *C.struct_gguf_context) int64 { return int64(C.gguf_get_version(ctx)) }))
}

// Alignment returns the alignment in bytes of tensor data in the file. Set it by the key
// "general.alignment" before adding tensors. C: gguf_get_alignment.
func (g *GGUF) Alignment() int64 {
	g = made(g)
	return g.number(func(ctx *C.struct_gguf_context) int64 { return int64(C.gguf_get_alignment(ctx)) })
}

// DataOffset returns the offset of the data section in bytes from the start of the file: the opened
// file or, for a new GGUF and a split model, the file to write. C: gguf_get_data_offset,
// gguf_get_meta_size.
func (g *GGUF) DataOffset() int64 {
	g = made(g)
	return g.number(func(ctx *C.struct_gguf_context) int64 {
		if len(g.parts) == 1 {
			return g.parts[0].start
		}
		r := C.goggml_gguf_meta_size(ctx)
		_ = guardError(r.error)
		return int64(r.value)
	})
}

// A GGUFTensor describes a tensor in a file.
type GGUFTensor struct {
	Name   string
	Type   Type
	Shape  []int64 // [ne0, ne1, …], ne0 fastest
	Offset int64   // bytes from the start of the data section
	Size   int64   // bytes
}

// NumElements returns the product of the sizes.
func (t GGUFTensor) NumElements() int64 {
	n := int64(1)
	for _, ne := range t.Shape {
		n *= ne
	}
	return n
}

// String returns the name, type and shape of the tensor.
func (t GGUFTensor) String() string { return Operand{t.Name, t.Type, t.Shape}.String() }

// check requires a type and shape valid in ggml, drops trailing ones from the shape, and computes
// the size.
func (t *GGUFTensor) check() error {
	if !t.Type.IsValid() {
		return fmt.Errorf("tensor %q has the unknown type %d", t.Name, int32(t.Type))
	}
	if len(t.Shape) < 1 || len(t.Shape) > MaxDims {
		return fmt.Errorf("tensor %q has %d dimensions instead of 1 to %d", t.Name, len(t.Shape), MaxDims)
	}
	elements := int64(1)
	for i, n := range t.Shape {
		if n < 1 || n > math.MaxInt64>>7/elements {
			return fmt.Errorf("tensor %q has the impossible size %d in dimension %d", t.Name, n, i)
		}
		elements *= n
	}
	if block := t.Type.BlockSize(); t.Shape[0]%block != 0 {
		return fmt.Errorf("tensor %q has rows of %d elements; rows of %v must be multiples of %d", t.Name, t.Shape[0], t.Type, block)
	}
	dims := len(t.Shape)
	for dims > 1 && t.Shape[dims-1] == 1 {
		dims--
	}
	t.Shape = slices.Clip(t.Shape[:dims])
	t.Size = t.Type.RowSize(elements)
	return nil
}

// ne returns the shape with all dimensions.
func (t GGUFTensor) ne() [MaxDims]int64 {
	ne := [MaxDims]int64{1, 1, 1, 1}
	copy(ne[:], t.Shape)
	return ne
}

func ggufTensorAt(ctx *C.struct_gguf_context, id C.int64_t) (GGUFTensor, error) {
	r := C.goggml_gguf_info_at(ctx, id)
	if err := guardError(r.error); err != nil {
		return GGUFTensor{}, err
	}
	v := r.value
	t := GGUFTensor{
		Name:  C.GoString(v.name),
		Type:  Type(v._type),
		Shape: []int64{int64(v.ne[0]), int64(v.ne[1]), int64(v.ne[2]), int64(v.ne[3])},
	}
	err := t.check()
	t.Offset, t.Size = int64(v.offset), int64(v.size)
	return t, err
}

func ggufTensors(ctx *C.struct_gguf_context) ([]GGUFTensor, error) {
	n := C.gguf_get_n_tensors(ctx)
	list := make([]GGUFTensor, 0, n)
	for id := range n {
		t, err := ggufTensorAt(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// NumTensors returns the number of tensors. C: gguf_get_n_tensors.
func (g *GGUF) NumTensors() int {
	g = made(g)
	return int(g.number(func(ctx *C.struct_gguf_context) int64 { return int64(C.gguf_get_n_tensors(ctx)) }))
}

// Tensors iterates over the tensors in the order of the file; it yields none if the GGUF is closed.
// C: gguf_get_tensor_name, gguf_get_tensor_type, gguf_get_tensor_ne, gguf_get_tensor_offset,
// gguf_get_tensor_size.
func (g *GGUF) Tensors() iter.Seq[GGUFTensor] {
	g = made(g)
	return func(yield func(GGUFTensor) bool) {
		list, _ := g.tensorList()
		for _, t := range list {
			if !yield(t) {
				return
			}
		}
	}
}

func (g *GGUF) tensorList() (list []GGUFTensor, err error) {
	err = g.with(func(ctx *C.struct_gguf_context) error {
		list, err = ggufTensors(ctx)
		return err
	})
	return list, err
}

// Tensor finds a tensor by its name. C: gguf_find_tensor.
func (g *GGUF) Tensor(name string) (GGUFTensor, bool) {
	g = made(g)
	var t GGUFTensor
	found := false
	_ = g.with(func(ctx *C.struct_gguf_context) error {
		id := ggufFindTensor(ctx, name)
		if id < 0 {
			return nil
		}
		var err error
		t, err = ggufTensorAt(ctx, id)
		found = err == nil
		return err
	})
	return t, found
}

func ggufFindTensor(ctx *C.struct_gguf_context, name string) C.int64_t {
	if hasNUL(name) {
		return -1
	}
	return withCString(name, func(s *C.char) C.int64_t { return C.gguf_find_tensor(ctx, s) })
}

// hasNUL reports whether C would cut the string short.
func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

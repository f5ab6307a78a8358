package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"unsafe"

	"github.com/goggml/ggml/internal/filelink"
)

// chunkSize is the number of bytes of a tensor in memory while it is read or written.
const chunkSize = 1 << 20

// AddTensor adds a tensor with its name, type and shape. The tensor must be contiguous and
// allocated. Its data is read when the file is written: do not close its context or its buffer
// before. C: gguf_add_tensor.
func (g *GGUF) AddTensor(t *Tensor) error {
	g = made(g)
	if t.ptr() == nil {
		return t.errorf(t.missing(), "the tensor is nil, a zero value, or the result of a failed op")
	}
	release, err := t.retain()
	if err != nil {
		return err
	}
	defer release()
	if !t.IsAllocated() {
		return t.errorf(ErrNotAllocated, "the tensor has no memory; allocate its context first")
	}
	if !t.IsContiguous() {
		return t.errorf(nil, "the tensor must be contiguous; call Cont")
	}
	info := GGUFTensor{Name: t.Name(), Type: t.typ, Shape: t.Shape()}
	n := t.NumBytes()
	return g.AddTensorFrom(info, func(w io.Writer) error {
		_, err := io.CopyBuffer(w, io.NewSectionReader(t, 0, n), make([]byte, min(chunkSize, n)))
		return err
	})
}

// AddTensorFrom adds a tensor with the name, type and shape of info. write produces the data each
// time the file is written: exactly the bytes that type and shape take. C: gguf_add_tensor.
func (g *GGUF) AddTensorFrom(info GGUFTensor, write func(w io.Writer) error) error {
	g = made(g)
	if err := g.h.acquire(); err != nil {
		return err
	}
	defer g.h.release()
	info.Shape = slices.Clone(info.Shape)
	if err := info.check(); err != nil {
		return &FileError{Path: g.name, Reason: err.Error()}
	}
	if info.Name == "" || len(info.Name) > maxGGUFName || hasNUL(info.Name) {
		return &FileError{Path: g.name, Reason: fmt.Sprintf("tensor %q: a name has 1 to %d bytes, without a NUL; call SetName", info.Name, maxGGUFName)}
	}
	if err := g.checkWriter(info.Name, write); err != nil {
		return err
	}
	return g.add(info, ggufData{write: write})
}

func (g *GGUF) checkWriter(name string, write func(w io.Writer) error) error {
	if write == nil {
		return &FileError{Path: g.name, Reason: fmt.Sprintf("tensor %q: the function that writes its data is nil", name)}
	}
	return nil
}

// add appends a tensor; info must be checked.
func (g *GGUF) add(info GGUFTensor, data ggufData) error {
	return g.with(func(ctx *C.struct_gguf_context) error {
		if ggufFindTensor(ctx, info.Name) >= 0 {
			return &FileError{Path: g.name, Reason: fmt.Sprintf("has a tensor %q already; names are unique", info.Name)}
		}
		ne := info.ne()
		err := withCString(info.Name, func(s *C.char) error {
			return guardError(C.goggml_gguf_add(ctx, s, C.enum_ggml_type(info.Type), (*C.int64_t)(&ne[0])))
		})
		if err == nil {
			g.data[info.Name] = data
		}
		return err
	})
}

// ggufMeta returns the header as written, up to the first tensor. C: gguf_get_meta_size,
// gguf_get_meta_data.
func ggufMeta(ctx *C.struct_gguf_context) ([]byte, error) {
	size := C.goggml_gguf_meta_size(ctx)
	if err := guardError(size.error); err != nil {
		return nil, err
	}
	header := make([]byte, size.value)
	return header, guardError(C.goggml_gguf_meta_data(ctx, unsafe.Pointer(&header[0])))
}

// Header returns the metadata as written: the keys and the descriptions of tensors, up to the data
// of the first. C: gguf_get_meta_size, gguf_get_meta_data, gguf_write_to_file with only_meta.
func (g *GGUF) Header() (header []byte, err error) {
	g = made(g)
	err = g.with(func(ctx *C.struct_gguf_context) error {
		header, err = ggufMeta(ctx)
		return err
	})
	return header, err
}

// WriteTo writes the file: the header, then the data of the tensors in order. Only a small part of
// the data is in memory at a time. The same keys and tensors always produce the same bytes. It
// returns the number of bytes written. C: gguf_get_meta_data.
func (g *GGUF) WriteTo(w io.Writer) (int64, error) {
	g = made(g)
	if w == nil {
		return 0, &FileError{Path: g.name, Reason: "the writer is nil"}
	}
	if err := g.h.acquire(); err != nil {
		return 0, err
	}
	defer g.h.release()
	counted := &countingWriter{w: w}
	buffered := bufio.NewWriterSize(counted, chunkSize)
	err := g.write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	return counted.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (g *GGUF) write(w io.Writer) error {
	var header []byte
	var tensors []GGUFTensor
	var data []ggufData
	var alignment int64
	// The lock ends before data is written: a data source may use the GGUF.
	err := g.with(func(ctx *C.struct_gguf_context) (err error) {
		if header, err = ggufMeta(ctx); err != nil {
			return err
		}
		alignment = int64(C.gguf_get_alignment(ctx))
		tensors, err = ggufTensors(ctx)
		for _, t := range tensors {
			data = append(data, g.data[t.Name])
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for i, t := range tensors {
		if err := writeTensor(w, t, data[i], alignment); err != nil {
			return err
		}
	}
	return nil
}

// writeTo writes the data of a tensor of size bytes.
func (d ggufData) writeTo(w io.Writer, size int64) error {
	if d.write != nil {
		return d.write(w)
	}
	n, err := io.Copy(w, io.NewSectionReader(d.part.reader, d.offset, size))
	if err == nil && n < size {
		err = fileError(d.part.name, "has become shorter since it was opened", io.ErrUnexpectedEOF)
	}
	return err
}

var errTooMuchData = errors.New("more data than the type and shape of the tensor take")

// exactWriter passes on at most size bytes, and counts the bytes given to it.
type exactWriter struct {
	w           io.Writer
	size, given int64
}

func (e *exactWriter) Write(p []byte) (int, error) {
	e.given += int64(len(p))
	if e.given > e.size {
		return 0, errTooMuchData
	}
	return e.w.Write(p)
}

func writeTensor(w io.Writer, t GGUFTensor, data ggufData, alignment int64) error {
	exact := &exactWriter{w: w, size: t.Size}
	err := data.writeTo(exact, t.Size)
	switch {
	case exact.given > exact.size: // regardless of the error of Write
		err = fmt.Errorf("%w: %d bytes or more", errTooMuchData, exact.given)
	case err == nil && exact.given < exact.size:
		err = fmt.Errorf("%d bytes of data are missing", exact.size-exact.given)
	}
	if err != nil {
		return fmt.Errorf("tensor %q of %d bytes: %w", t.Name, t.Size, err)
	}
	_, err = w.Write(make([]byte, padded(t.Size, alignment)-t.Size))
	return err
}

// WriteFile writes a temporary file beside path, syncs it to the disk, and renames it: path never
// names half a file, and an opened file may be replaced by itself. If path is a link, it stays and
// its target is written. After an error no file is left over; if the process is killed meanwhile,
// the next WriteFile of path removes its temporary file. A pipe, a device or an open file such as
// /dev/stdout is written directly. C: gguf_write_to_file.
func (g *GGUF) WriteFile(path string) error {
	g = made(g)
	if err := g.h.acquire(); err != nil {
		return err
	}
	defer g.h.release()
	return writeError(filelink.Write(path, g.writeWhole))
}

func (g *GGUF) writeWhole(w io.Writer) error {
	_, err := g.WriteTo(w)
	return err
}

// writeError turns an error of filelink into the error of a file.
func writeError(err error) error {
	var where *fs.PathError
	if !errors.As(err, &where) {
		return err
	}
	return &FileError{Path: where.Path, Reason: "cannot be written: " + where.Err.Error(), Err: err}
}

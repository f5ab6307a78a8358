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

// chunkSize is how much of a tensor is in memory while it is read or written.
const chunkSize = 1 << 20

// AddTensor adds a tensor by its name, with its type and shape. The tensor is
// contiguous and has memory; its data is read when the file is written, so
// neither its context nor its buffer may be closed before. C: gguf_add_tensor.
func (g *GGUF) AddTensor(t *Tensor) error {
	g = made(g)
	if t.ptr() == nil {
		return t.errorf(t.missing(), "there is no tensor: it is nil, a zero value, or comes from an op that failed")
	}
	release, err := retainChecked(t.ctx.withDependencies())
	if err != nil {
		return during(err, t.operand())
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

// AddTensorFrom adds a tensor whose data write produces each time the file is
// written: exactly as many bytes as the type and shape take. Of info the name,
// type and shape count. C: gguf_add_tensor.
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
		return &FileError{Path: g.name, Reason: fmt.Sprintf("tensor %q: there is no function that writes its data", name)}
	}
	return nil
}

// add appends a tensor; info has been checked.
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

// ggufMeta is the header as it is written, up to the first tensor.
// C: gguf_get_meta_size, gguf_get_meta_data.
func ggufMeta(ctx *C.struct_gguf_context) ([]byte, error) {
	size := C.goggml_gguf_meta_size(ctx)
	if err := guardError(size.error); err != nil {
		return nil, err
	}
	header := make([]byte, size.value)
	return header, guardError(C.goggml_gguf_meta_data(ctx, unsafe.Pointer(&header[0])))
}

// Header is the metadata as it is written: the keys and the descriptions of the
// tensors, up to the data of the first. C: gguf_get_meta_size,
// gguf_get_meta_data, gguf_write_to_file with only_meta.
func (g *GGUF) Header() (header []byte, err error) {
	g = made(g)
	err = g.with(func(ctx *C.struct_gguf_context) error {
		header, err = ggufMeta(ctx)
		return err
	})
	return header, err
}

// WriteTo writes the file: the header, then the data of one tensor after the other. Only a small
// part of the data is in memory at a time. The same keys and tensors always give the same bytes. It
// returns the number of bytes written. C: gguf_get_meta_data.
func (g *GGUF) WriteTo(w io.Writer) (int64, error) {
	g = made(g)
	if w == nil {
		return 0, &FileError{Path: g.name, Reason: "there is no writer: it is nil"}
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
	// The lock ends before data is written: a source may use the GGUF.
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

// writeTo writes the data of a tensor of that many bytes.
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

// exactWriter lets only so many bytes through, and counts what it is given.
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
	case exact.given > exact.size: // whatever became of the error of Write
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

// WriteFile writes the file beside path under a temporary name, makes sure that it is on the disk, and renames it: path
// never names half a file, and an opened file may be replaced by itself. A link stays, and its target is written. After an
// error no file is left over; if a process is killed meanwhile, the next WriteFile of path removes its file. A pipe, a
// device or an open file such as /dev/stdout is written to.
// C: gguf_write_to_file.
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

// writeError is the error of a file that filelink could not write.
func writeError(err error) error {
	var where *fs.PathError
	if !errors.As(err, &where) {
		return err
	}
	return &FileError{Path: where.Path, Reason: "cannot be written: " + where.Err.Error(), Err: err}
}

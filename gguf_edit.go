package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"io"
)

// CopyTensor adds a tensor of another GGUF. Its data is read when the file is written: do not close
// the other GGUF before.
func (g *GGUF) CopyTensor(from *GGUF, name string) error {
	if from == nil {
		return errNilGGUF
	}
	info, ok := from.Tensor(name)
	if !ok {
		if err := from.h.acquire(); err != nil {
			return err
		}
		from.h.release()
		return &FileError{Path: from.name, Reason: fmt.Sprintf("has no tensor %q", name)}
	}
	from.mu.Lock()
	data := from.data[name]
	from.mu.Unlock()
	return g.AddTensorFrom(info, func(w io.Writer) error {
		if err := from.h.acquire(); err != nil {
			return err
		}
		defer from.h.release()
		return data.writeTo(w, info.Size)
	})
}

// EditGGUF changes a file: it opens the file, runs edit, writes the result beside the file and
// renames it; see [GGUF.WriteFile]. It changes one file of a split model. If edit fails, the file
// stays as it is.
func EditGGUF(path string, edit func(g *GGUF) error) error {
	g, err := OpenGGUFPart(path)
	if err != nil {
		return err
	}
	defer g.Close()
	if edit == nil {
		return &FileError{Path: path, Reason: "the function that edits it is nil"}
	}
	if err := edit(g); err != nil {
		return err
	}
	return g.WriteFile(path)
}

// SetTensorData replaces a tensor's data, and its type if t differs. write produces the data each
// time the file is written, as for [GGUF.AddTensorFrom]. The tensor keeps its position, name and
// shape. C: gguf_set_tensor_type, gguf_set_tensor_data.
func (g *GGUF) SetTensorData(name string, t Type, write func(w io.Writer) error) error {
	g = made(g)
	if err := g.checkWriter(name, write); err != nil {
		return err
	}
	return g.with(func(ctx *C.struct_gguf_context) error {
		id := ggufFindTensor(ctx, name)
		if id < 0 {
			return &FileError{Path: g.name, Reason: fmt.Sprintf("has no tensor %q", name)}
		}
		info, err := ggufTensorAt(ctx, id)
		if err != nil {
			return err
		}
		info.Type = t
		if err := info.check(); err != nil {
			return &FileError{Path: g.name, Reason: err.Error()}
		}
		err = withCString(name, func(s *C.char) error {
			return guardError(C.goggml_gguf_set_tensor_type(ctx, s, C.enum_ggml_type(t)))
		})
		if err == nil {
			g.data[name] = ggufData{write: write}
		}
		return err
	})
}

// TensorData returns a reader of a tensor's data in the file, as bytes of its type. It is valid
// until the GGUF is closed. It fails for a tensor that was added and is not in the file yet.
func (g *GGUF) TensorData(name string) (*io.SectionReader, error) {
	g = made(g)
	info, found := g.Tensor(name)
	if err := g.h.acquire(); err != nil {
		return nil, err
	}
	defer g.h.release()
	place, err := g.place(name)
	if err != nil || !found {
		return nil, err
	}
	return io.NewSectionReader(place.part.reader, place.offset, info.Size), nil
}

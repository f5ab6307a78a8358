package model

import (
	"fmt"
	"io"

	"github.com/goggml/ggml"
)

// SaveOptions change tensors while a model is written. The zero value writes them unchanged.
type SaveOptions struct {
	// Type returns the type to write a tensor in; if it is nil, types do not change.
	Type func(name string, t ggml.Type) ggml.Type
	// Change returns a function that changes the values of a tensor, in order with ne0 fastest, or nil for none. If
	// Change is nil, no tensor changes.
	Change func(name string) func(values []float32) error
}

// Save writes the model to a GGUF file that stock llama.cpp reads. Unchanged tensors are copied byte by byte. Values
// that are not finite are an error. The file is written beside path and renamed when it is complete. The model may
// be closed meanwhile. Save of a closed model returns an error and leaves path as it is.
func (m *Model) Save(path string, o SaveOptions) error {
	release, err := m.Retain()
	if err != nil {
		return err
	}
	defer release()
	g, err := ggml.NewGGUF()
	if err != nil {
		return err
	}
	defer g.Close()
	if err := m.WriteKeys(g); err != nil {
		return err
	}
	for t := range m.Weights() {
		if err := addTensor(g, ggml.GGUFTensor{Name: m.names[t], Type: t.Type(), Shape: m.FileShape(t)}, t, o); err != nil {
			return err
		}
	}
	return g.WriteFile(path)
}

// WriteKeys sets the metadata of the model in a GGUF file: the metadata of the file it was loaded
// from, or its hyper-parameters and vocabulary.
func (m *Model) WriteKeys(g *ggml.GGUF) error {
	release, err := m.Retain()
	if err != nil {
		return err
	}
	defer release()
	if m.gguf != nil {
		return g.CopyKeys(m.gguf)
	}
	if err := m.Config().WriteKeys(g); err != nil {
		return err
	}
	if m.Tokenizer == nil {
		return nil
	}
	for _, kv := range m.Tokenizer.KeyValues() {
		if err := g.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	return nil
}

// addTensor adds a tensor with its name and shape in the file.
func addTensor(g *ggml.GGUF, info ggml.GGUFTensor, t *ggml.Tensor, o SaveOptions) error {
	name, typ := info.Name, info.Type
	var change func([]float32) error
	if o.Type != nil {
		typ = o.Type(name, typ)
	}
	if o.Change != nil {
		change = o.Change(name)
	}
	if typ == t.Type() && change == nil {
		return g.AddTensorFrom(info, func(w io.Writer) error { return copyFinite(w, t) })
	}
	if !typ.CanQuantize() {
		return fmt.Errorf("tensor %s: type %v cannot be written", name, typ)
	}
	size := typ.RowSize(t.Dim(0)) * t.NumRows()
	info.Type, info.Size = typ, size
	return g.AddTensorFrom(info, func(w io.Writer) error {
		values, err := t.Float32s()
		if err != nil {
			return err
		}
		if change != nil {
			if err := change(values); err != nil {
				return err
			}
		}
		raw := make([]byte, size)
		if err := ggml.Quantize(raw, typ, values, ggml.QuantizeOptions{RowLen: int(t.Dim(0))}); err != nil {
			return fmt.Errorf("tensor %s: %w", name, err)
		}
		_, err = w.Write(raw)
		return err
	})
}

// copyFinite writes the data of a tensor; values that are not finite are an error.
func copyFinite(w io.Writer, t *ggml.Tensor) error {
	const most = 1 << 18 // values at a time
	typ, rowLen := t.Type(), t.Dim(0)
	rows := min(max(1, most/rowLen), t.NumRows())
	values, raw := make([]float32, rows*rowLen), make([]byte, typ.RowSize(rows*rowLen))
	for from := int64(0); from < t.NumRows(); from += rows {
		n := min(rows, t.NumRows()-from) * rowLen
		part := raw[:typ.RowSize(n)]
		if _, err := t.ReadAt(part, from*typ.RowSize(rowLen)); err != nil {
			return err
		}
		if typ.CanDequantize() {
			if err := ggml.Dequantize(values[:n], typ, part); err != nil {
				return err
			}
			for i, x := range values[:n] {
				if x-x != 0 {
					return fmt.Errorf("value %d of row %d is %v; values must be finite", int64(i)%rowLen, from+int64(i)/rowLen, x)
				}
			}
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

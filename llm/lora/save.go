package lora

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/goggml/ggml"
)

// SaveOptions describe the file of an adapter.
type SaveOptions struct {
	Type ggml.Type      // of the tensors: ggml.F32 (the zero value), ggml.F16 or ggml.BF16
	Name string         // general.name; "" keeps the name in the adapter's Keys
	Keys map[string]any // further keys, written before the adapter's own
}

// The keys that identify the kind of file.
const (
	keyType        = "general.type"
	keyArch        = "general.architecture"
	keyName        = "general.name"
	keyAdapterType = "adapter.type"
	keyAlpha       = "adapter.lora.alpha"
)

var ownKeys = []string{keyType, keyArch, keyAdapterType, keyAlpha}

// Save writes the adapter to a GGUF file that stock llama.cpp reads. The same adapter and options give the same
// bytes. The file is written beside path and renamed when it is complete. The adapter may be closed meanwhile. Save
// of a closed adapter returns an error and leaves path as it is.
func (a *Adapter) Save(path string, o SaveOptions) error {
	release, err := a.retain()
	if err != nil {
		return fmt.Errorf("%s cannot be written: the adapter %w", path, err)
	}
	defer release()
	g, err := a.gguf(o)
	if err != nil {
		return fmt.Errorf("adapter %s: %w", path, err)
	}
	defer g.Close()
	return g.WriteFile(path)
}

func (a *Adapter) gguf(o SaveOptions) (*ggml.GGUF, error) {
	if o.Type != ggml.F32 && o.Type != ggml.F16 && o.Type != ggml.BF16 {
		return nil, fmt.Errorf("adapters are written in f32, f16 or bf16, not in %v", o.Type)
	}
	if len(a.pairs) == 0 {
		return nil, ErrNoPairs
	}
	if fault := validAlpha(a.Alpha); fault != "" {
		return nil, fmt.Errorf("%s", fault)
	}
	g, err := ggml.NewGGUF()
	if err != nil {
		return nil, err
	}
	err = a.setKeys(g, o)
	for _, p := range a.pairs {
		if err == nil {
			err = addTensor(g, p.Base+suffixA, p.A, o.Type, 1)
		}
		if err == nil {
			err = addTensor(g, p.Base+suffixB, p.B, o.Type, a.inFile(p))
		}
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (a *Adapter) setKeys(g *ggml.GGUF, o SaveOptions) error {
	further := maps.Clone(a.Keys)
	if further == nil {
		further = map[string]any{}
	}
	maps.Copy(further, o.Keys)
	if o.Name != "" {
		further[keyName] = o.Name
	}
	values := []any{"adapter", a.Arch, "lora", a.Alpha}
	for i, key := range ownKeys {
		if _, taken := further[key]; taken {
			return fmt.Errorf("key %q is set by the adapter itself; leave it out of Keys", key)
		}
		if err := g.Set(key, values[i]); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(further)) {
		if err := g.Set(key, further[key]); err != nil {
			return err
		}
	}
	return nil
}

// addTensor adds a tensor scaled by a factor; its values are validated as they are written.
func addTensor(g *ggml.GGUF, name string, t *ggml.Tensor, typ ggml.Type, factor float32) error {
	info := ggml.GGUFTensor{Name: name, Type: typ, Shape: t.Shape()}
	return g.AddTensorFrom(info, func(w io.Writer) error {
		values, err := t.Float32s()
		if err != nil {
			return err
		}
		for i := range values {
			values[i] *= factor
		}
		raw := make([]byte, typ.RowSize(int64(len(values))))
		if err := ggml.Quantize(raw, typ, values, ggml.QuantizeOptions{RowLen: int(t.Dim(0))}); err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	})
}

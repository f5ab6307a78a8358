package ggml_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// A panic in the caller's function, reader or writer reaches the caller's goroutine, and the object
// remains usable.
func TestCallbackPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	g := fullGGUF(t)
	require.NoError(t, g.WriteFile(path))
	file := encodeGGUF(t, g)
	r := newRegressor(t, newRegression(16), 4, 1)
	c := ggml.NewContext()
	defer c.Close()
	outputs := r.outputs(c, r.x)
	graph := c.NewGraph(outputs)
	fit := func(o ggml.FitOptions) error {
		o.Inputs, o.Outputs, o.Loss, o.Epochs = r.x, outputs, ggml.LossMeanSquaredError, 1
		return ggml.Fit(context.Background(), r.dataset, o, r.backend)
	}
	for name, call := range map[string]func(hook func()) error{
		"progress of Fit": func(hook func()) error {
			return fit(ggml.FitOptions{Progress: func(ggml.FitProgress) { hook() }})
		},
		"parameters of Fit": func(hook func()) error {
			return fit(ggml.FitOptions{Params: func(int, int64) ggml.OptimizerParams { hook(); return ggml.DefaultOptimizerParams() }})
		},
		"progress of a load": func(hook func()) error {
			opened, err := ggml.OpenGGUF(path)
			if err != nil {
				return err
			}
			defer opened.Close()
			weights := ggml.NewContext()
			defer weights.Close()
			buffers, err := opened.Load(weights, r.backend.Device(), ggml.LoadOptions{Progress: func(int64, int64) { hook() }})
			buffers.Close()
			return err
		},
		"edit": func(hook func()) error {
			return ggml.EditGGUF(path, func(*ggml.GGUF) error { hook(); return nil })
		},
		"format of a tensor":  func(hook func()) error { r.x.Format(formatState{hooked{io.Discard, nil, hook}}, 'v'); return nil },
		"writer of a file":    func(hook func()) error { _, err := g.WriteTo(hooked{io.Discard, nil, hook}); return err },
		"writer of a dump":    func(hook func()) error { return r.x.Dump(hooked{io.Discard, nil, hook}, ggml.DumpOptions{}) },
		"writer of a drawing": func(hook func()) error { return graph.WriteDOT(hooked{io.Discard, nil, hook}) },
		"reader of a file": func(hook func()) error {
			read, err := ggml.ReadGGUF(hooked{nil, bytes.NewReader(file), hook}, int64(len(file)))
			if err == nil {
				read.Close()
			}
			return err
		},
		"tensors of a context": iterated(c.Tensors()),
		"parameters":           iterated(c.Params()),
		"tensors of a file":    iterated(g.Tensors()),
		"nodes":                iterated(graph.Nodes()),
		"leaves":               iterated(graph.Leaves()),
		"inputs":               iterated(graph.Inputs()),
		"registries":           iterated(ggml.Registries()),
		"keys": func(hook func()) error {
			for range g.Keys() {
				hook()
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := ggml.OpenObjects()
			require.PanicsWithValue(t, "enough", func() { _ = call(func() { panic("enough") }) })
			done := make(chan error, 1)
			go func() { done <- call(func() {}) }()
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				require.Fail(t, "a lock is left")
			}
			require.Equal(t, before, ggml.OpenObjects())
		})
	}
}

func iterated[T any](items iter.Seq[T]) func(hook func()) error {
	return func(hook func()) error {
		n := 0
		for range items {
			hook()
			n++
		}
		if n == 0 {
			hook()
		}
		return nil
	}
}

// hooked calls a function at each read or write.
type hooked struct {
	w    io.Writer
	r    io.ReaderAt
	hook func()
}

func (h hooked) Write(b []byte) (int, error) { h.hook(); return h.w.Write(b) }

func (h hooked) ReadAt(b []byte, at int64) (int, error) { h.hook(); return h.r.ReadAt(b, at) }

// formatState is the state that fmt passes to a Formatter.
type formatState struct{ io.Writer }

func (formatState) Width() (int, bool)     { return 0, false }
func (formatState) Precision() (int, bool) { return 0, false }
func (formatState) Flag(int) bool          { return false }

// Using a Go address as an op's function panics, and leaves the context unlocked.
func TestNativeOpOfGoMemory(t *testing.T) {
	c := ggml.NewContext()
	x := c.NewTensor(ggml.F32, 2)
	op := &ggml.NativeOp{Name: "no_function", Func: unsafe.Pointer(&struct{ p *ggml.Context }{c})}
	require.Panics(t, func() {
		c.BuildOp(op.Name, []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor { return b.Native(op, nil, ggml.F32, 2) })
	})
	require.Equal(t, "neg", c.Neg(x).Op())
	require.NoError(t, c.Close())
}

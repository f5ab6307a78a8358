package lora_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

var closes = flag.Int("closes", 120, "how often to close what is being written to a file")

// A model or adapter may be closed at any moment while a file is written. If it is closed before, the old file stays
// and the error names the closed object; if it is closed later, the whole file is written. PEFT's is a folder.
func TestWriteWhileClosing(t *testing.T) {
	source := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32).Save(source, model.SaveOptions{}))
	for _, c := range []struct {
		name  string
		write func(t *testing.T, source string) (write func(path string) error, used []io.Closer)
		file  string // that is compared
		share int    // of the closes, in percent
		which string // is closed, in the error
	}{
		{"model", writeModel, "", 25, "model "},
		{"adapter", writeAdapter, "", 20, "the adapter"},
		{"PEFT", writePEFT, "adapter_model.safetensors", 15, "the adapter"},
		{"merge", writeMerged, "", 10, "(model|the adapter|adapter 0 to merge)"},
		{"GGUF", writeGGUF, "", 15, "GGUF"},
		{"tensors", writeTensors, "", 15, "(context|buffer|tensor|GGUF)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "written")
			result := filepath.Join(path, c.file)
			write, used := c.write(t, source)
			began := time.Now()
			require.NoError(t, write(path))
			took := time.Since(began)
			whole := need.Value(os.ReadFile(result))(t)
			closeAll(used)
			require.ErrorIs(t, write(path), ggml.ErrClosed)
			rng := rand.New(rand.NewPCG(1, 1))
			outcomes := map[bool]int{}
			old := []byte("what was there")
			for range max(1, *closes*c.share/100) {
				if c.file == "" {
					require.NoError(t, os.WriteFile(result, old, 0o666))
				} else {
					require.NoError(t, os.RemoveAll(path))
				}
				write, used := c.write(t, source)
				closed := make(chan struct{})
				moment := func(part float64) time.Duration { return time.Duration(part * rng.Float64() * float64(took)) }
				begins, ends := moment(0.25), moment(1)
				go func() {
					defer close(closed)
					time.Sleep(ends)
					closeAll(used)
				}()
				time.Sleep(begins) // so that some are closed before
				err := write(path)
				<-closed
				got, readErr := os.ReadFile(result)
				outcomes[err == nil]++
				if err == nil {
					require.Equal(t, whole, got)
					continue
				}
				if !errors.Is(err, ggml.ErrNotAllocated) { // of tensors whose buffer was closed
					require.ErrorIs(t, err, ggml.ErrClosed)
				}
				require.Regexp(t, c.which, err.Error())
				if c.file == "" {
					require.Equal(t, old, got)
				} else {
					require.ErrorIs(t, readErr, os.ErrNotExist)
				}
			}
			t.Logf("%d times the new file, %d times the old one", outcomes[true], outcomes[false])
		})
	}
}

func closeAll(list []io.Closer) {
	for _, c := range list {
		c.Close()
	}
}

// openTrained opens a model and an adapter whose B is not zero.
func openTrained(t *testing.T, source string) (*model.Model, *lora.Adapter) {
	m := need.Value(model.Load(source, model.LoadOptions{}))(t)
	a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 1}))(t)
	values := make([]float32, a.Pairs()[0].B.NumElements())
	values[0] = 1
	require.NoError(t, ggml.Write(a.Pairs()[0].B, values))
	return m, a
}

func writeModel(t *testing.T, source string) (func(path string) error, []io.Closer) {
	m, a := openTrained(t, source)
	return func(path string) error { return m.Save(path, model.SaveOptions{}) }, []io.Closer{m, a}
}

func writeAdapter(t *testing.T, source string) (func(path string) error, []io.Closer) {
	m, a := openTrained(t, source)
	return func(path string) error { return a.Save(path, lora.SaveOptions{}) }, []io.Closer{m, a}
}

func writePEFT(t *testing.T, source string) (func(path string) error, []io.Closer) {
	m, a := openTrained(t, source)
	return func(path string) error { return a.SavePEFT(path, lora.PEFTOptions{}) }, []io.Closer{m, a}
}

func writeMerged(t *testing.T, source string) (func(path string) error, []io.Closer) {
	m, a := openTrained(t, source)
	return func(path string) error {
		return lora.MergeTo(context.Background(), path, m, []lora.Scaled{{Adapter: a, Scale: 1}}, lora.MergeOptions{Threads: 1})
	}, []io.Closer{m, a}
}

// writeGGUF writes the file that it has opened.
func writeGGUF(t *testing.T, source string) (func(path string) error, []io.Closer) {
	g := need.Value(ggml.OpenGGUF(source))(t)
	return g.WriteFile, []io.Closer{g}
}

// writeTensors writes tensors in memory.
func writeTensors(t *testing.T, _ string) (func(path string) error, []io.Closer) {
	c := ggml.NewContext()
	g := need.Value(ggml.NewGGUF())(t)
	var tensors []*ggml.Tensor
	for i := range 20 {
		tensors = append(tensors, c.NewTensor(ggml.F32, 1<<12).SetName(fmt.Sprint("t", i)))
	}
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	require.NoError(t, buffers.Clear(1))
	for _, x := range tensors {
		require.NoError(t, g.AddTensor(x))
	}
	return g.WriteFile, []io.Closer{buffers, c, g}
}

func TestSaveNobodys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.EqualError(t, (*lora.Adapter)(nil).Save(path, lora.SaveOptions{}), path+" cannot be written: the adapter is nil")
	require.ErrorIs(t, new(lora.Adapter).Save(path, lora.SaveOptions{}), ggml.ErrZeroValue)
	require.EqualError(t, (*model.Model)(nil).Save(path, model.SaveOptions{}), "the model is nil")
	require.ErrorIs(t, new(model.Model).Save(path, model.SaveOptions{}), ggml.ErrZeroValue)
	err := lora.MergeTo(context.Background(), path, nil, nil, lora.MergeOptions{})
	require.EqualError(t, err, "the model is nil")
	require.NoFileExists(t, path)
}

// More threads than there are rows have nothing to do.
func TestMergeOnManyThreads(t *testing.T) {
	f16 := ggml.F16
	m := llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32)
	require.NoError(t, lora.MergeTo(context.Background(), filepath.Join(t.TempDir(), "m"), m, nil, lora.MergeOptions{Type: &f16, Threads: 1 << 31}))
}

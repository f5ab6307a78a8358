package lora_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Whatever writes a file needs what it writes, and that may be closed at any moment: before
// it, the file stays as it was; later, the whole file is written. PEFT's is a folder.
func TestWriteWhileClosing(t *testing.T) {
	source := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32).Save(source, model.SaveOptions{}))
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name  string
		write func(path string, m *model.Model, a *lora.Adapter) error
		file  string // that is compared
		times int
	}{
		{"model", func(path string, m *model.Model, _ *lora.Adapter) error { return m.Save(path, model.SaveOptions{}) }, "", 30},
		{"adapter", func(path string, _ *model.Model, a *lora.Adapter) error { return a.Save(path, lora.SaveOptions{}) }, "", 30},
		{"PEFT", func(path string, _ *model.Model, a *lora.Adapter) error { return a.SavePEFT(path, lora.PEFTOptions{}) }, "adapter_model.safetensors", 20},
		{"merge", func(path string, m *model.Model, a *lora.Adapter) error {
			return lora.MergeTo(context.Background(), path, m, []lora.Scaled{{Adapter: a, Scale: 1}}, lora.MergeOptions{Threads: 1})
		}, "", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func() (*model.Model, *lora.Adapter) {
				m, err := model.Load(source, model.LoadOptions{})
				require.NoError(t, err)
				a, err := lora.New(m, lora.Options{Rank: 2, Alpha: 1})
				require.NoError(t, err)
				values := make([]float32, a.Pairs()[0].B.NumElements())
				values[0] = 1
				require.NoError(t, ggml.Write(a.Pairs()[0].B, values))
				return m, a
			}
			path := filepath.Join(t.TempDir(), "written")
			result := filepath.Join(path, c.file)
			m, a := open()
			began := time.Now()
			require.NoError(t, c.write(path, m, a))
			took := time.Since(began)
			whole, err := os.ReadFile(result)
			require.NoError(t, err)
			require.NoError(t, m.Close())
			require.NoError(t, a.Close())
			require.ErrorIs(t, c.write(path, m, a), ggml.ErrClosed)
			old := []byte("what was there")
			for range c.times {
				if c.file == "" {
					require.NoError(t, os.WriteFile(result, old, 0o666))
				} else {
					require.NoError(t, os.RemoveAll(path))
				}
				m, a := open()
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					time.Sleep(time.Duration(rng.Float64() * float64(took)))
					m.Close()
					a.Close()
				}()
				err := c.write(path, m, a)
				<-closed
				got, readErr := os.ReadFile(result)
				switch {
				case err == nil:
					require.Equal(t, whole, got)
				case c.file == "":
					require.ErrorIs(t, err, ggml.ErrClosed)
					require.Equal(t, old, got)
				default:
					require.ErrorIs(t, err, ggml.ErrClosed)
					require.ErrorIs(t, readErr, os.ErrNotExist)
				}
			}
		})
	}
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

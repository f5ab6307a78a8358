package model_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// A closed model, made or loaded, is not written: the file of an older one stays.
func TestSaveClosed(t *testing.T) {
	made, err := model.New(llmtest.TinyConfig(true), nil, 1)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, made.Save(path, model.SaveOptions{}))
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	loaded, err := model.Load(path, model.LoadOptions{})
	require.NoError(t, err)
	for _, m := range []*model.Model{made, loaded} {
		require.NoError(t, m.Close())
		require.ErrorIs(t, m.Save(path, model.SaveOptions{}), ggml.ErrClosed)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, got)
		g, err := ggml.NewGGUF()
		require.NoError(t, err)
		defer g.Close()
		require.ErrorIs(t, m.WriteKeys(g), ggml.ErrClosed)
	}
}

// Nothing that is done to a copy of the hyper-parameters changes the model.
func TestConfigIsACopy(t *testing.T) {
	m, err := model.New(llmtest.TinyConfig(true), nil, 1)
	require.NoError(t, err)
	defer m.Close()
	before := m.Config()
	c := m.Config()
	c.Layers, c.RMSEps = 1<<31, 0
	require.Equal(t, before, m.Config())
}

// A load that does not come to its end leaves nothing open.
func TestLoadEndsEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.Q8_0).Save(path, model.SaveOptions{}))
	before := ggml.OpenObjects()
	for _, o := range []model.LoadOptions{{}, {NoMmap: true}, {Repack: true}} {
		o.Progress = func(int64, int64) { panic("enough") }
		require.PanicsWithValue(t, "enough", func() { _, _ = model.Load(path, o) })
		require.Equal(t, before, ggml.OpenObjects())
	}
	require.NoError(t, os.WriteFile(path, []byte("GGUF"), 0o666))
	_, err := model.Load(path, model.LoadOptions{})
	require.Error(t, err)
	require.Equal(t, before, ggml.OpenObjects())
}

// What the file says can be overridden while it is loaded, by what a model can have and fits
// the weights.
func TestOverride(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, llmtest.TinyModel(t, llmtest.TinyConfig(true), ggml.F32).Save(path, model.SaveOptions{}))
	m, err := model.Load(path, model.LoadOptions{Override: func(c *arch.Config) {
		c.Name, c.RMSEps, c.RoPE.FreqBase, c.RoPE.FreqScale = "another name", 0, 500, 0.5
	}})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, "another name", m.Config().Name)
	require.Equal(t, float32(500), m.Config().RoPE.FreqBase)
	for message, change := range map[string]func(c *arch.Config){
		"block_count is 0":                  func(c *arch.Config) { c.Layers = 0 },
		"blk.2.attn_norm.weight is missing": func(c *arch.Config) { c.Layers++ },
		"token_embd.weight is":              func(c *arch.Config) { c.Embd *= 2 },
		"architecture \"\"; supported":      func(c *arch.Config) { *c = arch.Config{} },
	} {
		_, err := model.Load(path, model.LoadOptions{Override: change})
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, message)
	}
}

// A model that nobody has made has no graph, whatever it is asked to train.
func TestNoLossGraphOfZeroValue(t *testing.T) {
	e, err := device.NewCPU(1)
	require.NoError(t, err)
	defer e.Close()
	_, err = new(model.Model).NewLossGraph(e, model.TrainGraphOptions{Length: 1, Batch: 1, Grads: map[*ggml.Tensor]*ggml.Tensor{}})
	require.ErrorIs(t, err, ggml.ErrZeroValue)
}

// Nor has one with an adapter that is closed, of whatever parts it is, or one that is closed itself.
func TestNoLossGraphOfClosed(t *testing.T) {
	for _, set := range []device.OpSet{device.Kernels, device.Stock} {
		e, err := device.New(device.Options{OpSet: set, Threads: 1})
		require.NoError(t, err)
		defer e.Close()
		for _, name := range llmtest.TestedArchitectures() {
			m, store := llmtest.ArchModel(t, name, ggml.Q8_0), ggml.NewContext()
			defer store.Close()
			a, err := lora.New(m, lora.Options{Rank: 2, Alpha: 1})
			require.NoError(t, err)
			adapters, grads := a.WithScale(1), map[*ggml.Tensor]*ggml.Tensor{}
			for _, pairs := range adapters {
				for _, x := range []*ggml.Tensor{pairs[0].A, pairs[0].B} {
					grads[x] = store.NewTensor(ggml.F32, x.Shape()...)
				}
			}
			for _, close := range []func() error{a.Close, m.Close} {
				require.NoError(t, close())
				for _, checkpoint := range []bool{false, true} {
					_, err := m.NewLossGraph(e, model.TrainGraphOptions{Adapters: adapters, Grads: grads, Length: 8, Batch: 2, Checkpoint: checkpoint})
					require.ErrorIs(t, err, ggml.ErrClosed, name)
				}
			}
		}
	}
}

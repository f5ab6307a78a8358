package model_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// A table of experts is refused if a token has an expert twice, or one that does not exist.
func TestExpertTables(t *testing.T) {
	const table, stacked = "blk.0.ffn_gate_tid2eid.weight", "blk.0.attn_output_a.weight"
	m := llmtest.ArchModel(t, "deepseek4", ggml.F32)
	w := m.Weight(table)
	good := need.Value(ggml.Read[int32](w))(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	for _, c := range []struct {
		experts []int32
		want    string
	}{
		{[]int32{0, 1, 6}, "names expert 6 for token 39, but there are 6"},
		{[]int32{-1, 1, 2}, "names expert -1 for token 39, but there are 6"},
		{[]int32{4, 1, 4}, "names expert 4 twice for token 39"},
	} {
		require.NoError(t, ggml.Write(w, append(good[:len(good)-3:len(good)-3], c.experts...)))
		require.NoError(t, m.Save(path, model.SaveOptions{}))
		_, err := model.Load(path, model.LoadOptions{})
		require.ErrorIs(t, err, arch.ErrUnsupported)
		require.ErrorContains(t, err, path+": unsupported model: "+table+" "+c.want)
	}
	require.NoError(t, ggml.Write(w, good))

	// A matrix that stands for several keeps its shape in files.
	require.Equal(t, []int64{64, 32, 2}, m.Weight(stacked).Shape())
	require.NoError(t, m.Save(path, model.SaveOptions{}))
	g := need.Value(ggml.OpenGGUF(path))(t)
	defer g.Close()
	info, ok := g.Tensor(stacked)
	require.True(t, ok)
	require.Equal(t, []int64{64, 64}, info.Shape)
	require.Equal(t, info.Shape, m.FileShape(m.Weight(stacked)))

	// Stock llama.cpp writes several matrices.
	other := need.Value(ggml.NewGGUF())(t)
	defer other.Close()
	require.NoError(t, other.CopyKeys(g))
	for info := range g.Tensors() {
		x := m.Weight(info.Name)
		info.Shape = x.Shape()
		require.NoError(t, other.AddTensorFrom(info, func(w io.Writer) error {
			raw := make([]byte, x.NumBytes())
			if _, err := x.ReadAt(raw, 0); err != nil {
				return err
			}
			_, err := w.Write(raw)
			return err
		}))
	}
	apart := filepath.Join(t.TempDir(), "apart.gguf")
	require.NoError(t, other.WriteFile(apart))
	loaded := need.Value(model.Load(apart, model.LoadOptions{}))(t)
	defer loaded.Close()
	require.Equal(t, []int64{64, 32, 2}, loaded.FileShape(loaded.Weight(stacked)))

	// A new model has tables of different experts.
	made := need.Value(model.New(m.Config(), nil, 1))(t)
	defer made.Close()
	require.NoError(t, made.Save(path, model.SaveOptions{}))
	require.NoError(t, need.Value(model.Load(path, model.LoadOptions{}))(t).Close())
}

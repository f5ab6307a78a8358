package ggml_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestGGUFEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, fullGGUF(t).WriteFile(path))
	require.NoError(t, ggml.EditGGUF(path, func(g *ggml.GGUF) error {
		return errors.Join(g.Set("text", "new"), g.Remove("yes"), g.SetTensorData("odd", ggml.F16, func(w io.Writer) error {
			_, err := w.Write([]byte{1, 2, 3, 4, 5, 6})
			return err
		}))
	}))
	g := openGGUF(t, path)
	text, _ := g.Value("text")
	require.Equal(t, "new", text)
	_, there := g.Value("yes")
	require.False(t, there)
	odd, _ := g.Tensor("odd")
	require.Equal(t, ggml.F16, odd.Type)
	require.Equal(t, []byte{1, 2, 3, 4, 5, 6}, tensorBytes(t, g, "odd"))
	infos, data := testutil.GGUFTensors()
	for i, info := range infos {
		if info.Name != "odd" {
			require.Equal(t, data[i], tensorBytes(t, g, info.Name))
		}
	}
	cause := errors.New("stop")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ErrorIs(t, ggml.EditGGUF(path, func(g *ggml.GGUF) error { return errors.Join(g.Set("text", "newer"), cause) }), cause)
	after := need.Value(os.ReadFile(path))(t)
	require.Equal(t, before, after)
	require.ErrorIs(t, ggml.EditGGUF(path+"x", nil), os.ErrNotExist)

	write := func(io.Writer) error { return nil }
	for want, err := range map[string]error{
		`has no tensor "none"`:                                   g.SetTensorData("none", ggml.F32, write),
		`tensor "odd" has rows of 3 elements; rows of q8_0`:      g.SetTensorData("odd", ggml.Q8_0, write),
		`tensor "odd" has the unknown type 5`:                    g.SetTensorData("odd", 5, write),
		`tensor "odd": the function that writes its data is nil`: g.SetTensorData("odd", ggml.F32, nil),
		`tensor "new": the function that writes its data is nil`: g.AddTensorFrom(ggml.GGUFTensor{Name: "new", Type: ggml.I8, Shape: []int64{1}}, nil),
		`m.gguf: has no tensor "x"`:                              g.CopyTensor(g, "x"),
		`m.gguf: has a tensor "odd" already`:                     g.CopyTensor(g, "odd"),
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, g.SetTensorData("odd", ggml.F32, write))
	_, err = g.TensorData("odd")
	require.ErrorContains(t, err, `tensor "odd" was added and is not in the file yet`)
	_, err = g.TensorData("none")
	require.ErrorContains(t, err, `has no tensor "none"`)

	// The header alone, and the types of keys.
	header := need.Value(g.Header())(t)
	require.EqualValues(t, len(header), openGGUF(t, path).DataOffset()) // an F32 row takes no more room here
	k, ok := g.KeyType("strings")
	require.True(t, ok)
	require.Equal(t, ggml.GGUFKey{Type: "arr", Elem: "str", Len: 4}, k)
	k, ok = g.KeyType("u16")
	require.True(t, ok)
	require.Equal(t, ggml.GGUFKey{Type: "u16", Len: 1}, k)
	_, ok = g.KeyType("missing")
	require.False(t, ok)
	g.Close()
	_, ok = g.KeyType("u16")
	require.False(t, ok)
	_, err = g.TensorData("odd")
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.ErrorIs(t, newGGUF(t).CopyTensor(g, "odd"), ggml.ErrClosed)
}

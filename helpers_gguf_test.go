package ggml_test

import (
	"bytes"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

// tensorBytes returns the data of a tensor in a file.
func tensorBytes(t require.TestingT, g *ggml.GGUF, name string) []byte {
	r := need.Value(g.TensorData(name))(t)
	return need.Value(io.ReadAll(r))(t)
}

// requireFull requires the contents of fullGGUF, in any number of files.
func requireFull(t *testing.T, g *ggml.GGUF) {
	t.Helper()
	require.Equal(t, someKeys, allKeys(g))
	infos, data := testutil.GGUFTensors()
	require.Equal(t, len(infos), g.NumTensors())
	i := 0
	for info := range g.Tensors() {
		require.Equal(t, infos[i].Name, info.Name)
		require.Equal(t, infos[i].Type, info.Type)
		require.Equal(t, data[i], tensorBytes(t, g, info.Name))
		i++
	}
}

type keyValue struct {
	key   string
	value any
}

// someKeys contains every type of value, as a scalar, a slice and an empty slice.
var someKeys = []keyValue{
	{"general.architecture", "llama"},
	{"u8", uint8(math.MaxUint8)}, {"i8", int8(math.MinInt8)},
	{"u16", uint16(math.MaxUint16)}, {"i16", int16(math.MinInt16)},
	{"u32", uint32(math.MaxUint32)}, {"i32", int32(math.MinInt32)},
	{"u64", uint64(math.MaxUint64)}, {"i64", int64(math.MinInt64)},
	{"f32", float32(math.Pi)}, {"f64", math.Pi},
	{"yes", true}, {"no", false}, {"empty string", ""}, {"text", "grüße\n"},
	{"u8s", []uint8{0, 255}}, {"i8s", []int8{-128, 127}},
	{"u16s", []uint16{1, 65535}}, {"i16s", []int16{-1}},
	{"u32s", []uint32{1, 2, 3}}, {"i32s", []int32{-1, 2}},
	{"u64s", []uint64{math.MaxUint64}}, {"i64s", []int64{math.MinInt64, 0}},
	{"f32s", []float32{1, -0.5, float32(math.Inf(1))}}, {"f64s", []float64{1e300}},
	{"bools", []bool{true, false, true}}, {"strings", []string{"a", "", "\xff\xfe", "ö"}},
	{"no numbers", []int32{}}, {"no strings", []string{}}, {"no bools", []bool{}},
}

func allKeys(g *ggml.GGUF) []keyValue {
	var list []keyValue
	for k, v := range g.Keys() {
		list = append(list, keyValue{k, v})
	}
	return list
}

func newGGUF(t testing.TB, pairs ...keyValue) *ggml.GGUF {
	g := need.Value(ggml.NewGGUF())(t)
	t.Cleanup(func() { g.Close() })
	for _, p := range pairs {
		require.NoError(t, g.Set(p.key, p.value))
	}
	return g
}

func openGGUF(t testing.TB, path string) *ggml.GGUF {
	g := need.Value(ggml.OpenGGUF(path))(t)
	t.Cleanup(func() { g.Close() })
	return g
}

func encodeGGUF(t require.TestingT, g *ggml.GGUF) []byte {
	var b bytes.Buffer
	n := need.Value(g.WriteTo(&b))(t)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// addData adds a tensor of zeros with the data given at its start.
func addData(t require.TestingT, g *ggml.GGUF, info ggml.GGUFTensor, data []byte) {
	require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}))
}

func fullGGUF(t testing.TB) *ggml.GGUF {
	g := newGGUF(t, someKeys...)
	infos, data := testutil.GGUFTensors()
	for i, info := range infos {
		addData(t, g, info, data[i])
	}
	return g
}

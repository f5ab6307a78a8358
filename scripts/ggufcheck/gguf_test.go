package ggufcheck

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	parser "github.com/gpustack/gguf-parser-go"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

type keyValue struct {
	key   string
	value any
}

// keys have every type of value, as a scalar, a slice and an empty slice. The reader does not support empty
// strings, and trims spaces.
var keys = []keyValue{
	{"general.architecture", "llama"},
	{"u8", uint8(math.MaxUint8)}, {"i8", int8(math.MinInt8)},
	{"u16", uint16(math.MaxUint16)}, {"i16", int16(math.MinInt16)},
	{"u32", uint32(math.MaxUint32)}, {"i32", int32(math.MinInt32)},
	{"u64", uint64(math.MaxUint64)}, {"i64", int64(math.MinInt64)},
	{"f32", float32(math.Pi)}, {"f64", math.Pi},
	{"yes", true}, {"no", false}, {"text", "grüße"},
	{"u8s", []uint8{0, 255}}, {"i8s", []int8{-128, 127}},
	{"u16s", []uint16{1, 65535}}, {"i16s", []int16{-1}},
	{"u32s", []uint32{1, 2, 3}}, {"i32s", []int32{-1, 2}},
	{"u64s", []uint64{math.MaxUint64}}, {"i64s", []int64{math.MinInt64, 0}},
	{"f32s", []float32{1, -0.5, float32(math.Inf(1))}}, {"f64s", []float64{1e300}},
	{"bools", []bool{true, false, true}}, {"strings", []string{"a", "\xff\xfe", "ö"}},
	{"no numbers", []int32{}}, {"no bools", []bool{}},
}

// newGGUF returns a file with all keys and tensors.
func newGGUF(t *testing.T) *ggml.GGUF {
	g := need.Value(ggml.NewGGUF())(t)
	t.Cleanup(func() { g.Close() })
	for _, p := range keys {
		require.NoError(t, g.Set(p.key, p.value))
	}
	infos, data := testutil.GGUFTensors()
	for i, info := range infos {
		require.NoError(t, g.AddTensorFrom(info, func(w io.Writer) error {
			_, err := w.Write(data[i])
			return err
		}))
	}
	return g
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.gguf")
	g := newGGUF(t)
	require.NoError(t, g.WriteFile(path))
	f := need.Value(parser.ParseGGUFFile(path))(t)
	require.EqualValues(t, 3, f.Header.Version)
	require.Len(t, f.Header.MetadataKV, len(keys))
	for i, kv := range f.Header.MetadataKV {
		require.Equal(t, keys[i].key, kv.Key)
		array, ok := kv.Value.(parser.GGUFMetadataKVArrayValue)
		if !ok {
			require.Equal(t, keys[i].value, kv.Value)
			continue
		}
		want := reflect.ValueOf(keys[i].value)
		require.Equal(t, want.Len(), len(array.Array), kv.Key)
		require.EqualValues(t, want.Len(), array.Len)
		for j, v := range array.Array {
			require.Equal(t, want.Index(j).Interface(), v, kv.Key)
		}
	}
	require.Equal(t, g.DataOffset(), f.TensorDataStartOffset)
	raw := need.Value(os.ReadFile(path))(t)
	_, data := testutil.GGUFTensors()
	i := 0
	for want := range g.Tensors() {
		got := f.TensorInfos[i]
		require.Equal(t, want.Name, got.Name)
		require.EqualValues(t, want.Type, got.Type)
		require.EqualValues(t, want.Offset, got.Offset)
		require.EqualValues(t, want.Size, got.Bytes())
		require.EqualValues(t, want.NumElements(), got.Elements())
		start := f.TensorDataStartOffset + int64(got.Offset)
		require.Equal(t, data[i], raw[start:start+want.Size])
		i++
	}
	require.Len(t, f.TensorInfos, i)
	require.Len(t, data, i)
}

// The reader finds the parts of a split model, and the tensors in them.
func TestSplit(t *testing.T) {
	g := newGGUF(t)
	require.NoError(t, g.Remove("strings")) // the reader does not support it here
	paths := need.Value(g.WriteParts(filepath.Join(t.TempDir(), "m"), ggml.PartOptions{MaxTensors: 2}))(t)
	require.Len(t, paths, 3)
	require.Equal(t, paths, parser.CompleteShardGGUFFilename(paths[0]))
	f := need.Value(parser.ParseGGUFFile(paths[0]))(t)
	infos, _ := testutil.GGUFTensors()
	require.Len(t, f.TensorInfos, len(infos))
	for i, info := range f.TensorInfos {
		require.Equal(t, infos[i].Name, info.Name)
	}
}

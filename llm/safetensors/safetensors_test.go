package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/safetensors"
)

// file puts a header before data.
func file(header string, data ...byte) []byte {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(raw, header...), data...)
}

func open(raw []byte) (*safetensors.File, error) {
	return safetensors.NewFile("x", bytes.NewReader(raw), int64(len(raw)))
}

// A file whose bytes are put together by hand.
func TestReadByHand(t *testing.T) {
	f := need.Value(open(file(`{"b":{"dtype":"F16","shape":[2,1],"data_offsets":[8,12]}, "__metadata__":{"format":"pt"},
		"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8],"further":[1]},"i":{"dtype":"I64","shape":[],"data_offsets":[18,26]},
		"c":{"dtype":"BF16","shape":[3],"data_offsets":[12,18]},"empty":{"dtype":"F32","shape":[0,4],"data_offsets":[26,26]}}   `,
		0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, // 1, -2
		0, 0x38, 0, 0xc4, // 0.5, -4
		0x80, 0x3f, 0x40, 0xc0, 0, 0, // 1, -3, 0
		7, 0, 0, 0, 0, 0, 0, 0)))(t)
	require.Equal(t, map[string]string{"format": "pt"}, f.Metadata)
	var names []string
	for _, tensor := range f.Tensors() {
		names = append(names, tensor.Name)
		values, err := f.Float32s(tensor)
		switch tensor.Name {
		case "a":
			require.Equal(t, []int64{1, 2}, tensor.Shape)
			require.Equal(t, []float32{1, -2}, values)
		case "b":
			require.Equal(t, []float32{0.5, -4}, values)
		case "c":
			require.Equal(t, []float32{1, -3, 0}, values)
		case "empty":
			require.Empty(t, values)
		case "i":
			require.EqualError(t, err, "x: tensor i has type I64; F32, F16 and BF16 can be read")
			continue
		}
		require.NoError(t, err)
	}
	require.Equal(t, []string{"a", "b", "c", "i", "empty"}, names, "in the order of their data")
	require.NoError(t, f.Close())
}

func TestWriteByHand(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, safetensors.Encode(&b, []safetensors.Data{
		{Name: "z", Type: safetensors.BF16, Shape: []int64{2, 1}, Values: []float32{1, -3}},
		{Name: "a", Type: safetensors.F32, Values: []float32{1}},
	}, map[string]string{"format": "pt"}))
	header := `{"__metadata__":{"format":"pt"},"z":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	require.Equal(t, file(header, 0x80, 0x3f, 0x40, 0xc0, 0, 0, 0x80, 0x3f), b.Bytes())
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), 0, 6, rapid.ID).Draw(t, "names")
		var tensors []safetensors.Data
		for _, name := range names {
			d := safetensors.Data{Name: name, Shape: rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(t, "shape")}
			d.Type = rapid.SampledFrom([]safetensors.Type{safetensors.F32, safetensors.F16, safetensors.BF16}).Draw(t, "type")
			n := 1
			for _, side := range d.Shape {
				n *= int(side)
			}
			whole := rapid.Custom(func(t *rapid.T) float32 { return float32(rapid.IntRange(-256, 256).Draw(t, "value")) }) // exact in all types
			d.Values = rapid.SliceOfN(whole, n, n).Draw(t, "values")
			tensors = append(tensors, d)
		}
		metadata := rapid.MapOfN(rapid.String(), rapid.String(), 1, 3).Draw(t, "metadata")
		require.NoError(t, safetensors.WriteFile(path, tensors, metadata))
		f := need.Value(safetensors.Open(path))(t)
		defer f.Close()
		require.Equal(t, metadata, f.Metadata)
		read := map[string]safetensors.Tensor{}
		for _, tensor := range f.Tensors() {
			read[tensor.Name] = tensor
		}
		require.Len(t, read, len(tensors))
		for _, d := range tensors {
			got := read[d.Name]
			require.Equal(t, d.Type, got.Type)
			require.Equal(t, d.Shape, got.Shape)
			values := need.Value(f.Float32s(got))(t)
			require.Equal(t, d.Values, values)
		}
	})
	files := need.Value(os.ReadDir(filepath.Dir(path)))(t)
	require.Len(t, files, 1, "no temporary file stays")
}

func TestHostile(t *testing.T) {
	info := func(name, typ, shape string, begin, end int) string {
		return fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, name, typ, shape, begin, end)
	}
	of := func(data int, entries ...string) []byte {
		return file("{"+strings.Join(entries, ",")+"}", make([]byte, data)...)
	}
	for _, test := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"empty", nil, "it has 0 bytes"},
		{"seven bytes", make([]byte, 7), "it has 7 bytes"},
		{"no header", make([]byte, 8), "its header is not a JSON object"},
		{"header beyond the file", file("{}")[:9], "is cut short: its header has 2 bytes, but the file has 9"},
		{"header too long", binary.LittleEndian.AppendUint64(nil, 100_000_001), "its header would have 100000001 bytes; the limit is 100000000"},
		{"header of 2⁶⁴−1 bytes", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "its header would have 18446744073709551615 bytes"},
		{"GGUF", append([]byte("GGUF\x03\x00\x00\x00"), make([]byte, 100)...), "its header would have"},
		{"a list", file("[]"), "its header is not a JSON object"},
		{"space before", file(" {}"), "its header is not a JSON object"},
		{"ends early", file("{"), "the header is not valid JSON: it ends early"},
		{"not JSON", file("{x}"), "the header is not valid JSON: invalid character"},
		{"two objects", file("{}{}"), "more than one JSON object"},
		{"zeros after it", file("{}\x00\x00"), "more than one JSON object"},
		{"name twice", of(8, info("a", "F32", "1", 0, 4), info("a", "F32", "1", 4, 8)), `has "a" twice`},
		{"metadata twice", of(0, `"__metadata__":{}`, `"__metadata__":{}`), `has "__metadata__" twice`},
		{"metadata no texts", of(0, `"__metadata__":{"a":1}`), "__metadata__: it is a number, but must be a string"},
		{"no object", of(0, `"a":1`), `tensor "a": it is a number, but must be an object`},
		{"null", of(0, `"a":null`), `tensor "a": it must have dtype, shape and two data_offsets`},
		{"no type", of(0, `"a":{"shape":[],"data_offsets":[0,0]}`), "it must have dtype"},
		{"no shape", of(0, `"a":{"dtype":"F32","data_offsets":[0,0]}`), "it must have dtype"},
		{"one offset", of(0, `"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}`), "two data_offsets"},
		{"three offsets", of(0, `"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0,0]}`), "two data_offsets"},
		{"unknown type", of(4, info("a", "F33", "1", 0, 4)), `there is no type "F33"`},
		{"negative side", of(4, info("a", "F32", "-1,-1", 0, 4)), "its shape [-1 -1] of F32 is impossible"},
		{"a side with a fraction", of(4, info("a", "F32", "1.5", 0, 4)), "shape: it is 1.5, but must be a whole number that fits into 64 bits"},
		{"a side of 2⁶⁴", of(4, info("a", "F32", "18446744073709551616", 0, 4)), "shape: it is 18446744073709551616, but must be a whole number that fits into 64 bits"},
		{"product overflows", of(4, info("a", "F32", "4294967296,4294967296", 0, 4)), "is impossible"},
		{"product overflows to the size", of(4, info("a", "U8", "4611686018427387905,4", 0, 4)), "is impossible"},
		{"half a byte", of(1, info("a", "F4", "1", 0, 1)), "is impossible"},
		{"size", of(8, info("a", "F32", "3", 0, 8)), "its shape [3] of F32 has 12 bytes, its offsets are 0 and 8"},
		{"offsets turned", of(8, info("a", "F32", "1", 4, 0)), "its offsets are 4 and 0"},
		{"negative offset", of(8, info("a", "F32", "1", -4, 0)), "its offsets are -4 and 0"},
		{"offsets overflow", of(8, `"a":{"dtype":"U8","shape":[1],"data_offsets":[-9223372036854775808,9223372036854775807]}`), "its offsets are"},
		{"overlap", of(12, info("a", "F32", "2", 0, 8), info("b", "F32", "2", 4, 12)), `tensor "b": its data begins at 4, but overlaps a tensor that ends at 8`},
		{"same data", of(8, info("a", "F32", "2", 0, 8), info("b", "F32", "2", 0, 8)), `tensor "b": its data begins at 0, but`},
		{"gap", of(12, info("a", "F32", "1", 0, 4), info("b", "F32", "1", 8, 12)), `tensor "b": its data begins at 8, but the tensor before it ends at 4`},
		{"not from the start", of(8, info("a", "F32", "1", 4, 8)), "its data begins at 4, but the tensor before it ends at 0"},
		{"cut short", of(7, info("a", "F32", "2", 0, 8)), `is cut short: the data of tensor "a" ends at 8, and 7 bytes are there`},
		{"more data", of(9, info("a", "F32", "2", 0, 8)), "1 byte is left after the data of the last tensor"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(test.raw)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "x: ")
		})
	}
}

func TestOpenFaults(t *testing.T) {
	folder := t.TempDir()
	_, err := safetensors.Open(filepath.Join(folder, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = safetensors.Open(folder)
	require.EqualError(t, err, "open "+folder+": it is a folder; name the file in it")
	// The file is cut after it was opened.
	path := filepath.Join(folder, "x")
	require.NoError(t, safetensors.WriteFile(path, []safetensors.Data{{Name: "a", Type: safetensors.F32, Shape: []int64{9}, Values: make([]float32, 9)}}, nil))
	f := need.Value(safetensors.Open(path))(t)
	defer f.Close()
	require.NoError(t, os.Truncate(path, 80))
	_, err = f.Float32s(f.Tensors()[0])
	require.ErrorContains(t, err, path+": tensor a: ")
}

func TestWriteFaults(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	one := func(typ safetensors.Type, v ...float32) safetensors.Data {
		return safetensors.Data{Name: "a", Type: typ, Shape: []int64{1, int64(len(v))}, Values: v}
	}
	for want, tensors := range map[string][]safetensors.Data{
		`tensor "a": another tensor has this name`:                                                                  {one(safetensors.F32, 1), one(safetensors.F32, 1)},
		`tensor "__metadata__": another tensor has this name`:                                                       {{Name: "__metadata__", Type: safetensors.F32, Values: []float32{1}}},
		`tensor "a": type "I8" cannot be written`:                                                                   {one("I8", 1)},
		`tensor "a": 1 values for the shape [2]`:                                                                    {{Name: "a", Type: safetensors.F32, Shape: []int64{2}, Values: []float32{1}}},
		`tensor "a": ggml: quantize to f16: value 1 of row 0 is 70000, which is too large for f16; use f32 or bf16`: {one(safetensors.F16, 1, 70000)},
		`tensor "a": ` + "ggml: quantize to f32: value 1 of row 0 is":                                               {one(safetensors.F32, 1, float32(math.NaN()))},
	} {
		err := safetensors.WriteFile(path, tensors, nil)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
		raw := need.Value(os.ReadFile(path))(t)
		require.Equal(t, "old", string(raw))
	}
	files := need.Value(os.ReadDir(folder))(t)
	require.Len(t, files, 1, "no temporary file stays")
	require.ErrorIs(t, safetensors.WriteFile(filepath.Join(folder, "none", "x"), nil, nil), os.ErrNotExist)
}

// Whatever is read: an error, or tensors that can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}}`, make([]byte, 12)...))
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,0,4294967296],"data_offsets":[0,0]}}`))
	f.Add(file(`{"a":{"dtype":"U8","shape":[4611686018427387905,4],"data_offsets":[0,4]}}`, 0, 0, 0, 0))
	f.Add(binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, raw []byte) {
		read, err := open(raw)
		if err != nil {
			return
		}
		var tensors []safetensors.Data
		for _, info := range read.Tensors() {
			values, err := read.Float32s(info)
			if err != nil {
				continue // of another type
			}
			if int64(len(values)) != info.NumElements() {
				t.Fatalf("%d values for %v", len(values), info.Shape)
			}
			for i, v := range values {
				if v-v != 0 {
					values[i] = 0
				}
			}
			tensors = append(tensors, safetensors.Data{Name: info.Name, Type: info.Type, Shape: info.Shape, Values: values})
		}
		var b bytes.Buffer
		if err := safetensors.Encode(&b, tensors, read.Metadata); err != nil {
			t.Fatal(err)
		}
		again, err := open(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(again.Tensors()); got != len(tensors) {
			t.Fatalf("%d tensors of %d", got, len(tensors))
		}
	})
}

func Example() {
	folder, err := os.MkdirTemp("", "safetensors")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.safetensors")
	weight := safetensors.Data{Name: "weight", Type: safetensors.BF16, Shape: []int64{2, 3}, Values: []float32{1, 2, 3, 4, 5, 6}}
	if err := safetensors.WriteFile(path, []safetensors.Data{weight}, map[string]string{"format": "pt"}); err != nil {
		panic(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for _, t := range f.Tensors() {
		values, err := f.Float32s(t)
		if err != nil {
			panic(err)
		}
		fmt.Println(t.Name, t.Type, t.Shape, values)
	}
	// Output: weight BF16 [2 3] [1 2 3 4 5 6]
}

package ggml_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestGGUFKeysRoundTrip(t *testing.T) {
	g := newGGUF(t, someKeys...)
	require.Equal(t, someKeys, allKeys(g))
	path := filepath.Join(t.TempDir(), "keys.gguf")
	require.NoError(t, g.WriteFile(path))
	read := openGGUF(t, path)
	require.Equal(t, someKeys, allKeys(read))
	require.Equal(t, len(someKeys), read.NumKeys())
	require.Equal(t, 3, read.Version())
	require.Zero(t, read.NumTensors())
	for _, p := range someKeys {
		v, ok := read.Value(p.key)
		require.True(t, ok)
		require.Equal(t, p.value, v)
	}
	_, ok := read.Value("missing")
	require.False(t, ok)

	require.NoError(t, read.Set("u8", []string{"now", "strings"}))
	require.NoError(t, read.Remove("i8"))
	require.NoError(t, read.Remove("i8"))
	changed := allKeys(read)
	require.Len(t, changed, len(someKeys)-1)
	require.Equal(t, keyValue{"u8", []string{"now", "strings"}}, changed[len(changed)-1])

	other := newGGUF(t, keyValue{"mine", int8(1)}, keyValue{"text", int8(2)})
	require.NoError(t, other.CopyKeys(g))
	require.Equal(t, append([]keyValue{{"mine", int8(1)}}, someKeys...), allKeys(other))
	require.NoError(t, other.CopyKeys(other))
	require.Equal(t, len(someKeys)+1, other.NumKeys())
}

func TestGGUFValueConverts(t *testing.T) {
	type tokenID int32
	g := newGGUF(t, keyValue{"u32", uint32(7)}, keyValue{"big", uint64(1 << 40)}, keyValue{"minus", int64(-1)}, keyValue{"f32", float32(0.5)},
		keyValue{"f64", 1e300}, keyValue{"ids", []uint32{1, 2}}, keyValue{"huge", uint64(math.MaxUint64)}, keyValue{"s", "text"}, keyValue{"ss", []string{"a"}})
	i := need.Value(ggml.GGUFValue[int](g, "u32"))(t)
	require.Equal(t, 7, i)
	u := need.Value(ggml.GGUFValue[uint64](g, "u32"))(t)
	require.EqualValues(t, 7, u)
	id := need.Value(ggml.GGUFValue[tokenID](g, "u32"))(t)
	require.EqualValues(t, 7, id)
	ids := need.Value(ggml.GGUFValue[[]tokenID](g, "ids"))(t)
	require.Equal(t, []tokenID{1, 2}, ids)
	f := need.Value(ggml.GGUFValue[float64](g, "f32"))(t)
	require.Equal(t, 0.5, f)
	v := need.Value(ggml.GGUFValue[any](g, "ss"))(t)
	require.Equal(t, []string{"a"}, v)
	b := need.Value(ggml.GGUFValue[[]byte](g, "ids"))(t)
	require.Equal(t, []byte{1, 2}, b)

	_, err := ggml.GGUFValue[uint32](g, "big")
	require.EqualError(t, err, `ggml: new GGUF: key "big": the value 1099511627776 of type uint64 does not fit; it is read as uint32`)
	_, err = ggml.GGUFValue[uint64](g, "minus")
	require.ErrorContains(t, err, "does not fit")
	_, err = ggml.GGUFValue[int64](g, "huge")
	require.ErrorContains(t, err, "does not fit")
	_, err = ggml.GGUFValue[float32](g, "f64")
	require.ErrorContains(t, err, "does not fit")
	_, err = ggml.GGUFValue[[]int8](g, "s")
	require.EqualError(t, err, `ggml: new GGUF: key "s": the file has a value of type string; it is read as []int8`)
	_, err = ggml.GGUFValue[string](g, "u32")
	require.ErrorContains(t, err, `key "u32": the file has a value of type uint32; it is read as string`)
	_, err = ggml.GGUFValue[[]string](g, "ids")
	require.ErrorContains(t, err, "element 0: the file has a value of type uint32; it is read as []string")
	_, err = ggml.GGUFValue[string](g, "none")
	require.ErrorIs(t, err, ggml.ErrKeyNotFound)
	require.EqualError(t, err, `ggml: new GGUF: key "none": key not found`)
}

func TestGGUFSetErrors(t *testing.T) {
	g := newGGUF(t, keyValue{"keep", "me"})
	for want, err := range map[string]error{
		`key "n": a file cannot hold a int; use a number type with a fixed size`: g.Set("n", 1),
		`key "n": a file cannot hold a [][]int32`:                                g.Set("n", [][]int32{{1}}),
		`key "n": a file cannot hold a struct {}`:                                g.Set("n", struct{}{}),
		`key "n": a file cannot hold a []interface {}`:                           g.Set("n", []any{1}),
		`key "n": the value is nil`:                                              g.Set("n", nil),
		`key "": a key is not empty`:                                             g.Set("", "x"),
		`key "a\x00b": a key is not empty and holds no NUL`:                      g.Set("a\x00b", "x"),
		`key "keep": a string holds a NUL byte`:                                  g.Set("keep", "a\x00b"),
		`key "n": string 1 holds a NUL byte`:                                     g.Set("n", []string{"", "\x00"}),
		`key "general.alignment": it is 33`:                                      g.Set("general.alignment", uint32(33)),
		`key "general.alignment": it is 64; it must be an uint32`:                g.Set("general.alignment", uint64(64)),
	} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, []keyValue{{"keep", "me"}}, allKeys(g))
}

func TestGGUFAlignment(t *testing.T) {
	g := newGGUF(t)
	require.EqualValues(t, 32, g.Alignment())
	require.NoError(t, g.Set("general.alignment", uint32(256)))
	require.NoError(t, g.Set("a", "b"))
	require.EqualValues(t, 256, g.Alignment())
	addData(t, g, ggml.GGUFTensor{Name: "x", Type: ggml.F32, Shape: []int64{1}}, []byte{1, 2, 3, 4})
	addData(t, g, ggml.GGUFTensor{Name: "y", Type: ggml.F32, Shape: []int64{1}}, []byte{5, 6, 7, 8})
	require.ErrorContains(t, g.Set("general.alignment", uint32(64)), "cannot change to 64 once there are tensors")
	require.ErrorContains(t, g.Remove("general.alignment"), "cannot change to 32")
	data := encodeGGUF(t, g)
	read := need.Value(ggml.ReadGGUF(bytes.NewReader(data), int64(len(data))))(t)
	defer read.Close()
	y, ok := read.Tensor("y")
	require.True(t, ok)
	require.EqualValues(t, 256, y.Offset)
	require.EqualValues(t, 256, read.DataOffset())
	require.Equal(t, read.DataOffset(), g.DataOffset())
	require.Equal(t, []byte{5, 6, 7, 8}, data[512:516])

	plain := newGGUF(t)
	require.NoError(t, plain.CopyKeys(g))
	require.EqualValues(t, 256, plain.Alignment())
	require.NoError(t, plain.Remove("general.alignment"))
	require.EqualValues(t, 32, plain.Alignment())
}

func TestGGUFLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tensors.gguf")
	require.NoError(t, fullGGUF(t).WriteFile(path))
	infos, data := testutil.GGUFTensors()
	bt := optest.CPU(t).BufferType()
	for name, o := range map[string]ggml.LoadOptions{"mapped": {}, "read": {NoMmap: true}, "buffer type": {BufferType: bt}} {
		t.Run(name, func(t *testing.T) {
			g := need.Value(ggml.OpenGGUF(path))(t)
			c := ggml.NewContext()
			defer c.Close()
			var done, total int64
			o.Progress = func(d, n int64) { done, total = d, n }
			buffers := need.Value(g.Load(c, optest.CPU(t), o))(t)
			require.NoError(t, g.Close()) // the tensors stay
			require.Equal(t, total, done)
			for i, info := range infos {
				tensor, ok := c.Tensor(info.Name)
				require.True(t, ok, info.Name)
				require.Equal(t, info.Type, tensor.Type())
				got := make([]byte, tensor.NumBytes())
				require.NoError(t, optest.Err(tensor.ReadAt(got, 0)))
				require.Equal(t, data[i], got, info.Name)
			}
			odd := optest.Found(c.Tensor("odd"))
			require.NoError(t, ggml.Write(odd, []float32{1, 2, 3})) // no crash, and the file does not change
			require.NoError(t, buffers.Close())
			require.False(t, odd.IsAllocated())
		})
	}
	g := openGGUF(t, path)
	c := ggml.NewContext()
	defer c.Close()
	buffers := need.Value(g.Load(c, optest.CPU(t), ggml.LoadOptions{Filter: func(info ggml.GGUFTensor) bool { return info.Name == "odd" }}))(t)
	defer buffers.Close()
	odd := make([]byte, 12)
	require.NoError(t, optest.Err(optest.Found(c.Tensor("odd")).ReadAt(odd, 0)))
	require.Equal(t, data[1], odd)
	require.False(t, optest.Finds(c.Tensor("half")))
	none := need.Value(g.Load(c, optest.CPU(t), ggml.LoadOptions{Filter: func(ggml.GGUFTensor) bool { return false }}))(t)
	require.NoError(t, none.Close())
	reshaped := func(shape ...int64) ggml.LoadOptions {
		return ggml.LoadOptions{Filter: func(info ggml.GGUFTensor) bool { return info.Name == "odd" }, Shape: func(ggml.GGUFTensor) []int64 { return shape }}
	}
	other := ggml.NewContext()
	defer other.Close()
	as := need.Value(g.Load(other, optest.CPU(t), reshaped(3, 1, 1, 1)))(t)
	defer as.Close()
	require.Equal(t, []int64{3}, optest.Found(other.Tensor("odd")).Shape())
	for _, shape := range [][]int64{nil, {1, 3}, {3, 2}} {
		_, err := g.Load(other, optest.CPU(t), reshaped(shape...))
		require.ErrorContains(t, err, fmt.Sprintf(`tensor "odd" is [3], which cannot be reshaped to %v: rows must be as many and as long`, shape))
	}
	_, err := g.Load(c, nil, ggml.LoadOptions{})
	require.ErrorContains(t, err, "there is no device")
	addData(t, g, ggml.GGUFTensor{Name: "new", Type: ggml.F32, Shape: []int64{1}}, nil)
	_, err = g.Load(c, optest.CPU(t), ggml.LoadOptions{})
	require.ErrorContains(t, err, `tensor "new" was added and is not in the file yet`)
}

func TestGGUFAddTensor(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.F32, 300, 1000).SetName("a") // more than one chunk
	b := c.NewTensor(ggml.Q4_0, 32, 2).SetName("b")
	g := newGGUF(t, keyValue{"k", "v"})
	require.ErrorIs(t, g.AddTensor(a), ggml.ErrNotAllocated)
	buffers := need.Value(c.Allocate(optest.CPU(t).BufferType()))(t)
	values := optest.Normal(5, 300*1000)
	require.NoError(t, ggml.Write(a, values))
	require.NoError(t, b.SetFloat32s(values[:64]))
	require.NoError(t, g.AddTensor(a))
	require.NoError(t, g.AddTensor(b))
	require.ErrorContains(t, g.AddTensor(b), `has a tensor "b" already`)
	require.ErrorContains(t, g.AddTensor(nil), "the tensor is nil")

	path := filepath.Join(t.TempDir(), "a.gguf")
	require.NoError(t, g.WriteFile(path))
	first := need.Value(os.ReadFile(path))(t)
	require.Equal(t, first, encodeGGUF(t, g))

	loaded := ggml.NewContext()
	defer loaded.Close()
	weights := need.Value(openGGUF(t, path).Load(loaded, optest.CPU(t), ggml.LoadOptions{}))(t)
	defer weights.Close()
	got := need.Value(ggml.Read[float32](optest.Found(loaded.Tensor("a"))))(t)
	require.Equal(t, values, got)
	want := need.Value(b.Float32s())(t)
	got = need.Value(optest.Found(loaded.Tensor("b")).Float32s())(t)
	require.Equal(t, want, got)

	require.NoError(t, buffers.Close())
	_, err := g.WriteTo(io.Discard)
	require.ErrorIs(t, err, ggml.ErrNotAllocated)
	require.ErrorContains(t, err, `tensor "a" of 1200000 bytes`)
}

func TestGGUFAddTensorFromErrors(t *testing.T) {
	g := newGGUF(t)
	for want, info := range map[string]ggml.GGUFTensor{
		`tensor "": a name has 1 to 63 bytes`:                                     {Type: ggml.F32, Shape: []int64{1}},
		`xxx": a name has 1 to 63 bytes`:                                          {Name: strings.Repeat("x", 64), Type: ggml.F32, Shape: []int64{1}},
		`a name has 1 to 63 bytes, without a NUL`:                                 {Name: "a\x00", Type: ggml.F32, Shape: []int64{1}},
		`tensor "t" has the unknown type 4`:                                       {Name: "t", Type: 4, Shape: []int64{1}},
		`tensor "t" has the unknown type -1`:                                      {Name: "t", Type: -1, Shape: []int64{1}},
		`tensor "t" has 0 dimensions instead of 1 to 4`:                           {Name: "t", Type: ggml.F32},
		`tensor "t" has 5 dimensions instead of 1 to 4`:                           {Name: "t", Type: ggml.F32, Shape: []int64{1, 1, 1, 1, 1}},
		`tensor "t" has the impossible size 0 in dimension 1`:                     {Name: "t", Type: ggml.F32, Shape: []int64{1, 0}},
		`tensor "t" has the impossible size 4611686018427387904`:                  {Name: "t", Type: ggml.F32, Shape: []int64{1 << 62}},
		`tensor "t" has rows of 33 elements; rows of q4_0 must be multiples of 3`: {Name: "t", Type: ggml.Q4_0, Shape: []int64{33}},
	} {
		require.ErrorContains(t, g.AddTensorFrom(info, nil), want)
	}
	require.Zero(t, g.NumTensors())
	short := newGGUF(t)
	addData(t, short, ggml.GGUFTensor{Name: "t", Type: ggml.F32, Shape: []int64{2}}, make([]byte, 7))
	_, err := short.WriteTo(io.Discard)
	require.EqualError(t, err, `tensor "t" of 8 bytes: 1 bytes of data are missing`)
	long := newGGUF(t)
	addData(t, long, ggml.GGUFTensor{Name: "t", Type: ggml.F32, Shape: []int64{2}}, make([]byte, 9))
	_, err = long.WriteTo(io.Discard)
	require.ErrorContains(t, err, `tensor "t" of 8 bytes: more data`)
}

func TestGGUFWriteFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "model.gguf")
	g := fullGGUF(t)
	require.NoError(t, g.WriteFile(path))
	require.NoError(t, os.Chmod(path, 0o640))
	before := need.Value(os.ReadFile(path))(t)

	// A file may be changed and replaced by itself.
	edited := openGGUF(t, path)
	require.NoError(t, edited.Set("text", "changed"))
	addData(t, edited, ggml.GGUFTensor{Name: "added", Type: ggml.I8, Shape: []int64{3}}, []byte{1, 2, 3})
	require.NoError(t, edited.WriteFile(path))
	again := openGGUF(t, path)
	text := need.Value(ggml.GGUFValue[string](again, "text"))(t)
	require.Equal(t, "changed", text)
	require.Equal(t, g.NumTensors()+1, again.NumTensors())
	c := ggml.NewContext()
	defer c.Close()
	buffers := need.Value(again.Load(c, optest.CPU(t), ggml.LoadOptions{}))(t)
	defer buffers.Close()
	infos, data := testutil.GGUFTensors()
	for i, info := range infos {
		got := make([]byte, info.Size)
		require.NoError(t, optest.Err(optest.Found(c.Tensor(info.Name)).ReadAt(got, 0)))
		require.Equal(t, data[i], got)
	}
	info := need.Value(os.Stat(path))(t)
	require.Equal(t, fs.FileMode(0o640), info.Mode())

	// Writing through a link replaces its target, not the link.
	link := filepath.Join(folder, "link.gguf")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, g.WriteFile(link))
	after := need.Value(os.ReadFile(path))(t)
	require.Equal(t, before, after)
	fresh, toFresh := filepath.Join(folder, "fresh.gguf"), filepath.Join(folder, "to-fresh.gguf")
	require.NoError(t, os.Symlink("fresh.gguf", toFresh))
	require.NoError(t, g.WriteFile(toFresh))
	after = need.Value(os.ReadFile(fresh))(t)
	require.Equal(t, before, after)
	require.NoError(t, errors.Join(os.Remove(fresh), os.Remove(toFresh)))

	// A failure leaves the existing file, and nothing else.
	broken := newGGUF(t)
	cause := errors.New("no more data")
	require.NoError(t, broken.AddTensorFrom(ggml.GGUFTensor{Name: "t", Type: ggml.F32, Shape: []int64{1 << 20}}, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 3<<20))
		return errors.Join(err, cause)
	}))
	err := broken.WriteFile(path)
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, path+`: cannot be written: tensor "t" of 4194304 bytes: no more data`)
	after = need.Value(os.ReadFile(path))(t)
	require.Equal(t, before, after)
	entries := need.Value(os.ReadDir(folder))(t)
	require.Len(t, entries, 2)

	missing := filepath.Join(folder, "no", "model.gguf")
	require.EqualError(t, g.WriteFile(missing), "ggml: "+missing+": cannot be written: no such file or directory")
}

func TestGGUFDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	require.EqualError(t, fullGGUF(t).WriteFile("/dev/full"), "ggml: /dev/full: cannot be written: no space left on device")
	info := need.Value(os.Stat("/dev/full"))(t)
	require.False(t, info.Mode().IsRegular())
}

func TestGGUFClosed(t *testing.T) {
	g := fullGGUF(t)
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.NoError(t, (*ggml.GGUF)(nil).Close())
	_, found := g.Value("u8")
	require.False(t, found)
	_, err := ggml.GGUFValue[int](g, "u8")
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.ErrorIs(t, g.Set("a", "b"), ggml.ErrClosed)
	require.ErrorIs(t, g.Remove("a"), ggml.ErrClosed)
	require.ErrorIs(t, g.CopyKeys(newGGUF(t)), ggml.ErrClosed)
	require.ErrorIs(t, newGGUF(t).CopyKeys(g), ggml.ErrClosed)
	require.ErrorIs(t, g.AddTensorFrom(ggml.GGUFTensor{Name: "t", Type: ggml.F32, Shape: []int64{1}}, func(io.Writer) error { return nil }), ggml.ErrClosed)
	require.ErrorIs(t, g.WriteFile(filepath.Join(t.TempDir(), "x")), ggml.ErrClosed)
	_, err = g.WriteTo(io.Discard)
	require.ErrorIs(t, err, ggml.ErrClosed)
	c := ggml.NewContext()
	defer c.Close()
	_, err = g.Load(c, optest.CPU(t), ggml.LoadOptions{})
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.Zero(t, g.NumKeys()+g.NumTensors()+g.Version())
	require.Empty(t, allKeys(g))
	for range g.Tensors() {
		t.Fatal("a closed GGUF has tensors")
	}
}

func TestGGUFFromManyGoroutines(t *testing.T) {
	g, other := fullGGUF(t), newGGUF(t)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 50 {
				key := string(rune('a' + i))
				_ = g.Set(key, int32(i))
				_, _ = g.Value(key)
				readKeysAndTensors(g)
				_, _ = g.WriteTo(io.Discard)
				_ = g.Remove(key)
				_ = other.CopyKeys(g)
			}
		}()
	}
	wait.Wait()
	require.Equal(t, len(someKeys), g.NumKeys())
}

func readKeysAndTensors(g *ggml.GGUF) {
	for range g.Keys() {
	}
	for range g.Tensors() {
	}
}

func TestGGUFProperty(t *testing.T) {
	text := rapid.StringMatching(`[^\x00]{0,12}`)
	value := rapid.OneOf(
		rapid.Uint8().AsAny(), rapid.Int8().AsAny(), rapid.Uint16().AsAny(), rapid.Int16().AsAny(),
		rapid.Uint32().AsAny(), rapid.Int32().AsAny(), rapid.Uint64().AsAny(), rapid.Int64().AsAny(),
		rapid.Float32().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), text.AsAny(),
		rapid.SliceOf(rapid.Uint8()).AsAny(), rapid.SliceOf(rapid.Int64()).AsAny(), rapid.SliceOf(rapid.Float32()).AsAny(),
		rapid.SliceOf(rapid.Bool()).AsAny(), rapid.SliceOf(text).AsAny(),
	)
	rapid.Check(t, func(t *rapid.T) {
		g := need.Value(ggml.NewGGUF())(t)
		defer g.Close()
		var want []keyValue
		for _, key := range rapid.SliceOfDistinct(rapid.StringMatching(`[a-z][a-z._0-9]{0,20}`), rapid.ID).Draw(t, "keys") {
			v := value.Draw(t, key)
			require.NoError(t, g.Set(key, v))
			want = append(want, keyValue{key, v})
		}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z.]{1,63}`), 0, 5, rapid.ID).Draw(t, "tensors")
		var infos []ggml.GGUFTensor
		contents := map[string][]byte{}
		for _, name := range names {
			info := ggml.GGUFTensor{Name: name, Type: rapid.SampledFrom([]ggml.Type{ggml.F32, ggml.BF16, ggml.Q5_1, ggml.I8}).Draw(t, "type")}
			info.Shape = rapid.SliceOfN(rapid.Int64Range(2, 4), 1, 4).Draw(t, "shape")
			info.Shape[0] *= info.Type.BlockSize()
			info.Size = info.Type.RowSize(info.NumElements())
			contents[name] = rapid.SliceOfN(rapid.Byte(), int(info.Size), int(info.Size)).Draw(t, "data")
			addData(t, g, info, contents[name])
			infos = append(infos, info)
		}
		data := encodeGGUF(t, g)
		read := need.Value(ggml.ReadGGUF(bytes.NewReader(data), int64(len(data))))(t)
		defer read.Close()
		require.Equal(t, want, allKeys(read))
		var got []ggml.GGUFTensor
		for info := range read.Tensors() {
			start := read.DataOffset() + info.Offset
			require.Equal(t, contents[info.Name], data[start:start+info.Size])
			require.Zero(t, start%read.Alignment())
			info.Offset = 0
			got = append(got, info)
		}
		require.Equal(t, infos, got)
		require.Equal(t, data, encodeGGUF(t, read))
	})
}

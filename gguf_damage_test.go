package ggml_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestGGUFOpenErrors(t *testing.T) {
	folder := t.TempDir()
	_, err := ggml.OpenGGUF(filepath.Join(folder, "none.gguf"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualError(t, err, "ggml: "+filepath.Join(folder, "none.gguf")+": cannot be opened: no such file or directory")
	_, err = ggml.OpenGGUF(folder)
	require.ErrorContains(t, err, "it is a folder")
	_, err = ggml.OpenGGUF(os.DevNull)
	require.EqualError(t, err, "ggml: "+os.DevNull+": cannot be opened: it is a pipe or a device; name a regular file")
	for content, want := range map[string]string{
		"":                     `is not a GGUF file: it starts with "" instead of "GGUF"`,
		"GGU":                  `is not a GGUF file`,
		"PK\x03\x04 a zip":     `it starts with "PK\x03\x04" instead of "GGUF"; choose a file in that format`,
		"GGUF\x03":             "the file ends inside header, at byte 5: it is incomplete or damaged; download it again",
		"GGUF\x01\x00\x00\x00": "has version 1 of the format, which is not supported any more",
		"GGUF\x09\x00\x00\x00": "has version 9 of the format, and 3 is the newest known here; upgrade ggml",
		"GGUF\x00\x00\x00\x03": "has the byte order of another machine",
		"GGUF\x03\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00": "header claims 18446744073709551615 tensors, which 24 bytes cannot hold",
	} {
		path := filepath.Join(folder, "bad.gguf")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := ggml.OpenGGUF(path)
		require.ErrorContains(t, err, "ggml: "+path+": ")
		require.ErrorContains(t, err, want)
	}
}

// A file truncated anywhere is reported when it is opened.
func TestGGUFTruncated(t *testing.T) {
	g := fullGGUF(t)
	data := encodeGGUF(t, g)
	infos, _ := testutil.GGUFTensors()
	last := infos[len(infos)-1]
	last, ok := g.Tensor(last.Name)
	require.True(t, ok)
	end := int(g.DataOffset() + last.Offset + last.Size)
	for n := range len(data) {
		read, err := ggml.ReadGGUF(bytes.NewReader(data[:n]), int64(n))
		if n >= end { // only the padding is missing
			require.NoError(t, err)
			read.Close()
			continue
		}
		var f *ggml.FileError
		require.ErrorAs(t, err, &f, "cut at %d", n)
		require.Equal(t, "GGUF data", f.Path)
		require.Regexp(t, "incomplete|truncated|is not a GGUF file", f.Reason)
	}
	_, err := ggml.ReadGGUF(bytes.NewReader(data[:end-1]), int64(end-1))
	require.ErrorContains(t, err, "is truncated: tensor \""+last.Name+"\" ends at byte ")
	_, err = ggml.ReadGGUF(bytes.NewReader(data[:9]), int64(len(data)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// Every byte of the header is damaged in several ways.
func TestGGUFCorrupted(t *testing.T) {
	g := fullGGUF(t)
	data := encodeGGUF(t, g)
	rejected := 0
	for i := range int(g.DataOffset()) {
		for _, x := range []byte{0xff, 0x01, 0x80, data[i]} {
			damaged := bytes.Clone(data)
			damaged[i] ^= x
			read, err := ggml.ReadGGUF(bytes.NewReader(damaged), int64(len(data)))
			if err != nil {
				var f *ggml.FileError
				require.ErrorAs(t, err, &f)
				rejected++
				continue
			}
			readEverything(t, read)
			read.Close()
		}
	}
	t.Logf("%d damaged headers rejected", rejected)
	require.Greater(t, rejected, int(g.DataOffset())) // most of the header is text
}

// readEverything reads all that a file claims to contain.
func readEverything(t require.TestingT, g *ggml.GGUF) {
	n := 0
	for range g.Keys() {
		n++
	}
	require.Equal(t, g.NumKeys(), n)
	n = 0
	for info := range g.Tensors() {
		_, found := g.Tensor(info.Name)
		require.True(t, found)
		n++
	}
	require.Equal(t, g.NumTensors(), n)
}

func TestGGUFDamageErrors(t *testing.T) {
	data := encodeGGUF(t, fullGGUF(t))
	for want, change := range map[string][2]string{
		`has the key "f32" twice`:                                             {"\x03\x00\x00\x00\x00\x00\x00\x00f64", "\x03\x00\x00\x00\x00\x00\x00\x00f32"},
		`the value of key "u8" has the unknown type 99`:                       {"u8\x00\x00\x00\x00", "u8\x63\x00\x00\x00"},
		`the value of key "u8s" is an array of arrays`:                        {"u8s\x09\x00\x00\x00\x00", "u8s\x09\x00\x00\x00\x09"},
		`the value of key "u8s" is an array of the unknown type 13`:           {"u8s\x09\x00\x00\x00\x00", "u8s\x09\x00\x00\x00\x0d"},
		`the value of key "u32s" claims 9223372036854775811 elements`:         {"u32s\x09\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00", "u32s\x09\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x80"},
		`the value of key "text" claims 9151314442816847880 bytes of text`:    {"\x08\x00\x00\x00\x00\x00\x00\x00gr", "\x08\x00\x00\x00\x00\x00\x00\x7fgr"},
		`has the invalid name "tex\x00"`:                                      {"text", "tex\x00"},
		`tensor "odd" has 9 dimensions; ggml allows 4`:                        {"odd\x01", "odd\x09"},
		`tensor "odd" has the impossible size -9223372036854775805`:           {"odd\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00", "odd\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x80"},
		`tensor "odd" has the unknown type 4`:                                 {"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x60", "\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x60"},
		`tensor "half" starts at byte`:                                        {"odd\x01\x00\x00\x00\x03", "odd\x01\x00\x00\x00\xf3"},
		`tensor "odd" has rows of 3 elements; rows of q8_0 must be multiples`: {"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x60", "\x03\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x60"},
	} {
		require.Equal(t, 1, bytes.Count(data, []byte(change[0])), "%q", change[0])
		damaged := bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
		_, err := ggml.ReadGGUF(bytes.NewReader(damaged), int64(len(damaged)))
		require.ErrorContains(t, err, want)
	}
}

// A string with a NUL is read whole, although C strings end there.
func TestGGUFStringsWithNUL(t *testing.T) {
	g := newGGUF(t, keyValue{"s", "aXb"}, keyValue{"list", []string{"p", "qX", ""}})
	data := bytes.ReplaceAll(encodeGGUF(t, g), []byte("X"), []byte{0})
	read := need.Value(ggml.ReadGGUF(bytes.NewReader(data), int64(len(data))))(t)
	defer read.Close()
	want := []keyValue{{"s", "a\x00b"}, {"list", []string{"p", "q\x00", ""}}}
	require.Equal(t, want, allKeys(read))
	require.Equal(t, data, encodeGGUF(t, read)) // written as it was
	require.ErrorContains(t, g.CopyKeys(read), "a string holds a NUL byte, which ggml cannot copy")
	require.NoError(t, read.Set("s", "c"))
	require.NoError(t, read.Remove("list"))
	require.Equal(t, []keyValue{{"s", "c"}}, allKeys(read))
	require.NoError(t, g.CopyKeys(read))

	again := need.Value(ggml.ReadGGUF(bytes.NewReader(data), int64(len(data))))(t)
	defer again.Close()
	require.NoError(t, again.CopyKeys(newGGUF(t, keyValue{"s", "new"})))
	value, _ := again.Value("s")
	require.Equal(t, "new", value)
}

// The backing array of a slice may be part of memory with pointers.
func TestGGUFSetPartOfStruct(t *testing.T) {
	whole := &struct {
		Name *string
		IDs  [4]int32
	}{Name: new(string), IDs: [4]int32{1, 2, 3, 4}}
	g := newGGUF(t, keyValue{"ids", whole.IDs[1:]})
	value, _ := g.Value("ids")
	require.Equal(t, []int32{2, 3, 4}, value)
}

func TestGGUFShrinksWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, fullGGUF(t).WriteFile(path))
	g := openGGUF(t, path)
	require.NoError(t, os.Truncate(path, g.DataOffset()+8))
	_, err := g.WriteTo(io.Discard)
	require.ErrorContains(t, err, path+": has become shorter since it was opened")
	c := ggml.NewContext()
	defer c.Close()
	_, err = g.Load(c, optest.CPU(t), ggml.LoadOptions{NoMmap: true})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, path+`: cannot be loaded: tensor "token_embd.weight"`)
}

// A file is never mapped beyond its end, even if its claimed size is larger.
func TestGGUFShorterThanSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	large := newGGUF(t)
	require.NoError(t, large.AddTensorFrom(ggml.GGUFTensor{Name: "x", Type: ggml.F32, Shape: []int64{1 << 20}}, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 4<<20))
		return err
	}))
	require.NoError(t, large.WriteFile(path))
	whole, err := os.Stat(path)
	require.NoError(t, err)
	g := openGGUF(t, path)
	require.NoError(t, os.Truncate(path, 3<<20))
	file := need.Value(os.Open(path))(t)
	defer file.Close()
	said := need.Value(ggml.ReadGGUF(file, whole.Size()))(t)
	defer said.Close()
	for _, g := range []*ggml.GGUF{g, said} {
		c := ggml.NewContext()
		_, err = g.Load(c, optest.CPU(t), ggml.LoadOptions{})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, path+": has 3145728 bytes, and its tensors end at ")
		c.Close()
	}
}

func FuzzReadGGUF(f *testing.F) {
	seed := func(g *ggml.GGUF) { f.Add(encodeGGUF(f, g)) }
	seed(newGGUF(f))
	seed(newGGUF(f, someKeys...))
	seed(newGGUF(f, keyValue{"general.alignment", uint32(8)}, keyValue{"a", "b"}))
	seed(fullGGUF(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ggml.ReadGGUF(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			var file *ggml.FileError
			require.ErrorAs(t, err, &file)
			return
		}
		defer g.Close()
		readEverything(t, g)
		// A GGUF read from a file can be written, and reads back the same.
		written := encodeGGUF(t, g)
		again := need.Value(ggml.ReadGGUF(bytes.NewReader(written), int64(len(written))))(t)
		defer again.Close()
		require.Equal(t, written, encodeGGUF(t, again))
	})
}

package ggml_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestGGUFParts(t *testing.T) {
	folder := t.TempDir()
	one := filepath.Join(folder, "one.gguf")
	require.NoError(t, fullGGUF(t).WriteFile(one))
	for name, k := range map[string]struct {
		options ggml.PartOptions
		tensors []int // in each file
	}{
		"whole":      {ggml.PartOptions{}, []int{6}},
		"by number":  {ggml.PartOptions{MaxTensors: 4}, []int{4, 2}},
		"by size":    {ggml.PartOptions{MaxBytes: 400}, []int{2, 1, 1, 2}}, // 340 padded and 12; 84; 864; 8 and 5
		"keys first": {ggml.PartOptions{MaxTensors: 5, KeysFirst: true}, []int{0, 5, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := filepath.Join(t.TempDir(), "model")
			paths := need.Value(openGGUF(t, one).WriteParts(prefix, k.options))(t)
			require.Len(t, paths, len(k.tensors))
			for i, path := range paths {
				require.Equal(t, fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, len(paths)), path)
				part := need.Value(ggml.OpenGGUFPart(path))(t)
				require.Equal(t, k.tensors[i], part.NumTensors())
				for key, want := range map[string]any{"split.no": uint16(i), "split.count": uint16(len(paths)), "split.tensors.count": int32(6)} {
					v, ok := part.Value(key)
					require.True(t, ok)
					require.Equal(t, want, v)
				}
				_, first := part.Value("general.architecture")
				require.Equal(t, i == 0, first)
				part.Close()
			}
			if len(paths) == 1 {
				return
			}
			model := openGGUF(t, paths[0])
			require.Equal(t, len(paths), model.NumParts())
			require.Equal(t, paths, model.Paths())
			requireFull(t, model)

			// Written again it is one file, the same as the one at the start.
			var merged bytes.Buffer
			_, err := model.WriteTo(&merged)
			require.NoError(t, err)
			want := need.Value(os.ReadFile(one))(t)
			require.Equal(t, want, merged.Bytes())

			_, err = ggml.OpenGGUF(paths[1])
			require.ErrorContains(t, err, fmt.Sprintf("is part 2 of %d of a model; open the first, model-00001-of-%05d.gguf", len(paths), len(paths)))
		})
	}
}

func TestGGUFPartsLoad(t *testing.T) {
	paths := need.Value(fullGGUF(t).WriteParts(filepath.Join(t.TempDir(), "m"), ggml.PartOptions{MaxTensors: 2}))(t)
	infos, data := testutil.GGUFTensors()
	for name, o := range map[string]ggml.LoadOptions{"mapped": {}, "read": {NoMmap: true}} {
		t.Run(name, func(t *testing.T) {
			g := need.Value(ggml.OpenGGUF(paths[0]))(t)
			c := ggml.NewContext()
			defer c.Close()
			buffers := need.Value(g.Load(c, optest.CPU(t), o))(t)
			require.NoError(t, g.Close())
			for i, info := range infos {
				got := make([]byte, len(data[i]))
				require.NoError(t, optest.Err(optest.Found(c.Tensor(info.Name)).ReadAt(got, 0)))
				require.Equal(t, data[i], got, info.Name)
			}
			require.NoError(t, buffers.Close())
			require.False(t, optest.Found(c.Tensor("odd")).IsAllocated())
		})
	}
}

func TestGGUFPartsAlignment(t *testing.T) {
	g := newGGUF(t, keyValue{"general.alignment", uint32(256)})
	for _, name := range []string{"a", "b", "c"} {
		addData(t, g, ggml.GGUFTensor{Name: name, Type: ggml.I8, Shape: []int64{3}}, []byte(name+name+name))
	}
	paths := need.Value(g.WriteParts(filepath.Join(t.TempDir(), "m"), ggml.PartOptions{MaxBytes: 511}))(t)
	require.Len(t, paths, 3)
	for _, path := range paths {
		part := need.Value(ggml.OpenGGUFPart(path))(t)
		require.EqualValues(t, 256, part.Alignment())
		require.NoError(t, part.Close())
	}
	model := openGGUF(t, paths[0])
	require.EqualValues(t, 256, model.Alignment())
	require.Equal(t, "ccc", string(tensorBytes(t, model, "c")))
}

func TestGGUFPartsDamage(t *testing.T) {
	write := func(t *testing.T) []string {
		return need.Value(fullGGUF(t).WriteParts(filepath.Join(t.TempDir(), "m"), ggml.PartOptions{MaxTensors: 2}))(t)
	}
	edit := func(key string, value any) func(t *testing.T, paths []string) {
		return func(t *testing.T, paths []string) {
			require.NoError(t, ggml.EditGGUF(paths[1], func(g *ggml.GGUF) error { return g.Set(key, value) }))
		}
	}
	first := func(key string, value any) func(t *testing.T, paths []string) {
		return func(t *testing.T, paths []string) {
			require.NoError(t, ggml.EditGGUF(paths[0], func(g *ggml.GGUF) error { return g.Set(key, value) }))
		}
	}
	for want, damage := range map[string]func(t *testing.T, paths []string){
		"is the first part of 3, and part 2 is missing; get m-00002-of-00003.gguf too":            func(t *testing.T, paths []string) { require.NoError(t, os.Remove(paths[1])) },
		"m-00003-of-00003.gguf: is truncated":                                                     func(t *testing.T, paths []string) { require.NoError(t, os.Truncate(paths[2], 260)) },
		"is part 3 of 3 of a model, and by its name part 2 of 3":                                  edit("split.no", uint16(2)),
		"is part 2 of 4 of a model, and by its name part 2 of 3":                                  edit("split.count", uint16(4)),
		"claims to be part 9 of 3: it is damaged":                                                 edit("split.no", uint16(8)),
		"claims to be part 0 of 3: it is damaged":                                                 first("split.no", int32(-1)),
		"and its name must end in \"-00001-of-00005.gguf\" for the others to be found; rename it": first("split.count", uint16(5)),
		`key "split.count": the file has a value of type string`:                                  first("split.count", "three"),
		"the parts have 6 tensors instead of 7: one is damaged, or of another model":              first("split.tensors.count", int32(7)),
		`m-00003-of-00003.gguf: has the tensor "odd", which another part has too`: func(t *testing.T, paths []string) {
			require.NoError(t, ggml.EditGGUF(paths[2], func(g *ggml.GGUF) error {
				return g.AddTensorFrom(ggml.GGUFTensor{Name: "odd", Type: ggml.I8, Shape: []int64{1}}, func(w io.Writer) error {
					_, err := w.Write([]byte{1})
					return err
				})
			}))
		},
	} {
		paths := write(t)
		damage(t, paths)
		open := ggml.OpenObjects()["GGUF"]
		_, err := ggml.OpenGGUF(paths[0])
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "OpenGGUF", "programs print it, too")
		require.Equal(t, open, ggml.OpenObjects()["GGUF"])
	}

	// A model in one file despite its name, or without a total, opens.
	paths := write(t)
	require.NoError(t, ggml.EditGGUF(paths[0], func(g *ggml.GGUF) error { return g.Remove("split.tensors.count") }))
	requireFull(t, openGGUF(t, paths[0]))
	require.NoError(t, ggml.EditGGUF(paths[0], func(g *ggml.GGUF) error { return g.Set("split.count", uint16(0)) }))
	require.Equal(t, 2, openGGUF(t, paths[0]).NumTensors())
}

func TestGGUFPartsWriteFails(t *testing.T) {
	folder := t.TempDir()
	g := fullGGUF(t)
	cause := errors.New("no more data")
	require.NoError(t, g.AddTensorFrom(ggml.GGUFTensor{Name: "bad", Type: ggml.I8, Shape: []int64{1}}, func(io.Writer) error { return cause }))
	_, err := g.WriteParts(filepath.Join(folder, "m"), ggml.PartOptions{MaxTensors: 1})
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, `m-00007-of-00007.gguf: cannot be written: tensor "bad" of 1 bytes: no more data`)
	entries := need.Value(os.ReadDir(folder))(t)
	require.Empty(t, entries)
	_, err = g.WriteParts(filepath.Join(folder, "m"), ggml.PartOptions{MaxBytes: -1})
	require.ErrorContains(t, err, "neither may be negative")
	_, err = g.WriteParts(filepath.Join(folder, "missing", "m"), ggml.PartOptions{})
	require.ErrorContains(t, err, "m-00001-of-00001.gguf: cannot be written: no such file or directory")
	g.Close()
	_, err = g.WriteParts(filepath.Join(folder, "m"), ggml.PartOptions{})
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// For any limits: nothing is lost, the order is kept, and the limits hold.
func TestGGUFPartsProperties(t *testing.T) {
	folder := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 300), 1, 12).Draw(t, "sizes")
		o := ggml.PartOptions{
			MaxBytes:   rapid.Int64Range(0, 700).Draw(t, "bytes"),
			MaxTensors: rapid.IntRange(0, 5).Draw(t, "tensors"),
			KeysFirst:  rapid.Bool().Draw(t, "keys first"),
		}
		g := need.Value(ggml.NewGGUF())(t)
		defer g.Close()
		require.NoError(t, g.Set("k", "v"))
		for i, n := range sizes {
			addData(t, g, ggml.GGUFTensor{Name: fmt.Sprint("t", i), Type: ggml.I8, Shape: []int64{n}}, bytes.Repeat([]byte{byte(i)}, int(n)))
		}
		paths := need.Value(g.WriteParts(filepath.Join(folder, fmt.Sprint(run)), o))(t)
		for i, path := range paths {
			part := need.Value(ggml.OpenGGUFPart(path))(t)
			total := int64(0)
			for info := range part.Tensors() {
				total += (info.Size + 31) / 32 * 32
			}
			n := part.NumTensors()
			require.True(t, n > 0 || i == 0 && o.KeysFirst)
			require.True(t, o.MaxTensors == 0 || n <= o.MaxTensors)
			require.True(t, o.MaxBytes == 0 || total <= o.MaxBytes || n == 1)
			part.Close()
		}
		model := need.Value(ggml.OpenGGUF(paths[0]))(t)
		defer model.Close()
		i := 0
		for info := range model.Tensors() {
			require.Equal(t, fmt.Sprint("t", i), info.Name)
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, int(sizes[i])), tensorBytes(t, model, info.Name))
			i++
		}
		require.Equal(t, len(sizes), i)
	})
}

package ggml_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
)

// A model is split over several files, read as one, and changed in place.
func ExampleGGUF_WriteParts() {
	folder, err := os.MkdirTemp("", "split")
	check(err)
	defer os.RemoveAll(folder)
	g, err := ggml.NewGGUF()
	check(err)
	defer g.Close()
	check(g.Set("general.name", "tiny"))
	for _, name := range []string{"a", "b", "c"} {
		info := ggml.GGUFTensor{Name: name, Type: ggml.I8, Shape: []int64{4}}
		check(g.AddTensorFrom(info, func(w io.Writer) error {
			_, err := io.WriteString(w, name+name+name+name)
			return err
		}))
	}
	paths, err := g.WriteParts(filepath.Join(folder, "tiny"), ggml.PartOptions{MaxTensors: 2})
	check(err)
	for _, path := range paths {
		fmt.Println(filepath.Base(path))
	}
	check(ggml.EditGGUF(paths[0], func(g *ggml.GGUF) error { return g.Set("general.name", "renamed") }))

	model, err := ggml.OpenGGUF(paths[0])
	check(err)
	defer model.Close()
	name, err := ggml.GGUFValue[string](model, "general.name")
	check(err)
	data, err := model.TensorData("c")
	check(err)
	text, err := io.ReadAll(data)
	check(err)
	fmt.Println(name, model.NumTensors(), string(text))
	// Output:
	// tiny-00001-of-00002.gguf
	// tiny-00002-of-00002.gguf
	// renamed 3 cccc
}

// A file contains tensors and metadata, and is read back without a copy.
func ExampleGGUF() {
	folder, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.gguf")

	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.F32, 2, 2).SetName("w")
	buffers, err := c.Allocate(ggml.CPUBufferType())
	check(err)
	defer buffers.Close()
	check(ggml.Write(w, []float32{1, 2, 3, 4}))
	file, err := ggml.NewGGUF()
	check(err)
	defer file.Close()
	check(file.Set("general.name", "four numbers"))
	check(file.Set("example.sizes", []uint32{2, 2}))
	check(file.AddTensor(w))
	check(file.WriteFile(path))

	stored, err := ggml.OpenGGUF(path)
	check(err)
	defer stored.Close()
	name, err := ggml.GGUFValue[string](stored, "general.name")
	check(err)
	sizes, err := ggml.GGUFValue[[]uint32](stored, "example.sizes")
	check(err)
	fmt.Println(name, sizes)
	for t := range stored.Tensors() {
		fmt.Println(t, t.Size, "bytes")
	}

	model := ggml.NewContext()
	defer model.Close()
	cpu, err := ggml.DeviceByType(ggml.CPU)
	check(err)
	weights, err := stored.Load(model, cpu, ggml.LoadOptions{})
	check(err)
	defer weights.Close()
	loaded, _ := model.Tensor("w")
	values, err := ggml.Read[float32](loaded)
	check(err)
	fmt.Println(values)
	// Output:
	// four numbers [2 2]
	// w f32[2, 2] 16 bytes
	// [1 2 3 4]
}

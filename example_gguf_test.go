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
	folder := must(os.MkdirTemp("", "split"))
	defer os.RemoveAll(folder)
	g := must(ggml.NewGGUF())
	defer g.Close()
	check(g.Set("general.name", "tiny"))
	for _, name := range []string{"a", "b", "c"} {
		info := ggml.GGUFTensor{Name: name, Type: ggml.I8, Shape: []int64{4}}
		check(g.AddTensorFrom(info, func(w io.Writer) error {
			_, err := io.WriteString(w, name+name+name+name)
			return err
		}))
	}
	paths := must(g.WriteParts(filepath.Join(folder, "tiny"), ggml.PartOptions{MaxTensors: 2}))
	for _, path := range paths {
		fmt.Println(filepath.Base(path))
	}
	check(ggml.EditGGUF(paths[0], func(g *ggml.GGUF) error { return g.Set("general.name", "renamed") }))

	model := must(ggml.OpenGGUF(paths[0]))
	defer model.Close()
	name := must(ggml.GGUFValue[string](model, "general.name"))
	data := must(model.TensorData("c"))
	text := must(io.ReadAll(data))
	fmt.Println(name, model.NumTensors(), string(text))
	// Output:
	// tiny-00001-of-00002.gguf
	// tiny-00002-of-00002.gguf
	// renamed 3 cccc
}

// A file contains tensors and metadata, and is read back without a copy.
func ExampleGGUF() {
	folder := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.gguf")

	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.F32, 2, 2).SetName("w")
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	defer buffers.Close()
	check(ggml.Write(w, []float32{1, 2, 3, 4}))
	file := must(ggml.NewGGUF())
	defer file.Close()
	check(file.Set("general.name", "four numbers"))
	check(file.Set("example.sizes", []uint32{2, 2}))
	check(file.AddTensor(w))
	check(file.WriteFile(path))

	stored := must(ggml.OpenGGUF(path))
	defer stored.Close()
	name := must(ggml.GGUFValue[string](stored, "general.name"))
	sizes := must(ggml.GGUFValue[[]uint32](stored, "example.sizes"))
	fmt.Println(name, sizes)
	for t := range stored.Tensors() {
		fmt.Println(t, t.Size, "bytes")
	}

	model := ggml.NewContext()
	defer model.Close()
	cpu := must(ggml.DeviceByType(ggml.CPU))
	weights := must(stored.Load(model, cpu, ggml.LoadOptions{}))
	defer weights.Close()
	loaded, _ := model.Tensor("w")
	values := must(ggml.Read[float32](loaded))
	fmt.Println(values)
	// Output:
	// four numbers [2 2]
	// w f32[2, 2] 16 bytes
	// [1 2 3 4]
}

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

package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml"
)

func ExampleOpError() {
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.F16, 4, 8).SetName("w"), c.NewTensor(ggml.F32, 5).SetName("x")
	c.MulMat(w, x)
	var e *ggml.OpError
	fmt.Println(errors.As(c.Err(), &e))
	fmt.Println(e.Op)
	fmt.Println(e.Operands)
	fmt.Println(e.Reason)
	fmt.Println(strings.HasPrefix(e.Caller, "example_errors_test.go:"))
	// Output:
	// true
	// mul_mat
	// [w f16[4, 8] x f32[5]]
	// ne0 must be equal: a has 4, b has 5
	// true
}

// The error of a file names the file and the fault.
func ExampleFileError() {
	folder := must(os.MkdirTemp("", "example"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.gguf")
	check(os.WriteFile(path, []byte("something else"), 0o644))

	_, err := ggml.OpenGGUF(path)
	var e *ggml.FileError
	fmt.Println(errors.As(err, &e), filepath.Base(e.Path))
	fmt.Println(e.Reason)
	// Output:
	// true model.gguf
	// is not a GGUF file: it starts with "some" instead of "GGUF"; choose a file in that format
}

// A panic in a Go function called by ggml is an error of the computation.
func ExamplePanicError() {
	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3)
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		panic("the function is not written yet")
	}, 1, x)
	graph := c.NewGraph(y)
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()
	check(ggml.Write(x, []float32{1, 2, 3}))

	var e *ggml.PanicError
	fmt.Println(errors.As(backend.Compute(context.Background(), graph), &e))
	fmt.Println(e)
	// Output:
	// true
	// the function panicked: the function is not written yet
}

package ggml_test

import (
	"context"
	"fmt"
	"runtime"

	"github.com/goggml/ggml"
)

// What a plugin was built for says why a computation is slow on one machine and
// fast on another.
func ExampleCPUInfo() {
	info, err := ggml.ReadCPUInfo()
	check(err)
	fmt.Println(info.NEON && runtime.GOARCH == "amd64")
	// Output: false
}

// A graph with branches keeps its nodes whichever is computed, so that an
// allocator plans it once.
func ExampleGraph_Select() {
	backend, err := ggml.NewCPUBackend(1)
	check(err)
	defer backend.Close()
	allocator, err := ggml.NewGraphAllocator(backend.BufferType())
	check(err)
	defer allocator.Close()
	for branch := range 2 {
		c := ggml.NewContext()
		x := c.NewF32(3)
		g := c.NewGraph()
		y := c.Add(g.Select(branch, c.Sqr(x), c.Neg(x)), x).SetOutput()
		g.Expand(y)
		check(allocator.Alloc(g))
		check(backend.Compute(context.Background(), g))
		value, err := y.Float32At(0)
		check(err)
		fmt.Println(g.NumNodes(), value)
		c.Close()
	}
	// Output:
	// 3 12
	// 3 0
}

// A result that must be exact asks for it.
func ExampleTensor_SetAccPrecision() {
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.F16, 64, 4), c.NewTensor(ggml.F32, 64, 2)
	y := c.MulMat(w, x).SetAccPrecision(ggml.PrecisionF32)
	fmt.Println(y, c.Err())
	fmt.Println(c.Add(x, x).SetAccPrecision(ggml.PrecisionF32) != nil, c.Err() != nil)
	// Output:
	// mul_mat() f32[4, 2] <nil>
	// true true
}

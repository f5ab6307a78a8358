package ggml_test

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// A context with many weights may need several buffers.
func ExampleBuffers() {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 1000), c.NewTensor(ggml.F16, 1000)
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	check(buffers.Clear(0))
	fmt.Println(a.IsAllocated(), b.IsAllocated(), buffers.Size() >= 6000)
	buffers.Close()
	fmt.Println(a.IsAllocated(), b.IsAllocated())
	// Output:
	// true true true
	// false false
}

// Closing a buffer makes the tensors in it unallocated.
func ExampleBuffer() {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1000)
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	fmt.Println(buffers.Size(), x.IsAllocated())
	check(buffers.Clear(0))
	buffers.Close()
	fmt.Println(x.IsAllocated(), errors.Is(ggml.Write(x, make([]float32, 1000)), ggml.ErrNotAllocated))
	// Output:
	// 4000 true
	// false true
}

func ExampleBufferType() {
	bt := ggml.CPUBufferType()
	b := must(bt.NewBuffer(1 << 20))
	defer b.Close()
	fmt.Println(bt.Name(), b.Size(), bt.IsHost())
	// Output: CPU 1048576 true
}

// Places the tensors of a context in a given buffer.
func ExampleTensorAllocator() {
	b := must(ggml.CPUBufferType().NewBuffer(4096))
	defer b.Close()
	a := must(ggml.NewTensorAllocator(b))
	c := ggml.NewContext()
	defer c.Close()
	small, large := c.NewTensor(ggml.F32, 100), c.NewTensor(ggml.F32, 1000)
	fmt.Println(a.Allocate(small), small.IsAllocated())
	fmt.Println(errors.Is(a.Allocate(large), ggml.ErrOutOfMemory), large.IsAllocated())
	// Output:
	// <nil> true
	// true false
}

// Two tensors, which might be on different devices, are written from one slice.
func ExampleChunk() {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.I8, 4), c.NewTensor(ggml.I8, 2)
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	defer buffers.Close()
	data := []byte{1, 2, 3, 4, 5, 6}
	check(ggml.WriteChunks(data, ggml.Chunk{Tensor: a, Size: 4}, ggml.Chunk{Tensor: b, Size: 2, At: 4}))
	fmt.Println(must(ggml.Read[int8](a)), must(ggml.Read[int8](b)))

	check(ggml.ReadChunks(data, ggml.Chunk{Tensor: b, Size: 2}, ggml.Chunk{Tensor: a, Offset: 2, Size: 2, At: 2}))
	fmt.Println(data)
	// Output:
	// [1 2 3 4] [5 6]
	// [5 6 3 4 5 6]
}

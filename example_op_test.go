package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/nativetest"
)

// An op that ggml lacks: the logarithm of the sum of the exponentials of each row. The threads of
// the backend share the rows.
func ExampleContext_Custom() {
	logSumExp := func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		y := ggml.CustomSlice[float32](dst)
		for i, to := w.Share(dst.NumElements()); i < to; i++ {
			var sum float64
			for _, x := range ggml.CustomRow[float32](src[0], i) {
				sum += math.Exp(float64(x))
			}
			y[i] = float32(math.Log(sum))
		}
		return nil
	}

	backend := must(ggml.NewCPUBackend(2))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 3) // 3 rows of 2
	y := c.Custom(ggml.CustomOptions{Func: logSumExp, Type: ggml.F32, Shape: []int64{x.Dim(1)}}, x)
	graph := c.NewGraph(y)
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()

	check(ggml.Write(x, []float32{0, 0, 1, 1, -1, 2}))
	check(backend.Compute(context.Background(), graph))
	values := must(ggml.Read[float32](y))
	fmt.Printf("%.3f\n", values)
	// Output: [0.693 1.693 2.049]
}

// An error of the function becomes the error of the compute.
func ExampleCustomFunc() {
	errNegative := errors.New("a negative number has no root")
	root := func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		for i, to := w.Share(dst.NumRows()); i < to; i++ {
			x, y := ggml.CustomRow[float32](src[0], i), ggml.CustomRow[float32](dst, i)
			for j := range x {
				if x[j] < 0 {
					return fmt.Errorf("row %d: %w", i, errNegative)
				}
				y[j] = float32(math.Sqrt(float64(x[j])))
			}
		}
		return nil
	}

	backend := must(ggml.NewCPUBackend(1))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1, 2)
	y := c.MapCustom(root, 0, x)
	graph := c.NewGraph(y)
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()

	for _, values := range [][]float32{{4, 9}, {4, -9}} {
		check(ggml.Write(x, values))
		if err := backend.Compute(context.Background(), graph); err != nil {
			fmt.Println(errors.Is(err, errNegative), errors.Unwrap(err))
			continue
		}
		roots := must(ggml.Read[float32](y))
		fmt.Println(roots)
	}
	// Output:
	// [2 3]
	// true row 1: a negative number has no root
}

// nativetest.SumSquares is an op in C of another package. Its C half is an
// ordinary function beside the Go file, which cgo compiles:
//
//	void sum_squares_of_rows(struct ggml_tensor *dst, int ith, int nth, void *userdata) {
//		const struct ggml_tensor *x = dst->src[0];
//		for (int64_t row = ith; row < x->ne[1]; row += nth) {
//			…
//		}
//	}
//
// Its Go half names the function, checks the operands, and says what it makes:
//
//	var sumSquares = &ggml.NativeOp{Name: "sum_squares_of_rows", Func: unsafe.Pointer(C.sum_squares_of_rows)}
//
//	func SumSquares(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
//		return c.BuildOp("sum_squares_of_rows", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
//			b.RequireType("x", x, ggml.F32)
//			b.RequireContiguous("x", x)
//			return b.Native(sumSquares, nil, ggml.F32, 1, x.Dim(1))
//		})
//	}
func ExampleContext_BuildOp() {
	backend := must(ggml.NewCPUBackend(2))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 3) // 3 rows of 2
	y := nativetest.SumSquares(c, x)
	graph := c.NewGraph(y)
	buffers := must(c.Allocate(backend.BufferType()))
	defer buffers.Close()

	check(ggml.Write(x, []float32{1, 2, 3, 4, 5, 6}))
	check(backend.Compute(context.Background(), graph))
	fmt.Println(must(ggml.Read[float32](y)), y.Op())

	nativetest.SumSquares(c, c.NewTensor(ggml.I32, 2, 3))
	fmt.Println(errors.Unwrap(c.Err()) == nil, c.Err().(*ggml.OpError).Reason)
	// Output:
	// [5 25 61] sum_squares_of_rows
	// true x has type i32; it must have f32
}

// SetAccPrecision makes a result exact.
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

// Servers of package rpc compute an op in C for clients, if both processes have registered it.
func ExampleRemoteOps() {
	ggml.RegisterRemoteOps(func() []ggml.RemoteOp {
		return []ggml.RemoteOp{{NativeOp: nativetest.SumSquaresOp(), Rebuild: func(c *ggml.Context, n ggml.NativeNode) *ggml.Tensor {
			if len(n.Operands) != 1 {
				return nil
			}
			return nativetest.SumSquares(c, n.Operands[0]) // checks the operand, which a client may have forged
		}}}
	})
	for _, op := range ggml.RemoteOps() {
		if op.Name == "sum_squares_of_rows" {
			fmt.Println(op.Name)
		}
	}
	// Output: sum_squares_of_rows
}

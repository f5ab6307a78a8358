package state

import "github.com/goggml/ggml"

// withRows calls f with adjacent rows of x [m, …] on the device. It is for work outside of graphs; no data passes
// through the host.
func withRows(x *ggml.Tensor, first int64, n int, f func(rows *ggml.Tensor) error) error {
	c := ggml.NewContext()
	defer c.Close()
	rows := c.View(x, []int64{x.Dim(0), int64(n)}, []int64{x.Stride(1)}, first*x.Stride(1))
	if err := c.Err(); err != nil {
		return err
	}
	return f(rows)
}

// copyRows copies n rows within x.
func copyRows(x *ggml.Tensor, dst, src int64, n int) error {
	return withRows(x, dst, n, func(to *ggml.Tensor) error {
		return withRows(x, src, n, func(from *ggml.Tensor) error { return ggml.CopyTensor(to, from) })
	})
}

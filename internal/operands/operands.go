// Package operands fills tensors and times ops on them.
package operands

import (
	"math/rand/v2"

	"github.com/goggml/ggml"
)

// Fill writes a few random rows repeatedly: with zeros, devices draw less power and clock higher.
func Fill(t *ggml.Tensor) error {
	rng, row := rand.New(rand.NewPCG(1, 1)), t.Dim(0)
	rows := min(t.Dim(1), 64)
	values := make([]float32, rows*row)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	raw := make([]byte, rows*t.Type().RowSize(row))
	if err := ggml.Quantize(raw, t.Type(), values, ggml.QuantizeOptions{RowLen: int(row)}); err != nil {
		return err
	}
	for at := int64(0); at < t.NumBytes(); at += int64(len(raw)) {
		if _, err := t.WriteAt(raw[:min(int64(len(raw)), t.NumBytes()-at)], at); err != nil {
			return err
		}
	}
	return nil
}

package lora

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// blockValues is the number of a tensor's values in memory as F32 at a time: a matrix can have a thousand times as
// many.
const blockValues = 1 << 21

// A mergeWriter computes the data of merged tensors while they are written.
type mergeWriter struct {
	ctx     context.Context
	options MergeOptions
	total   int64 // bytes of all tensors
}

// source returns a function that writes the data of a tensor, in blocks of rows; done counts the bytes written
// before it.
func (w *mergeWriter) source(o output, done int64) func(io.Writer) error {
	return func(file io.Writer) error {
		b, err := newBlocks(w, &o)
		if err != nil {
			return err
		}
		defer b.engine.Close()
		rows, done := o.from.NumRows(), done
		for from := int64(0); from < rows; from += b.rows {
			if err := context.Cause(w.ctx); err != nil {
				return err
			}
			data, err := b.next(from, min(b.rows, rows-from))
			if err != nil {
				return err
			}
			n, err := file.Write(data)
			if err != nil {
				return err
			}
			done += int64(n)
			if w.options.Progress != nil {
				w.options.Progress(done, w.total)
			}
		}
		return nil
	}
}

// blocks computes a tensor in blocks of rows.
type blocks struct {
	w      *mergeWriter
	o      *output
	engine *device.Engine // nil if there is no product to compute
	rows   int64          // rows per block
	first  int64          // first row of the current block
	stored []byte         // the block's bytes in the base
	values []float32      // the block in F32
	delta  []float32      // change to add to values
	merged []byte         // the block in the result's type
}

func newBlocks(w *mergeWriter, o *output) (*blocks, error) {
	rowLen := o.from.Dim(0)
	rows := min(max(1, blockValues/rowLen), o.from.NumRows())
	b := &blocks{w: w, o: o, rows: rows, stored: make([]byte, o.from.Type().RowSize(rowLen)*rows), values: make([]float32, rowLen*rows)}
	if o.unchanged() {
		return b, nil
	}
	b.merged = make([]byte, o.info.Type.RowSize(rowLen)*rows)
	if len(o.pairs) == 0 {
		return b, nil
	}
	b.delta = make([]float32, rowLen*rows)
	var err error
	if b.engine, err = device.NewCPU(w.options.Threads); err != nil {
		return nil, err
	}
	for _, p := range o.pairs {
		if err := b.engine.Check(-1, "", p.A, p.B); err != nil {
			b.engine.Close()
			return nil, err
		}
	}
	return b, nil
}

// next returns n rows of the result, valid until the next call.
func (b *blocks) next(from, n int64) ([]byte, error) {
	stride := b.o.from.Type().RowSize(b.o.from.Dim(0))
	stored := b.stored[:n*stride]
	if _, err := b.o.from.ReadAt(stored, from*stride); err != nil {
		return nil, err
	}
	b.first = from
	if b.o.unchanged() {
		return stored, b.convert(n)
	}
	if b.engine != nil {
		if err := b.multiply(from, n); err != nil {
			return nil, err
		}
	}
	return b.merged[:n*b.o.info.Type.RowSize(b.o.from.Dim(0))], b.convert(n)
}

// multiply computes n rows of Σ scale·B·A into b.delta, expert by expert.
func (b *blocks) multiply(from, n int64) error {
	rows := b.o.from.Dim(1) // per expert
	for begin, end := from, from+n; begin < end; {
		next := min(end, (begin/rows+1)*rows)
		if err := b.multiplyRows(begin, next-begin, b.delta[(begin-from)*b.o.from.Dim(0):]); err != nil {
			return err
		}
		begin = next
	}
	return nil
}

// multiplyRows computes n rows of one expert.
func (b *blocks) multiplyRows(from, n int64, delta []float32) error {
	c := ggml.NewContext()
	defer c.Close()
	factor := float32(1)
	if b.o.factors != nil {
		factor = b.o.factors[from/b.o.from.Dim(1)]
	}
	var sum *ggml.Tensor
	for _, p := range b.o.pairs {
		d := c.Scale(product(c, b.o.base, p, from, n), p.Scale/factor)
		if sum != nil {
			d = c.Add(sum, d)
		}
		sum = d
	}
	g := c.NewGraph(sum)
	if err := b.engine.Allocate(g); err != nil {
		return err
	}
	if err := b.engine.Compute(b.w.ctx, g); err != nil {
		return err
	}
	return ggml.ReadInto(delta[:n*b.o.from.Dim(0)], sum)
}

// product returns n rows of B·A of one expert, [n_in, n]. Rows are taken from the factor that the model multiplies
// last (B), or from the one it looks up (A).
func product(c *ggml.Context, base string, p model.LoRAPair, from, n int64) *ggml.Tensor {
	rows := func(t *ggml.Tensor) *ggml.Tensor {
		rank := t.Dim(0)
		return c.View(t, []int64{rank, n}, nil, from*rank*4)
	}
	if base == tokenEmbd {
		return kernels.GEMM(c, ggml.PrecisionF32, kernels.Pair{W: p.B, X: rows(p.A)})
	}
	a := p.A
	if a.Dim(2) > 1 {
		a = c.View(a, []int64{a.Dim(0), a.Dim(1)}, []int64{a.Stride(1)}, from/p.B.Dim(1)*a.Stride(2))
	}
	return kernels.GEMMGradInput(c, ggml.PrecisionF32, kernels.Pair{W: a, X: rows(p.B)})
}

// convert converts n rows of b.stored, plus b.delta, into b.merged. It validates rows that do not change.
func (b *blocks) convert(n int64) error {
	var group errgroup.Group
	threads := min(n, int64(b.w.options.Threads))
	for i := range threads {
		from, to := n*i/threads, n*(i+1)/threads
		if from < to {
			group.Go(func() error { return b.convertRows(from, to) })
		}
	}
	return group.Wait()
}

func (b *blocks) convertRows(from, to int64) error {
	rowLen, source, target := b.o.from.Dim(0), b.o.from.Type(), b.o.info.Type
	values := b.values[from*rowLen : to*rowLen]
	stored := b.stored[from*source.RowSize(rowLen) : to*source.RowSize(rowLen)]
	if !source.CanDequantize() && b.o.unchanged() {
		return nil
	}
	if err := ggml.Dequantize(values, source, stored); err != nil {
		return err
	}
	for i, x := range values {
		if !finite(x) {
			return fmt.Errorf("value %d of row %d of the base is %v; values must be finite: take an undamaged file of the model", int64(i)%rowLen, b.first+from+int64(i)/rowLen, x)
		}
	}
	if b.o.unchanged() {
		return nil
	}
	if b.delta != nil {
		for i, d := range b.delta[from*rowLen : to*rowLen] {
			values[i] += d
		}
	}
	merged := b.merged[from*target.RowSize(rowLen) : to*target.RowSize(rowLen)]
	return ggml.Quantize(merged, target, values, ggml.QuantizeOptions{RowLen: int(rowLen), Importance: b.o.importance})
}

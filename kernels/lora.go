package kernels

// #include "gemm.h"
// #include "lora.h"
// #include "low_rank.h"
import "C"

import (
	"math"
	"slices"
	"unsafe"

	"github.com/goggml/ggml"
)

// A LoRAPair is the second half of a low-rank adapter (arXiv 2106.09685): its factor B [m, r], in
// F32, F16 or BF16, contiguous and in the order of [PackLoRA], and the result of the first half, H
// = A·X [r, n], with contiguous rows and any row stride.
//
// HType is the type to which an F32 H is rounded first: F32, the zero value, leaves it unchanged;
// with F16 or BF16 the product equals [ggml.Context.MulMat] with a B of that type. All pairs of a
// product have the same HType.
type LoRAPair struct {
	B, H  *ggml.Tensor
	HType ggml.Type
}

// The number of pairs that fit into MaxOperands beside Y, or beside W and X.
const (
	maxUpdatePairs = (ggml.MaxOperands - 1) / 2
	maxLoRAPairs   = (ggml.MaxOperands - 2) / 2
)

var (
	loraUpdate = &ggml.NativeOp{
		Name: "lora_update", Func: unsafe.Pointer(C.kern_op_lora_update),
		FLOPs: func(_ shape, operands []shape) float64 { return loraFLOPs(operands[1:]) },
	}
	gemmLoRA = &ggml.NativeOp{
		Name: "gemm_lora", Func: unsafe.Pointer(C.kern_op_gemm_lora),
		FLOPs: func(y shape, operands []shape) float64 {
			return 2*elements(y)*float64(operands[0][0]) + loraFLOPs(operands[2:])
		},
	}
)

// PackLoRA packs a factor B [m, r] in the order in which it is multiplied: panels of 64 rows, each
// with its columns one after another. The last panel has the remaining rows. An incomplete last
// column is dropped.
func PackLoRA(b []float32, m int) []float32 {
	if m < 1 || m > len(b) {
		return nil
	}
	b = b[:len(b)/m*m]
	packed := make([]float32, 0, len(b))
	for first := 0; first < m; first += C.KERN_PANEL {
		for column := range slices.Chunk(b, m) {
			packed = append(packed, column[first:min(first+C.KERN_PANEL, m)]...)
		}
	}
	return packed
}

func loraFLOPs(pairs []shape) float64 {
	sum := 0.0
	for i := 0; i+1 < len(pairs); i += 2 {
		sum += 2 * elements(pairs[i]) * float64(pairs[i+1][1])
	}
	return sum
}

// AddLoRA adds the products of low-rank factors to Y [m, n] in place, and returns a view of it:
//
//	Y += B·H
//
// The pairs cover consecutive ranges of Y's rows, and together all of them. Y and H are F32 with
// contiguous rows.
//
// [ggml.Context.MulMat] is slow at such short sums. It is one op of the CPU backend for every four
// pairs, which uses the [GEMMLibrary] from eight columns on. Zeros at the ends of a column of H cost
// nothing if they are at least half of H, as when each column uses one of several adapters. It has no backward for
// [ggml.Graph.Backward].
func AddLoRA(c *ggml.Context, y *ggml.Tensor, pairs ...LoRAPair) *ggml.Tensor {
	return addLoRA(c, y, pairs, 0)
}

// addLoRA is AddLoRA for pairs that begin at row first of y.
func addLoRA(c *ggml.Context, y *ggml.Tensor, pairs []LoRAPair, first int64) *ggml.Tensor {
	part := pairs[:min(len(pairs), maxUpdatePairs)]
	y = c.BuildOp(loraUpdate.Name, loraOperands([]*ggml.Tensor{y}, part), func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLibrary(b)
		b.RequireType("Y", y, ggml.F32)
		b.RequireContiguousRows("Y", y)
		b.Require(y.NumDims() <= 2, "Y must be a matrix")
		requireLeadingDimension(b, y)
		requireLoRA(b, part, y.Dim(1))
		requireRows(b, "Y", y.Dim(0), first+loraRows(pairs))
		for _, p := range part {
			b.RequireType("H", p.H, ggml.F32)
			b.RequireNoOverlap(y, p.B, p.H)
		}
		if !b.OK() {
			return nil
		}
		return b.NativeInPlace(loraUpdate, params(C.struct_kern_lora_params{first: C.int64_t(first), h_type: C.int32_t(pairs[0].HType)}))
	})
	if rest := pairs[len(part):]; len(rest) > 0 {
		return addLoRA(c, y, rest, first+loraRows(part))
	}
	return y
}

// GEMMLoRA is [GEMM] of one pair plus low-rank adapters; it is faster than [AddLoRA] of its result:
//
//	W [k, m], X [k, n], B [mᵢ, r], H [r, n] → Wᵀ·X + B·H [m, n], F32
//
// The LoRA pairs cover consecutive ranges of the result's rows, and together all of them. X and H
// are F32 or BF16; W is converted to the type of X, and B to the type of H. W and X are contiguous,
// and acc limits the precision loss as in GEMM.
//
// It is one op of the CPU backend for every three LoRA pairs; without a [GEMMLibrary] it is
// composed of GEMM and AddLoRA. It has no backward for [ggml.Graph.Backward].
func GEMMLoRA(c *ggml.Context, acc ggml.Precision, product Pair, pairs ...LoRAPair) *ggml.Tensor {
	w, x := product.W, product.X
	if len(pairs) > maxLoRAPairs {
		return gemmLoRAInParts(c, acc, product, pairs)
	}
	return c.BuildOp(gemmLoRA.Name, loraOperands([]*ggml.Tensor{w, x}, pairs), func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLibrary(b)
		requireAccumulation(b, acc)
		requireMatrices(b, product)
		requireLoRA(b, pairs, x.Dim(1))
		requireRows(b, "W", w.Dim(1), loraRows(pairs))
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return AddLoRA(c, GEMM(c, acc, product), pairs...) })
		}
		return b.Native(gemmLoRA, gemmParams(acc, pairs[0].HType), ggml.F32, w.Dim(1), x.Dim(1))
	})
}

// gemmLoRAInParts splits W by rows, so that each part has as many pairs as one op takes.
func gemmLoRAInParts(c *ggml.Context, acc ggml.Precision, product Pair, pairs []LoRAPair) *ggml.Tensor {
	w, x := product.W, product.X
	return c.BuildOp(gemmLoRA.Name, []*ggml.Tensor{w, x}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireMatrices(b, product)
		requireRows(b, "W", w.Dim(1), loraRows(pairs))
		if !b.OK() {
			return nil
		}
		return b.Compose(func() *ggml.Tensor {
			var y *ggml.Tensor
			first := int64(0)
			for part := range slices.Chunk(pairs, maxLoRAPairs) {
				rows := loraRows(part)
				view := c.View(w, []int64{w.Dim(0), rows}, nil, first*w.Stride(1))
				z := GEMMLoRA(c, acc, Pair{W: view, X: x}, part...)
				if y != nil {
					z = c.Concat(y, z, 0)
				}
				y = z
				first += rows
			}
			return y
		})
	})
}

// requireMatrices checks the operands of a product with LoRA pairs.
func requireMatrices(b *ggml.OpBuilder, product Pair) {
	forward.require(b, []Pair{product}, product)
	b.Require(product.W.NumDims() <= 2 && product.X.NumDims() <= 2, "W and X must be matrices")
}

// loraRows returns the number of rows that the pairs cover.
func loraRows(pairs []LoRAPair) (rows int64) {
	for _, p := range pairs {
		rows += p.B.Dim(0)
	}
	return rows
}

func loraOperands(first []*ggml.Tensor, pairs []LoRAPair) []*ggml.Tensor {
	for _, p := range pairs {
		first = append(first, p.B, p.H)
	}
	return first
}

// requireLoRA checks pairs with the given number of columns.
func requireLoRA(b *ggml.OpBuilder, pairs []LoRAPair, columns int64) {
	b.Require(len(pairs) > 0, "there are no LoRA pairs to add")
	for _, p := range pairs {
		b.RequireType("B", p.B, ggml.F32, ggml.F16, ggml.BF16)
		requireFactor(b, "H", p.H)
		requireHType(b, p, pairs[0].HType)
		b.RequireContiguous("B", p.B)
		b.RequireContiguousRows("H", p.H)
		b.Require(p.B.NumDims() <= 2 && p.H.NumDims() <= 2, "B and H must be matrices")
		b.Require(p.H.Dim(0) == p.B.Dim(1), "ne0 of H must be ne1 of B: they are %d and %d", p.H.Dim(0), p.B.Dim(1))
		b.Require(p.H.Dim(1) == columns, "H must have %d columns, it has %d", columns, p.H.Dim(1))
		requireLeadingDimension(b, p.H)
	}
}

// requireHType checks the type to which H is rounded.
func requireHType(b *ggml.OpBuilder, p LoRAPair, first ggml.Type) {
	switch p.HType {
	case ggml.F32:
	case ggml.F16, ggml.BF16:
		b.RequireType("H", p.H, ggml.F32)
	default:
		b.Require(false, "HType is %v; it must be f32, f16 or bf16", p.HType)
	}
	b.Require(p.HType == first, "HType must be the same for all pairs: it is %v and %v", first, p.HType)
}

func requireRows(b *ggml.OpBuilder, what string, rows, products int64) {
	b.Require(rows == products, "%s has %d rows, the products have %d", what, rows, products)
}

// requireLeadingDimension requires that the columns of a matrix do not overlap, and that a GEMM
// library can represent the leading dimension.
func requireLeadingDimension(b *ggml.OpBuilder, t *ggml.Tensor) {
	stride := t.Stride(1)
	b.Require(t.Dim(1) == 1 || stride >= t.Type().RowSize(t.Dim(0)), "rows must not overlap")
	b.Require(t.Dim(1) == 1 || stride/t.Type().BlockBytes() <= math.MaxInt32, "rows are %d bytes apart, which is too much", stride)
}

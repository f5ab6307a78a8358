package kernels

// #include "delta_rule.h"
import "C"

import (
	"math"
	"slices"
	"unsafe"

	"github.com/goggml/ggml"
)

// DeltaRule holds the operands of [GatedDeltaRule]: rows of n tokens, where value head h uses key head
// h mod k heads. All are F32 and contiguous; Q, K and V need contiguous rows only.
type DeltaRule struct {
	Q, K *ggml.Tensor // [size, k heads, n, rows]
	Read *ggml.Tensor // keys by which tokens read the state, of K's shape; nil: K
	V    *ggml.Tensor // [size, heads, n, rows]
	G    *ggml.Tensor // [heads, n, rows]; [size, heads, n, rows]: each channel of a key has its own, at most 0
	Beta *ggml.Tensor // [heads, n, rows]
	// Starts I32 [n, rows], contiguous, is the first token of each token's sample. A sample begins
	// at a token whose value is its own index or more. nil stands for one sample a row.
	Starts *ggml.Tensor
	// State [size, size, heads, rows], F32 and contiguous, holds the states before the first tokens, with keys in ne0; nil: they are 0.
	State *ggml.Tensor
	// BF16 rounds the operands of products to BF16 if they are computed by chunks; sums and states stay F32. It needs [HasBF16].
	BF16 bool
	// Unit, if not 0, divides each vector x of Q and K by √(‖x‖² + Unit) first. It needs a rule computed by chunks.
	Unit float32
}

// Chunked reports whether the rule is computed by chunks of 64 tokens, as products of matrices (arXiv 2406.06484): if the
// [GEMMLibrary] is there, G is one number a token, and size and n are at least 32. Other rules are computed token by token.
func (d DeltaRule) Chunked() bool {
	const least = 32
	return hasLibrary() && d.G.NumElements() == d.Beta.NumElements() && min(d.V.Dim(0), d.V.Dim(2)) >= least
}

// operands are those that there are, after the given ones, and the parameters that say so.
func (d DeltaRule) operands(first ...*ggml.Tensor) (operands, C.struct_kern_delta_rule_params) {
	all := operands(first)
	all.add(d.Q, d.K, d.V, d.G, d.Beta)
	p := C.struct_kern_delta_rule_params{starts: all.addOptional(d.Starts), read: all.addOptional(d.Read), state: all.addOptional(d.State)}
	if d.BF16 {
		p.bf16 = 1
	}
	p.unit = C.float(d.Unit)
	return all, p
}

var (
	gatedDeltaRule = &ggml.NativeOp{
		Name: "gated_delta_rule", Func: unsafe.Pointer(C.kern_op_gated_delta_rule),
		FLOPs: func(_ shape, operands []shape) float64 { return 7 * elements(operands[2]) * float64(operands[2][0]) },
	}
	gatedDeltaRuleGrad = &ggml.NativeOp{
		Name: "gated_delta_rule_grad", Func: unsafe.Pointer(C.kern_op_gated_delta_rule_grad),
		FLOPs: func(_ shape, operands []shape) float64 { return 24 * elements(operands[0]) * float64(operands[0][0]) },
	}
)

// GatedDeltaRule returns y [size, heads, n, rows] of the gated delta rule (arXiv 2412.06464), contiguous. Each head
// has a matrix S, which is zero at the start of a sample; for each token
//
//	S ← exp(g)·S,  S ← S + β·k·(v − Sᵀ·read)ᵀ,  y = Sᵀ·q / √size
//
// If each channel has its own g, exp(g) multiplies the rows of S (Kimi delta attention, arXiv 2510.26692). With State the
// result is one row: y, followed by the states after the last tokens in State's shape.
//
// As many threads compute as there are heads, or blocks of 64 columns of all states if the rule is not [DeltaRule.Chunked]. The
// time grows with n and no faster, and the result does not depend on the number of threads. It is an op of the CPU backend,
// and has no backward for [ggml.Graph.Backward]; the gradients are [GatedDeltaRuleGrad].
func GatedDeltaRule(c *ggml.Context, d DeltaRule) *ggml.Tensor {
	all, p := d.operands()
	return c.BuildOp(gatedDeltaRule.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		if requireDeltaRule(b, d, &p); !b.OK() {
			return nil
		}
		if d.State != nil {
			return b.Native(gatedDeltaRule, params(p), ggml.F32, d.V.NumElements()+d.State.NumElements())
		}
		return b.Native(gatedDeltaRule, params(p), ggml.F32, d.V.Dim(0), d.V.Dim(1), d.V.Dim(2), d.V.Dim(3))
	})
}

// GatedDeltaRuleGrad returns the gradients of Q, K, V, G and Beta in [GatedDeltaRule], and of Read if there is one, given the
// gradient dY [size, heads, n, rows] of the result, F32 and contiguous. They have the shapes of their operands and are
// contiguous. But if Q, K and V of each token lie side by side, as the parts of one tensor [2·size·k heads + size·heads, n, rows],
// then dQ, dK and dV do, too.
//
// States are computed again: each thread keeps one for a chunk of 64 tokens, or token by token one for 32 and 32 at a time.
// The heads of keys are shared between threads. The gradients have no backward.
func GatedDeltaRuleGrad(c *ggml.Context, dy *ggml.Tensor, d DeltaRule) (dq, dk, dv, dg, dbeta, dread *ggml.Tensor) {
	operands, p := d.operands(dy)
	ok := false
	all := c.BuildOp(gatedDeltaRuleGrad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireDeltaRule(b, d, &p)
		requireF32(b, "dY", dy)
		b.Require(d.State == nil, "a rule with State has no gradients")
		b.RequireSameShape(dy, d.V)
		if ok = b.OK(); !ok {
			return nil
		}
		total := 2*d.Q.NumElements() + d.V.NumElements() + d.G.NumElements() + d.Beta.NumElements()
		if d.Read != nil {
			total += d.Read.NumElements()
		}
		return b.Native(gatedDeltaRuleGrad, params(p), ggml.F32, total)
	})
	if !ok {
		return all, all, all, all, all, all
	}
	at := int64(0)
	next := func(like *ggml.Tensor) *ggml.Tensor {
		x := c.View(all, like.Shape(), nil, at*ggml.F32.BlockBytes())
		at += like.NumElements()
		return x
	}
	beside := func(like *ggml.Tensor) *ggml.Tensor {
		x := c.View(all, like.Shape(), []int64{like.Stride(1), like.Stride(2), like.Stride(3)}, at*ggml.F32.BlockBytes())
		at += like.Dim(0) * like.Dim(1)
		return x
	}
	if p.beside != 0 {
		dq, dk, dv = beside(d.Q), beside(d.K), beside(d.V)
		at *= d.V.Dim(2) * d.V.Dim(3)
	} else {
		dq, dk, dv = next(d.Q), next(d.K), next(d.V)
	}
	dg, dbeta = next(d.G), next(d.Beta)
	if d.Read != nil {
		dread = next(d.Read)
	}
	return dq, dk, dv, dg, dbeta, dread
}

// beside reports whether Q, K and V have the strides of parts of one tensor [2·size·k heads + size·heads, n, rows].
func (d DeltaRule) beside() bool {
	width := 2*d.K.Dim(0)*d.K.Dim(1) + d.V.Dim(0)*d.V.Dim(1)
	return !slices.ContainsFunc([]*ggml.Tensor{d.Q, d.K, d.V}, func(x *ggml.Tensor) bool {
		return x.Stride(1) != x.Dim(0)*x.Stride(0) || x.Stride(2) != width*x.Stride(0) || x.Stride(3) != x.Dim(2)*x.Stride(2)
	})
}

// requireDeltaRule checks the operands, and says in the parameters how the rule is computed.
func requireDeltaRule(b *ggml.OpBuilder, d DeltaRule, p *C.struct_kern_delta_rule_params) {
	for i, x := range []*ggml.Tensor{d.Q, d.K, d.V} {
		what := string("QKV"[i])
		b.RequireType(what, x, ggml.F32)
		b.RequireContiguousRows(what, x)
	}
	requireF32(b, "G", d.G)
	requireF32(b, "Beta", d.Beta)
	b.RequireSameShape(d.Q, d.K)
	b.Require(!d.BF16 || HasBF16(), "BF16 needs a GEMM library and a processor that multiply in BF16")
	if d.Read != nil {
		requireF32(b, "Read", d.Read)
		b.RequireSameShape(d.Read, d.K)
	}
	k, v := d.K, d.V
	if d.State != nil {
		requireF32(b, "State", d.State)
		b.Require(shapeOf(d.State) == [4]int64{v.Dim(0), v.Dim(0), v.Dim(1), v.Dim(3)}, "State must be [size, size, heads, rows] of V")
	}
	b.Require(k.Dim(0) == v.Dim(0) && k.Dim(2) == v.Dim(2) && k.Dim(3) == v.Dim(3), "K and V must be equal but in ne1")
	b.Require(v.Dim(1)%k.Dim(1) == 0, "ne1 of V must be a multiple of ne1 of K: they are %d and %d", v.Dim(1), k.Dim(1))
	b.Require(max(v.Dim(0), v.Dim(2)) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
	requireChunks(b, float64(v.Dim(1))*float64(v.Dim(3))*float64(v.Dim(0)))
	want := [4]int64{v.Dim(1), v.Dim(2), v.Dim(3), 1}
	b.Require((shapeOf(d.G) == want || shapeOf(d.G) == shapeOf(v)) && shapeOf(d.Beta) == want, "Beta must be [heads, n, rows] of V, %v, and G like Beta or like V", want)
	if d.Starts != nil {
		b.RequireType("Starts", d.Starts, ggml.I32)
		b.RequireContiguous("Starts", d.Starts)
		b.Require(shapeOf(d.Starts) == [4]int64{v.Dim(2), v.Dim(3), 1, 1}, "Starts must be [n, rows] of V, [%d, %d]", v.Dim(2), v.Dim(3))
	}
	if d.Chunked() {
		p.chunks = 1
	}
	if d.beside() {
		p.beside = 1
	}
	b.Require(d.Unit >= 0 && !math.IsInf(float64(d.Unit), 0), "Unit is %v; it must be 0 or a positive number", d.Unit)
	b.Require(d.Unit == 0 || p.chunks != 0, "a rule with Unit must be computed by chunks: it needs a GEMM library, at least 32 tokens of at least 32 elements, and one g a token")
}

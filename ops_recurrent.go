package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// contiguousF32 requires contiguous F32 operands of one shape.
func (op *opCall) contiguousF32(shape [4]int64, operands ...*Tensor) {
	op.shaped(shape, operands...)
	for _, t := range operands {
		op.contiguous("each operand", t)
	}
}

// shaped requires F32 operands of a shape.
func (op *opCall) shaped(shape [4]int64, operands ...*Tensor) {
	for _, t := range operands {
		op.types("each operand", t, F32)
		if op.arena != nil && t.ne != shape {
			op.require(false, "%s must have the shape %v", t.String(), shape)
		}
	}
}

// heads checks the operands of a recurrent layer with a square state for each
// head: xs [n, heads, tokens], state [n·n·heads, sequences].
func (op *opCall) heads(state *Tensor, xs ...*Tensor) {
	if op.arena == nil {
		return
	}
	shape := xs[0].ne
	op.contiguousF32(shape, xs...)
	op.types("state", state, F32)
	op.contiguous("state", state)
	if op.arena == nil {
		return
	}
	n, heads, tokens, sequences := shape[0], shape[1], shape[2], state.ne[1]
	op.require(shape[3] == 1, "the operands must be [n, heads, tokens]")
	op.require(state.NumDims() <= 2 && float64(state.ne[0]) == float64(n)*float64(n)*float64(heads), "the state must be [n·n·heads, sequences], which is [%d, …]", n*n*heads)
	op.require(tokens%sequences == 0, "the %d tokens are not a multiple of the %d sequences", tokens, sequences)
}

// RWKV6Operands are the operands of [Context.RWKV6], contiguous F32.
type RWKV6Operands struct {
	K, V, R   *Tensor // [n, heads, tokens]
	TimeFirst *Tensor // [n, heads]
	TimeDecay *Tensor // [n, heads, tokens]
	State     *Tensor // [n·n·heads, sequences]
}

// RWKV6 is the recurrence of RWKV 6 in each head, with a state S [n, n]:
//
//	y[t] = R[t]·(S + diag(TimeFirst)·K[t]ᵀ·V[t]), S ← diag(TimeDecay[t])·S + K[t]ᵀ·V[t]
//	→ [n·heads, tokens + n·sequences]: the rows of y, then the new states
//
// tokens is a multiple of the number of sequences, which are stored one after another. It has no
// backward. C: ggml_rwkv_wkv6.
func (c *Context) RWKV6(o RWKV6Operands) *Tensor {
	op := c.begin("rwkv_wkv6", o.K, o.V, o.R, o.TimeFirst, o.TimeDecay, o.State)
	op.heads(o.State, o.K, o.V, o.R, o.TimeDecay)
	op.types("first", o.TimeFirst, F32)
	op.contiguous("first", o.TimeFirst)
	if op.arena != nil {
		op.require(o.TimeFirst.NumElements() == o.K.ne[0]*o.K.ne[1], "first must have %d elements, one for each of a token", o.K.ne[0]*o.K.ne[1])
	}
	return op.done(C.goggml_op_rwkv_wkv6(op.arena, o.K.ptr(), o.V.ptr(), o.R.ptr(), o.TimeFirst.ptr(), o.TimeDecay.ptr(), o.State.ptr()))
}

// RWKV7Operands are the operands of [Context.RWKV7], contiguous F32.
type RWKV7Operands struct {
	R, W, K, V, A, B *Tensor // [n, heads, tokens]
	State            *Tensor // [n·n·heads, sequences]
}

// RWKV7 is the recurrence of RWKV 7 in each head, with a state S [n, n]:
//
//	S ← S·diag(W[t]) + (S·A[t])·B[t]ᵀ + V[t]·K[t]ᵀ, y[t] = S·R[t]
//	→ [n·heads, tokens + n·sequences]: the rows of y, then the new states
//
// n is a multiple of 64: the CPU processes whole registers. tokens is a multiple of the number of
// sequences, which are stored one after another. It has no backward. C: ggml_rwkv_wkv7.
func (c *Context) RWKV7(o RWKV7Operands) *Tensor {
	op := c.begin("rwkv_wkv7", o.R, o.W, o.K, o.V, o.A, o.B, o.State)
	op.heads(o.State, o.R, o.W, o.K, o.V, o.A, o.B)
	if op.arena != nil {
		op.require(o.R.ne[0]%64 == 0, "ne0 is %d; it must be a multiple of 64", o.R.ne[0])
	}
	return op.done(C.goggml_op_rwkv_wkv7(op.arena, o.R.ptr(), o.W.ptr(), o.K.ptr(), o.V.ptr(), o.A.ptr(), o.B.ptr(), o.State.ptr()))
}

// GatedLinearAttentionOperands are the operands of
// [Context.GatedLinearAttention], contiguous F32.
type GatedLinearAttentionOperands struct {
	K, V, Q, G *Tensor // [n, heads, tokens]
	State      *Tensor // [n·n·heads, sequences]
	Scale      float32 // factor of Q; 0 means 1/√n
}

// GatedLinearAttention is the following recurrence in each head, with a state S [n, n]:
//
//	S ← diag(G[t])·S + K[t]ᵀ·V[t], y[t] = Scale·Q[t]·S
//	→ [n·heads, tokens + n·sequences]: the rows of y, then the new states
//
// tokens is a multiple of the number of sequences, which are stored one after another. It has no
// backward. C: ggml_gated_linear_attn.
func (c *Context) GatedLinearAttention(o GatedLinearAttentionOperands) *Tensor {
	op := c.begin("gated_linear_attn", o.K, o.V, o.Q, o.G, o.State)
	op.heads(o.State, o.K, o.V, o.Q, o.G)
	if o.Scale == 0 {
		o.Scale = float32(1 / math.Sqrt(float64(o.K.Dim(0))))
	}
	return op.done(C.goggml_op_gated_linear_attn(op.arena, o.K.ptr(), o.V.ptr(), o.Q.ptr(), o.G.ptr(), o.State.ptr(), C.float(o.Scale)))
}

// SSMConv is the convolution of each channel with its own kernel, as in Mamba; the channels are the
// fastest dimension of the result:
//
//	x [k − 1 + tokens, channels, sequences], kernel [k, channels]
//	→ [channels, tokens, sequences]
//
// Both are contiguous F32. It has no backward. C: ggml_ssm_conv.
func (c *Context) SSMConv(x, kernel *Tensor) *Tensor {
	op := c.begin("ssm_conv", x, kernel)
	op.types("x", x, F32)
	op.types("kernel", kernel, F32)
	op.canonicalStrides("x", x)
	op.canonicalStrides("kernel", kernel)
	if op.arena != nil {
		op.require(x.ne[3] == 1 && kernel.NumDims() <= 2, "x has at most 3 dimensions, the kernel 2")
		op.require(x.ne[1] == kernel.ne[1], "the channels differ: ne1 of x is %d, of the kernel %d", x.ne[1], kernel.ne[1])
		op.require(x.ne[0] >= kernel.ne[0], "ne0 of x is %d, less than the kernel's %d", x.ne[0], kernel.ne[0])
		op.require(x.NumElements() < math.MaxInt32, "x has %d elements; the limit is %d", x.NumElements(), math.MaxInt32)
	}
	return op.done(C.goggml_op_ssm_conv(op.arena, x.ptr(), kernel.ptr()))
}

// SSMScanOperands are the operands of [Context.SSMScan]. All but IDs are
// contiguous F32.
type SSMScanOperands struct {
	State *Tensor // [d, n, heads, states]
	X     *Tensor // [n, heads, tokens, sequences]
	DT    *Tensor // [heads, tokens, sequences]
	A     *Tensor // [d or 1, heads]
	B, C  *Tensor // [d, groups, tokens, sequences]; groups divides heads
	IDs   *Tensor // [sequences], I32: the initial state of each sequence
}

// SSMScan is the selective scan of Mamba: in each head, with a state S [d, n] (a row of d elements
// for each of the n elements of X) and dt = softplus(DT[t]),
//
//	S ← exp(dt·A)·S + dt·X[t]·B[t]ᵀ, y[t] = S·C[t]
//
// The result is a vector: y, of X's shape, then the new states [d, n, heads, sequences]. It has no
// backward. C: ggml_ssm_scan.
func (c *Context) SSMScan(o SSMScanOperands) *Tensor { return c.ssmScan(o, false) }

// SSMScanStates is [Context.SSMScan] that returns the states after each token instead of the last
// states alone: y, then [d, n, heads, sequences, tokens], the last token first. A is [1, heads]. It
// has no backward. C: ggml_ssm_scan.
func (c *Context) SSMScanStates(o SSMScanOperands) *Tensor { return c.ssmScan(o, true) }

func (c *Context) ssmScan(o SSMScanOperands, all bool) *Tensor {
	o.IDs = c.inRange(o.IDs, o.State.Dim(3))
	op := c.begin("ssm_scan", o.State, o.X, o.DT, o.A, o.B, o.C, o.IDs)
	for _, t := range []*Tensor{o.State, o.X, o.DT, o.A, o.B, o.C} {
		op.types("each operand but ids", t, F32)
		op.canonicalStrides("each operand", t)
	}
	op.types("ids", o.IDs, I32)
	op.canonicalStrides("ids", o.IDs)
	if op.arena != nil {
		d, n, heads, tokens, sequences := o.State.ne[0], o.X.ne[0], o.X.ne[1], o.X.ne[2], o.X.ne[3]
		op.require(o.State.ne[1] == n && o.State.ne[2] == heads, "state must be [d, %d, %d, …]", n, heads)
		op.require(o.DT.ne == [4]int64{heads, tokens, sequences, 1}, "dt must be [%d, %d, %d]", heads, tokens, sequences)
		op.require((o.A.ne[0] == d || o.A.ne[0] == 1) && o.A.ne[1] == heads && o.A.NumDims() <= 2, "a must be [%d or 1, %d]", d, heads)
		op.require(o.B.ne[0] == d && o.B.ne[2] == tokens && o.B.ne[3] == sequences && heads%o.B.ne[1] == 0, "b must be [%d, groups, %d, %d], and groups divide %d", d, tokens, sequences, heads)
		op.require(o.B.ne == o.C.ne, "b and c must have one shape")
		op.require(o.IDs.NumDims() == 1 && o.IDs.ne[0] == sequences, "ids must have an entry for each of the %d sequences", sequences)
		op.require(!all || o.A.ne[0] == 1, "ne0 of a is %d; it must be 1", o.A.ne[0])
	}
	return op.done(C.goggml_op_ssm_scan(op.arena, o.State.ptr(), o.X.ptr(), o.DT.ptr(), o.A.ptr(), o.B.ptr(), o.C.ptr(), o.IDs.ptr(), o.X.snapshots(all)))
}

// snapshots returns the number of states of each sequence that a recurrence returns: one per token
// (dimension 2), or only the last.
func (t *Tensor) snapshots(all bool) C.int64_t {
	if t == nil || !all {
		return 1
	}
	return C.int64_t(max(1, t.ne[2])) // ne[2] is 0 if the tensor stands for a failure
}

// GatedDeltaNetOperands are the operands of [Context.GatedDeltaNet], F32. Q, K and V
// have contiguous rows; G, Beta and State are contiguous.
type GatedDeltaNetOperands struct {
	Q, K  *Tensor // [n, kHeads, tokens, sequences]
	V     *Tensor // [n, heads, tokens, sequences]; head h takes Q and K of head h mod kHeads
	G     *Tensor // [1 or n, heads, tokens, sequences]
	Beta  *Tensor // [1, heads, tokens, sequences]
	State *Tensor // [n, n, heads, sequences], transposed
}

// GatedDeltaNet is the gated delta rule: in each head, with a state S [n, n],
//
//	S ← diag(exp(G[t]))·S, S ← S + Beta[t]·K[t]·(V[t] − Sᵀ·K[t])ᵀ,
//	y[t] = Sᵀ·Q[t] / √n
//
// The result is the rows [n·heads, tokens·sequences] of y, then the new states, also in rows of
// n·heads. It has no backward. C: ggml_gated_delta_net.
func (c *Context) GatedDeltaNet(o GatedDeltaNetOperands) *Tensor { return c.gatedDeltaNet(o, false) }

// GatedDeltaNetStates is [Context.GatedDeltaNet] that returns the states after each token, the last
// token first, instead of the last states alone. It has no backward. C: ggml_gated_delta_net.
func (c *Context) GatedDeltaNetStates(o GatedDeltaNetOperands) *Tensor {
	return c.gatedDeltaNet(o, true)
}

func (c *Context) gatedDeltaNet(o GatedDeltaNetOperands, all bool) *Tensor {
	op := c.begin("gated_delta_net", o.Q, o.K, o.V, o.G, o.Beta, o.State)
	if op.arena != nil {
		n, heads, tokens, sequences := o.V.ne[0], o.V.ne[1], o.V.ne[2], o.V.ne[3]
		op.shaped(o.V.ne, o.V)
		op.shaped([4]int64{n, o.Q.ne[1], tokens, sequences}, o.Q, o.K)
		op.contiguousRows("q", o.Q)
		op.contiguousRows("k", o.K)
		op.contiguousRows("v", o.V)
		op.require(heads%o.Q.ne[1] == 0, "the %d heads of v are not a multiple of the %d of q and k", heads, o.Q.ne[1])
		gate := int64(1)
		if o.G.ne[0] != 1 {
			gate = n
		}
		op.contiguousF32([4]int64{gate, heads, tokens, sequences}, o.G)
		op.contiguousF32([4]int64{1, heads, tokens, sequences}, o.Beta)
		op.contiguousF32([4]int64{n, n, heads, sequences}, o.State)
	}
	return op.done(C.goggml_op_gated_delta_net(op.arena, o.Q.ptr(), o.K.ptr(), o.V.ptr(), o.G.ptr(), o.Beta.ptr(), o.State.ptr(), o.V.snapshots(all)))
}

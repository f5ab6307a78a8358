package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// packed demands contiguous F32 operands of one shape.
func (op *opCall) packed(shape [4]int64, operands ...*Tensor) {
	op.shaped(shape, operands...)
	for _, t := range operands {
		op.dense("each operand", t)
	}
}

// shaped demands F32 operands of a shape.
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
	op.packed(shape, xs...)
	op.types("state", state, F32)
	op.dense("state", state)
	if op.arena == nil {
		return
	}
	n, heads, tokens, sequences := shape[0], shape[1], shape[2], state.ne[1]
	op.require(shape[3] == 1, "the operands must be [n, heads, tokens]")
	op.require(state.NumDims() <= 2 && float64(state.ne[0]) == float64(n)*float64(n)*float64(heads), "the state must be [n·n·heads, sequences], which is [%d, …]", n*n*heads)
	op.require(tokens%sequences == 0, "the %d tokens are no multiple of the %d sequences", tokens, sequences)
}

// RWKV6 is the recurrence of RWKV 6 in each head, with a state S [n, n]:
//
//	y[t] = r[t]·(S + diag(first)·k[t]ᵀ·v[t]), S ← diag(decay[t])·S + k[t]ᵀ·v[t]
//	k, v, r, decay [n, heads, tokens], first [n, heads], state [n·n·heads, sequences]
//	→ [n·heads, tokens + n·sequences]: the rows of y, and then the new states
//
// tokens is a multiple of the sequences, which follow each other. All are
// contiguous F32. It has no backward. C: ggml_rwkv_wkv6.
func (c *Context) RWKV6(k, v, r, first, decay, state *Tensor) *Tensor {
	op := c.begin("rwkv_wkv6", k, v, r, first, decay, state)
	op.heads(state, k, v, r, decay)
	op.types("first", first, F32)
	op.dense("first", first)
	if op.arena != nil {
		op.require(first.NumElements() == k.ne[0]*k.ne[1], "first must have %d elements, one for each of a token", k.ne[0]*k.ne[1])
	}
	return op.done(C.goggml_op_rwkv_wkv6(op.arena, k.ptr(), v.ptr(), r.ptr(), first.ptr(), decay.ptr(), state.ptr()))
}

// RWKV7 is the recurrence of RWKV 7 in each head, with a state S [n, n]:
//
//	S ← S·diag(w[t]) + (S·a[t])·b[t]ᵀ + v[t]·k[t]ᵀ, y[t] = S·r[t]
//	r, w, k, v, a, b [n, heads, tokens], state [n·n·heads, sequences]
//	→ [n·heads, tokens + n·sequences]: the rows of y, and then the new states
//
// n is a multiple of 64: the CPU takes whole registers. tokens is a multiple of
// the sequences, which follow each other. All are contiguous F32. It has no
// backward. C: ggml_rwkv_wkv7.
func (c *Context) RWKV7(r, w, k, v, a, b, state *Tensor) *Tensor {
	op := c.begin("rwkv_wkv7", r, w, k, v, a, b, state)
	op.heads(state, r, w, k, v, a, b)
	if op.arena != nil {
		op.require(r.ne[0]%64 == 0, "ne0 is %d; it must be a multiple of 64", r.ne[0])
	}
	return op.done(C.goggml_op_rwkv_wkv7(op.arena, r.ptr(), w.ptr(), k.ptr(), v.ptr(), a.ptr(), b.ptr(), state.ptr()))
}

// GatedLinearAttention is, in each head, with a state S [n, n]:
//
//	S ← diag(g[t])·S + k[t]ᵀ·v[t], y[t] = scale·q[t]·S
//	k, v, q, g [n, heads, tokens], state [n·n·heads, sequences]
//	→ [n·heads, tokens + n·sequences]: the rows of y, and then the new states
//
// tokens is a multiple of the sequences, which follow each other. All are
// contiguous F32. It has no backward. C: ggml_gated_linear_attn.
func (c *Context) GatedLinearAttention(k, v, q, g, state *Tensor, scale float32) *Tensor {
	op := c.begin("gated_linear_attn", k, v, q, g, state)
	op.heads(state, k, v, q, g)
	return op.done(C.goggml_op_gated_linear_attn(op.arena, k.ptr(), v.ptr(), q.ptr(), g.ptr(), state.ptr(), C.float(scale)))
}

// SSMConv is the convolution of each channel with a kernel of its own, as in
// Mamba, with the channels fastest in the result:
//
//	x [k − 1 + tokens, channels, sequences], kernel [k, channels]
//	→ [channels, tokens, sequences]
//
// Both are contiguous F32. It has no backward. C: ggml_ssm_conv.
func (c *Context) SSMConv(x, kernel *Tensor) *Tensor {
	op := c.begin("ssm_conv", x, kernel)
	op.types("x", x, F32)
	op.types("kernel", kernel, F32)
	op.fresh("x", x)
	op.fresh("kernel", kernel)
	if op.arena != nil {
		op.require(x.ne[3] == 1 && kernel.NumDims() <= 2, "x has at most 3 dimensions, the kernel 2")
		op.require(x.ne[1] == kernel.ne[1], "the channels differ: ne1 of x is %d, of the kernel %d", x.ne[1], kernel.ne[1])
		op.require(x.ne[0] >= kernel.ne[0], "ne0 of x is %d, less than the kernel's %d", x.ne[0], kernel.ne[0])
		op.require(x.NumElements() < math.MaxInt32, "x has %d elements; the limit is %d", x.NumElements(), math.MaxInt32)
	}
	return op.done(C.goggml_op_ssm_conv(op.arena, x.ptr(), kernel.ptr()))
}

// SSMScan is the selective scan of Mamba: in each head, with a state S of a row
// of d elements for each of the n elements of x, and dt softplus(dt[t]),
//
//	S ← exp(dt·a)·S + dt·x[t]·b[t]ᵀ, y[t] = S·c[t]
//	state [d, n, heads, states], x [n, heads, tokens, sequences],
//	dt [heads, tokens, sequences], a [d or 1, heads],
//	b, c [d, groups, tokens, sequences], ids [sequences] (I32)
//
// ids are the states with which the sequences start; groups divides heads. The
// result is a vector: first y, of x's shape, then the new states
// [d, n, heads, sequences]. All but ids are contiguous F32. It has no
// backward. C: ggml_ssm_scan.
func (c *Context) SSMScan(state, x, dt, a, b, cc, ids *Tensor) *Tensor {
	ids = c.inRange(ids, state.Dim(3))
	op := c.ssmScan(state, x, dt, a, b, cc, ids)
	return op.done(C.goggml_op_ssm_scan(op.arena, state.ptr(), x.ptr(), dt.ptr(), a.ptr(), b.ptr(), cc.ptr(), ids.ptr(), 1))
}

// SSMScanStates is [Context.SSMScan] with the states after each token in the
// result, in place of the last ones alone: y, and then
// [d, n, heads, sequences, tokens], the last token first. a is [1, heads]. It has
// no backward. C: ggml_ssm_scan.
func (c *Context) SSMScanStates(state, x, dt, a, b, cc, ids *Tensor) *Tensor {
	ids = c.inRange(ids, state.Dim(3))
	op := c.ssmScan(state, x, dt, a, b, cc, ids)
	if op.arena != nil {
		op.require(a.ne[0] == 1, "ne0 of a is %d; it must be 1", a.ne[0])
	}
	return op.done(C.goggml_op_ssm_scan(op.arena, state.ptr(), x.ptr(), dt.ptr(), a.ptr(), b.ptr(), cc.ptr(), ids.ptr(), x.tokens()))
}

// tokens is the size of dimension 2, 1 of a tensor that stands for a failure.
func (t *Tensor) tokens() C.int64_t {
	if t == nil {
		return 1
	}
	return C.int64_t(max(1, t.ne[2]))
}

func (c *Context) ssmScan(state, x, dt, a, b, cc, ids *Tensor) *opCall {
	op := c.begin("ssm_scan", state, x, dt, a, b, cc, ids)
	for _, t := range []*Tensor{state, x, dt, a, b, cc} {
		op.types("each operand but ids", t, F32)
		op.fresh("each operand", t)
	}
	op.types("ids", ids, I32)
	op.fresh("ids", ids)
	if op.arena != nil {
		d, n, heads, tokens, sequences := state.ne[0], x.ne[0], x.ne[1], x.ne[2], x.ne[3]
		op.require(state.ne[1] == n && state.ne[2] == heads, "state must be [d, %d, %d, …]", n, heads)
		op.require(dt.ne == [4]int64{heads, tokens, sequences, 1}, "dt must be [%d, %d, %d]", heads, tokens, sequences)
		op.require((a.ne[0] == d || a.ne[0] == 1) && a.ne[1] == heads && a.NumDims() <= 2, "a must be [%d or 1, %d]", d, heads)
		op.require(b.ne[0] == d && b.ne[2] == tokens && b.ne[3] == sequences && heads%b.ne[1] == 0, "b must be [%d, groups, %d, %d], and groups divide %d", d, tokens, sequences, heads)
		op.require(b.ne == cc.ne, "b and c must have one shape")
		op.require(ids.NumDims() == 1 && ids.ne[0] == sequences, "ids must have an entry for each of the %d sequences", sequences)
	}
	return op
}

// GatedDeltaNet is the gated delta rule: in each head, with a state S [n, n],
//
//	S ← diag(exp(g[t]))·S, S ← S + beta[t]·k[t]·(v[t] − Sᵀ·k[t])ᵀ,
//	y[t] = Sᵀ·q[t] / √n
//	q, k [n, kHeads, tokens, sequences], v [n, heads, tokens, sequences],
//	g [1 or n, heads, tokens, sequences], beta [1, heads, tokens, sequences],
//	state [n, n, heads, sequences], transposed
//
// Head h takes q and k of head h mod kHeads. The result is the rows
// [n·heads, tokens·sequences] of y, and then the new states, in rows of n·heads
// too. All are F32; g, beta and state are contiguous. It has no backward.
// C: ggml_gated_delta_net.
func (c *Context) GatedDeltaNet(q, k, v, g, beta, state *Tensor) *Tensor {
	op := c.gatedDeltaNet(q, k, v, g, beta, state)
	return op.done(C.goggml_op_gated_delta_net(op.arena, q.ptr(), k.ptr(), v.ptr(), g.ptr(), beta.ptr(), state.ptr(), 1))
}

// GatedDeltaNetStates is [Context.GatedDeltaNet] with the states after each
// token in the result, in place of the last ones alone: those after the last
// token first. It has no backward. C: ggml_gated_delta_net.
func (c *Context) GatedDeltaNetStates(q, k, v, g, beta, state *Tensor) *Tensor {
	op := c.gatedDeltaNet(q, k, v, g, beta, state)
	return op.done(C.goggml_op_gated_delta_net(op.arena, q.ptr(), k.ptr(), v.ptr(), g.ptr(), beta.ptr(), state.ptr(), v.tokens()))
}

func (c *Context) gatedDeltaNet(q, k, v, g, beta, state *Tensor) *opCall {
	op := c.begin("gated_delta_net", q, k, v, g, beta, state)
	if op.arena != nil {
		n, heads, tokens, sequences := v.ne[0], v.ne[1], v.ne[2], v.ne[3]
		op.shaped(v.ne, v)
		op.shaped([4]int64{n, q.ne[1], tokens, sequences}, q, k)
		op.require(heads%q.ne[1] == 0, "the %d heads of v are no multiple of the %d of q and k", heads, q.ne[1])
		gate := int64(1)
		if g.ne[0] != 1 {
			gate = n
		}
		op.packed([4]int64{gate, heads, tokens, sequences}, g)
		op.packed([4]int64{1, heads, tokens, sequences}, beta)
		op.packed([4]int64{n, n, heads, sequences}, state)
	}
	return op
}

// SolveTri returns the x for which a·x = b, with a lower triangular:
//
//	a [n, n, p, q], b [m, n, p, q] → x [m, n, p, q], rows along dimension 1
//
// What is above a's diagonal is not read, and no element of the diagonal is 0.
// Both are contiguous F32. It has no backward. C: ggml_solve_tri.
func (c *Context) SolveTri(a, b *Tensor) *Tensor {
	op := c.begin("solve_tri", a, b)
	op.types("a", a, F32)
	op.types("b", b, F32)
	op.dense("a", a)
	op.dense("b", b)
	if op.arena != nil {
		op.require(a.ne[0] == a.ne[1], "ne0 and ne1 of a are %d and %d; they must be equal", a.ne[0], a.ne[1])
		op.require(a.ne[1] == b.ne[1] && a.ne[2] == b.ne[2] && a.ne[3] == b.ne[3], "ne1, ne2 and ne3 of a and b must be equal")
	}
	return op.done(C.goggml_op_solve_tri(op.arena, a.ptr(), b.ptr(), true, true, false))
}

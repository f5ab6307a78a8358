package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// A RoPEMode selects the elements of a head that form rotated pairs, and the position that
// determines the angle of each pair.
type RoPEMode int

// The modes of rotary position embedding. The last three take four positions per token (time,
// height, width and one more), and divide the pairs among them by Sections; they form pairs of
// halves, as RoPENeoX does.
const (
	RoPENorm        RoPEMode = C.GGML_ROPE_TYPE_NORMAL // neighbours: (0, 1), (2, 3), …
	RoPENeoX        RoPEMode = C.GGML_ROPE_TYPE_NEOX   // halves: (0, n/2), (1, n/2+1), …
	RoPEMulti       RoPEMode = C.GGML_ROPE_TYPE_MROPE  // sections one after the other
	RoPEInterleaved RoPEMode = C.GGML_ROPE_TYPE_IMROPE // sections in turn: t, h, w, t, h, w, …
	RoPEVision      RoPEMode = C.GGML_ROPE_TYPE_VISION // sections; each restarts the frequencies
)

func (m RoPEMode) valid() bool {
	switch m {
	case RoPENorm, RoPENeoX, RoPEMulti, RoPEInterleaved, RoPEVision:
		return true
	}
	return false
}

// multi reports whether a token has four positions.
func (m RoPEMode) multi() bool { return m&RoPEMulti != 0 }

// RoPE is rotary position embedding (arXiv 2104.09864) with its extensions: linear scaling by
// FreqScale, YaRN (arXiv 2309.00071) by ExtFactor and the fields after it, several positions per
// token (M-RoPE, arXiv 2409.12191) by Mode and Sections.
type RoPE struct {
	Dims       int // number of rotated elements of a head, even; half the head in RoPEVision
	Mode       RoPEMode
	FreqBase   float32 // usually 10000
	FreqScale  float32 // 1 means no scaling
	TrainedCtx int     // context length during training, for YaRN
	ExtFactor  float32 // 0 disables YaRN
	AttnFactor float32 // 1 means none
	BetaFast   float32 // usually 32
	BetaSlow   float32 // usually 1

	// Sections is the number of consecutive pairs that take their angle from each of the four
	// positions (alternating, for RoPEInterleaved); then it repeats. Other modes have no sections.
	Sections [C.GGML_MROPE_SECTIONS]int
	// Offset is the first rotated element of a head, even. The elements before Offset and from
	// Offset + Dims on are not rotated. RoPEVision rotates all. With an offset there is no
	// backward. C: ggml_rope_set_offset.
	Offset int
	// Unrounded keeps the bounds of the pairs that YaRN blends as they are, instead of rounding them
	// to whole pairs. C: ggml_rope_set_truncate.
	Unrounded bool
}

func (r RoPE) c() C.goggml_rope {
	c := C.goggml_rope{
		dims: C.int(r.Dims), mode: C.int(r.Mode), ctx_orig: C.int(r.TrainedCtx), offset: C.int(r.Offset),
		freq_base: C.float(r.FreqBase), freq_scale: C.float(r.FreqScale), ext_factor: C.float(r.ExtFactor),
		attn_factor: C.float(r.AttnFactor), beta_fast: C.float(r.BetaFast), beta_slow: C.float(r.BetaSlow),
		unrounded: C.bool(r.Unrounded),
	}
	for i, n := range r.Sections {
		c.sections[i] = C.int(n)
	}
	return c
}

// ropeNames maps a form to the names of its ops with one position per token and with four.
var ropeNames = map[C.enum_goggml_rope_form][2]string{
	C.GOGGML_ROPE:         {"rope_ext", "rope_multi"},
	C.GOGGML_ROPE_INPLACE: {"rope_ext_inplace", "rope_multi_inplace"},
	C.GOGGML_ROPE_BACK:    {"rope_ext_back", "rope_multi_back"},
}

func (c *Context) rope(form C.enum_goggml_rope_form, a, pos, factors *Tensor, r RoPE) *Tensor {
	name := ropeNames[form][0]
	if r.Mode.multi() {
		name = ropeNames[form][1]
	}
	op := c.begin(name, a, pos)
	op.types("a", a, F32, F16)
	op.types("pos", pos, I32)
	op.contiguousRows("a", a)
	op.optional(factors)
	op.types("factors", factors, F32)
	op.require(r.Mode.valid(), "there is no RoPE mode %d", int(r.Mode))
	op.require(r.FreqBase > 0 && r.FreqScale > 0, "the frequency base %v and scale %v must be positive", r.FreqBase, r.FreqScale)
	if op.arena != nil {
		op.rotated(a, r)
		op.positions(a, pos, factors, r)
	}
	if form == C.GOGGML_ROPE_INPLACE {
		op.writable("a", a)
	}
	return op.done(C.goggml_op_rope(op.arena, form, a.ptr(), pos.ptr(), factors.ptr(), r.c()))
}

// rotated requires that the rotated elements lie within a head.
func (op *opCall) rotated(a *Tensor, r RoPE) {
	head := a.ne[0]
	op.require(head <= math.MaxInt32 && r.TrainedCtx >= 0 && r.TrainedCtx <= math.MaxInt32, "ne0 is %d and the context of the training %d; neither may be above %d", head, r.TrainedCtx, math.MaxInt32)
	op.require(head%2 == 0, "ne0 is %d; it must be even", head)
	op.require(r.Dims > 0 && r.Dims%2 == 0 && int64(r.Dims) <= head, "%d dimensions are rotated; they must be even and at most ne0, which is %d", r.Dims, head)
	op.require(r.Offset >= 0 && r.Offset%2 == 0 && int64(r.Offset) <= head-int64(r.Dims), "the offset is %d; it must be even, and at most ne0 less the %d rotated dimensions, which is %d", r.Offset, r.Dims, head-int64(r.Dims))
	if r.Mode == RoPEVision {
		op.require(2*int64(r.Dims) == head, "vision RoPE rotates all of a head of %d, so the dimensions must be %d, not %d", head, head/2, r.Dims)
		op.require(r.Offset == 0, "vision RoPE has no offset, this one is %d", r.Offset)
	}
}

// positions requires a position and a factor for every pair.
func (op *opCall) positions(a, pos, factors *Tensor, r RoPE) {
	pairs := r.Dims / 2
	if r.Mode == RoPEVision {
		pairs = r.Dims
	}
	op.require(factors == nil || factors.NumDims() == 1 && factors.ne[0] >= int64(pairs), "factors must have an entry for each of the %d pairs", pairs)
	op.contiguous("factors", factors)
	op.contiguous("pos", pos)
	if !r.Mode.multi() {
		op.require(pos.NumDims() == 1 && pos.ne[0] == a.ne[2], "pos must have an entry for each of the %d positions (ne2 of a)", a.ne[2])
		op.require(r.Sections == [4]int{}, "this mode has no sections; use RoPEMulti, RoPEInterleaved or RoPEVision")
		return
	}
	op.require(pos.NumDims() == 1 && pos.ne[0] == 4*a.ne[2], "pos must have four entries for each of the %d tokens (ne2 of a)", a.ne[2])
	sum, limit := int64(0), a.ne[0]
	for i, n := range r.Sections {
		op.require(n >= 0 && int64(n) <= limit, "section %d has %d pairs; it must have 0 to ne0, which is %d", i, n, limit)
		sum += int64(n)
	}
	op.require(r.Sections[0]+r.Sections[1]+r.Sections[2] > 0, "one of the first three sections must have pairs")
	op.require(sum <= limit, "the sections have %d pairs; they must not have more than ne0, which is %d", sum, limit)
}

// RoPE rotates pairs of elements by angles that grow with the position:
//
//	a [n, heads, tokens, batch], pos [tokens] (I32), factors [dims/2] (F32) or nil
//
// In modes with sections pos is [4·tokens]: all positions of the first kind, then all of the
// second, …. factors divide the frequencies of the pairs; RoPEVision has dims pairs. a is F32 or
// F16, n is even. C: ggml_rope_ext, ggml_rope_multi, ggml_rope.
func (c *Context) RoPE(a, pos, factors *Tensor, r RoPE) *Tensor {
	return c.rope(C.GOGGML_ROPE, a, pos, factors, r)
}

// RoPEInPlace is [Context.RoPE], in place: it changes a, and returns a view of
// it. It has no backward.
// C: ggml_rope_ext_inplace, ggml_rope_multi_inplace, ggml_rope_inplace.
func (c *Context) RoPEInPlace(a, pos, factors *Tensor, r RoPE) *Tensor {
	return c.rope(C.GOGGML_ROPE_INPLACE, a, pos, factors, r)
}

// RoPEBack returns the gradient of a in [Context.RoPE], given the gradient of the result: the
// inverse rotation. It has no backward.
// C: ggml_rope_ext_back, ggml_rope_multi_back.
func (c *Context) RoPEBack(grad, pos, factors *Tensor, r RoPE) *Tensor {
	return c.rope(C.GOGGML_ROPE_BACK, grad, pos, factors, r)
}

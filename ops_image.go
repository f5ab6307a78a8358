package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// A ScaleMode selects how [Context.Interpolate] computes values between elements; flags are added
// to a mode by |. C: enum ggml_scale_mode, ggml_scale_flag.
type ScaleMode uint32

// The modes, and then the flags.
const (
	ScaleNearest  ScaleMode = C.GGML_SCALE_MODE_NEAREST  // nearest element
	ScaleBilinear ScaleMode = C.GGML_SCALE_MODE_BILINEAR // linear, from 2×2 elements
	ScaleBicubic  ScaleMode = C.GGML_SCALE_MODE_BICUBIC  // cubic, from 4×4 elements

	ScaleAlignCorners ScaleMode = C.GGML_SCALE_FLAG_ALIGN_CORNERS // keeps the corner elements in place
	ScaleAntialias    ScaleMode = C.GGML_SCALE_FLAG_ANTIALIAS     // bilinear; when shrinking, weights all elements
)

const maxScaled = 1 << 22 // positions are computed in float32

func (c *Context) scaled(name string, a *Tensor, mode ScaleMode) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	flags := ScaleAlignCorners | ScaleAntialias
	op.require(mode&^flags <= ScaleBicubic, "there is no scale mode %#x", uint32(mode))
	op.require(mode&ScaleAntialias == 0 || mode&^flags == ScaleBilinear, "only bilinear scaling has antialiasing")
	op.require(mode&ScaleAntialias == 0 || mode&ScaleAlignCorners == 0, "antialiasing cannot align corners")
	return op
}

// Interpolate resizes a to a shape: dimensions 0 and 1 by the mode, 2 and 3 to the nearest element.
// a is F32 in any layout. It has no backward. C: ggml_interpolate.
func (c *Context) Interpolate(a *Tensor, mode ScaleMode, shape ...int64) *Tensor {
	op := c.scaled("interpolate", a, mode)
	op.checkShape(F32, shape)
	ne := [4]int64{1, 1, 1, 1}
	copy(ne[:], shape)
	for i := 0; i < MaxDims && op.arena != nil; i++ {
		op.require(ne[i] <= maxScaled && a.ne[i] <= maxScaled, "dimension %d is scaled from %d to %d; the limit is %d", i, a.ne[i], ne[i], maxScaled)
	}
	return op.done(C.goggml_op_interpolate(op.arena, a.ptr(), C.int64_t(ne[0]), C.int64_t(ne[1]), C.int64_t(ne[2]), C.int64_t(ne[3]), C.uint32_t(mode)))
}

// Upscale enlarges dimensions 0 and 1 by a factor of at least 2; see Interpolate. It has no
// backward. C: ggml_upscale.
func (c *Context) Upscale(a *Tensor, factor int, mode ScaleMode) *Tensor {
	op := c.scaled("upscale", a, mode)
	op.require(factor >= 2 && factor <= maxScaled, "the factor is %d; it must be 2 to %d", factor, maxScaled)
	for i := 0; i < MaxDims && op.arena != nil; i++ {
		n := a.ne[i]
		if i < 2 {
			n *= int64(factor)
		}
		op.require(n <= maxScaled && a.ne[i] <= maxScaled, "dimension %d is scaled from %d to %d; the limit is %d", i, a.ne[i], n, maxScaled)
	}
	return op.done(C.goggml_op_upscale(op.arena, a.ptr(), C.int(factor), C.enum_ggml_scale_mode(mode)))
}

// padded begins an op that pads a.
func (c *Context) padded(name string, a *Tensor, before, after [4]int) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	shape := [4]int64{}
	for i := 0; i < MaxDims && op.arena != nil; i++ {
		ok := before[i] >= 0 && before[i] < 1<<30 && after[i] >= 0 && after[i] < 1<<30
		op.require(ok, "the padding of dimension %d is %d and %d; it must not be negative, and less than %d", i, before[i], after[i], 1<<30)
		shape[i] = a.ne[i] + int64(before[i]) + int64(after[i])
	}
	op.checkShape(F32, shape[:])
	return op
}

// PadExt returns a with zeros before and after it in each dimension. a is F32.
// It has no backward. C: ggml_pad_ext.
func (c *Context) PadExt(a *Tensor, before, after [4]int) *Tensor {
	op := c.padded("pad_ext", a, before, after)
	return op.done(C.goggml_op_pad_ext(op.arena, a.ptr(), C.int(before[0]), C.int(after[0]), C.int(before[1]), C.int(after[1]),
		C.int(before[2]), C.int(after[2]), C.int(before[3]), C.int(after[3])))
}

// PadCircular returns a padded with repetitions of itself, as on a torus; before must not exceed
// the size of a. a is F32. It has no backward. C: ggml_pad_ext_circular, ggml_pad_circular.
func (c *Context) PadCircular(a *Tensor, before, after [4]int) *Tensor {
	op := c.padded("pad_ext_circular", a, before, after)
	for i := 0; i < MaxDims && op.arena != nil; i++ {
		op.require(int64(before[i]) <= a.ne[i], "dimension %d: the padding of %d is longer than a, which has %d", i, before[i], a.ne[i])
	}
	return op.done(C.goggml_op_pad_ext_circular(op.arena, a.ptr(), C.int(before[0]), C.int(after[0]), C.int(before[1]), C.int(after[1]),
		C.int(before[2]), C.int(after[2]), C.int(before[3]), C.int(after[3])))
}

// PadReflect1D returns a with its rows reflected at their ends: [a, b, c] with
// 1 before and 2 after is [b, a, b, c, b, a]. Both are less than ne0. a is
// contiguous F32. It has no backward. C: ggml_pad_reflect_1d.
func (c *Context) PadReflect1D(a *Tensor, before, after int) *Tensor {
	op := c.begin("pad_reflect_1d", a)
	op.types("a", a, F32)
	op.contiguous("a", a)
	if op.arena != nil {
		n := min(a.ne[0], math.MaxInt32/4)
		op.require(before >= 0 && int64(before) < n && after >= 0 && int64(after) < n, "the padding is %d and %d; it must be less than ne0, which is %d", before, after, a.ne[0])
	}
	return op.done(C.goggml_op_pad_reflect_1d(op.arena, a.ptr(), C.int(before), C.int(after)))
}

// Roll shifts the elements along each dimension; elements that leave at one end reenter at the
// other. a is F32 with contiguous rows. It has no backward. C: ggml_roll.
func (c *Context) Roll(a *Tensor, shifts [4]int) *Tensor {
	op := c.begin("roll", a)
	op.types("a", a, F32)
	op.contiguousRows("a", a)
	var s [4]C.int
	for i := 0; i < MaxDims && op.arena != nil; i++ {
		op.require(a.ne[i] < math.MaxInt32, "dimension %d has %d elements; the limit is %d", i, a.ne[i], math.MaxInt32)
		s[i] = C.int(int64(shifts[i]) % a.ne[i])
	}
	return op.done(C.goggml_op_roll(op.arena, a.ptr(), s[0], s[1], s[2], s[3]))
}

// TimestepEmbedding returns for each timestep t the row of cos(t·f) followed by sin(t·f), for h =
// dim/2 frequencies f = maxPeriod^(−j/h); if dim is odd, the row ends in 0: [n] → [dim, n]. a is
// contiguous F32. It has no backward. C: ggml_timestep_embedding.
func (c *Context) TimestepEmbedding(a *Tensor, dim, maxPeriod int) *Tensor {
	op := c.begin("timestep_embedding", a)
	op.types("a", a, F32)
	op.contiguous("a", a)
	op.require(dim >= 1 && dim < 1<<30, "the dimension is %d; it must be 1 to %d", dim, 1<<30-1)
	op.require(maxPeriod >= 1 && maxPeriod < 1<<30, "the period is %d; it must be 1 to %d", maxPeriod, 1<<30-1)
	if op.arena != nil {
		op.require(a.NumDims() == 1, "a has %d dimensions; it must be a vector", a.NumDims())
		op.checkShape(F32, []int64{int64(dim), a.ne[0]})
	}
	return op.done(C.goggml_op_timestep_embedding(op.arena, a.ptr(), C.int(dim), C.int(maxPeriod)))
}

// WinPart divides dimensions 1 and 2 into windows of w × w, padded with zeros at the end:
//
//	[n, x, y] → [n, w, w, ⌈x/w⌉·⌈y/w⌉]
//
// a is contiguous F32. It has no backward. C: ggml_win_part.
func (c *Context) WinPart(a *Tensor, w int) *Tensor {
	op := c.begin("win_part", a)
	op.types("a", a, F32)
	op.contiguous("a", a)
	op.require(w >= 1 && w < 1<<14, "the window is %d; it must be 1 to %d", w, 1<<14-1)
	if op.arena != nil {
		op.require(a.ne[3] == 1, "a has 4 dimensions; it must have at most 3")
		op.require(a.ne[1] < 1<<15 && a.ne[2] < 1<<15, "ne1 and ne2 must be less than %d", 1<<15)
	}
	return op.done(C.goggml_op_win_part(op.arena, a.ptr(), C.int(w)))
}

// WinUnpart undoes [Context.WinPart]:
//
//	[n, w, w, ⌈x/w⌉·⌈y/w⌉] → [n, x, y]
//
// a is contiguous F32. It has no backward. C: ggml_win_unpart.
func (c *Context) WinUnpart(a *Tensor, x, y int) *Tensor {
	op := c.begin("win_unpart", a)
	op.types("a", a, F32)
	op.contiguous("a", a)
	op.require(x >= 1 && x < 1<<15 && y >= 1 && y < 1<<15, "the sizes are %d and %d; they must be 1 to %d", x, y, 1<<15-1)
	w := int64(1)
	if op.arena != nil {
		w = a.ne[1]
		op.require(a.ne[2] == w && w < 1<<14, "ne1 and ne2 are %d and %d; they must be equal, and less than %d", w, a.ne[2], 1<<14)
		windows := (int64(x) + w - 1) / w * ((int64(y) + w - 1) / w)
		op.require(a.ne[3] == windows, "a has %d windows; %d × %d needs %d", a.ne[3], x, y, windows)
	}
	return op.done(C.goggml_op_win_unpart(op.arena, a.ptr(), C.int(x), C.int(y), C.int(w)))
}

// GetRelPos expands embeddings of relative positions to all pairs of n positions:
//
//	a [d, 2n−1] → [d, n, n], result[·, j, i] = a[·, i − j + n − 1]
//
// a and the result are contiguous F16. It has no backward. C: ggml_get_rel_pos.
func (c *Context) GetRelPos(a *Tensor, n int) *Tensor {
	op := c.begin("get_rel_pos", a)
	op.types("a", a, F16)
	op.contiguous("a", a)
	op.require(n >= 1 && n < 1<<20, "there are %d positions; there must be 1 to %d", n, 1<<20-1)
	if op.arena != nil {
		op.require(a.NumDims() <= 2 && a.ne[1] == 2*int64(n)-1, "a must be [d, %d]", 2*n-1)
	}
	return op.done(C.goggml_op_get_rel_pos(op.arena, a.ptr(), C.int(n), C.int(n)))
}

func (c *Context) addRelPos(name string, a, pw, ph *Tensor) *opCall {
	op := c.begin(name, a, pw, ph)
	op.types("a", a, F32)
	op.types("pw", pw, F32)
	op.types("ph", ph, F32)
	op.contiguous("a", a)
	op.contiguous("pw", pw)
	op.contiguous("ph", ph)
	op.sameShape(pw, ph)
	if op.arena != nil {
		n := pw.ne[0]
		op.require(float64(n)*float64(n) == float64(a.ne[0]) && float64(pw.ne[1])*float64(pw.ne[2]) == float64(a.ne[1]) && pw.ne[3] == a.ne[2] && a.ne[3] == 1,
			"a must be [n·n, qw·qh, batch], pw and ph [n, qw, qh, batch]")
	}
	return op
}

// AddRelPos adds a relative position bias to attention scores:
//
//	a [n·n, q, batch], pw and ph [n, qw, qh, batch] with qw·qh = q
//	result[x + n·y, q] = a[x + n·y, q] + pw[x, q] + ph[y, q]
//
// All are contiguous F32. It has no backward. C: ggml_add_rel_pos.
func (c *Context) AddRelPos(a, pw, ph *Tensor) *Tensor {
	op := c.addRelPos("add_rel_pos", a, pw, ph)
	return op.done(C.goggml_op_add_rel_pos(op.arena, a.ptr(), pw.ptr(), ph.ptr()))
}

// AddRelPosInPlace is [Context.AddRelPos], in place: it returns a view of a.
// C: ggml_add_rel_pos_inplace.
func (c *Context) AddRelPosInPlace(a, pw, ph *Tensor) *Tensor {
	op := c.addRelPos("add_rel_pos_inplace", a, pw, ph)
	return op.done(C.goggml_op_add_rel_pos_inplace(op.arena, a.ptr(), pw.ptr(), ph.ptr()))
}

package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// A ConvDim describes how a kernel moves along one dimension of its input. The zero value is a
// stride of 1 without padding or dilation.
//
// An input of n elements and a kernel of k give (n + 2·Padding − Dilation·(k−1) − 1) / Stride + 1
// positions, rounded down.
type ConvDim struct {
	Stride   int // step between two positions; 0 is 1
	Padding  int // zeros added at each end
	Dilation int // step between two elements of the kernel; 0 is 1
}

// normal fills in the defaults.
func (d ConvDim) normal() ConvDim {
	if d.Stride == 0 {
		d.Stride = 1
	}
	if d.Dilation == 0 {
		d.Dilation = 1
	}
	return d
}

// positions returns the number of positions of a kernel of k elements along n.
func (d ConvDim) positions(n, k int64) int64 {
	room := n + 2*int64(d.Padding) - int64(d.Dilation)*(k-1) - 1
	if room < 0 {
		return 0
	}
	return room/int64(d.Stride) + 1
}

const maxConv = 1 << 20 // maximum stride, padding and dilation

// slide checks how the kernel moves along dimension i of data, and returns the number of positions.
func (op *opCall) slide(i int, d *ConvDim, kernel, data *Tensor) int64 {
	*d = d.normal()
	if op.arena == nil {
		return 0
	}
	ok := d.Stride >= 1 && d.Stride <= maxConv && d.Padding >= 0 && d.Padding <= maxConv && d.Dilation >= 1 && d.Dilation <= maxConv
	op.require(ok, "dimension %d: stride %d, padding %d, dilation %d; stride and dilation must be at least 1, padding at least 0, none above %d", i, d.Stride, d.Padding, d.Dilation, maxConv)
	if op.arena == nil {
		return 0
	}
	n := d.positions(data.ne[i], kernel.ne[i])
	op.require(n > 0, "dimension %d: a kernel of %d with dilation %d does not fit into %d and a padding of %d", i, kernel.ne[i], d.Dilation, data.ne[i], d.Padding)
	return n
}

// conv begins a convolution of data (F32) by a contiguous kernel.
func (c *Context) conv(name string, kernel, data *Tensor, kernelTypes ...Type) *opCall {
	op := c.begin(name, kernel, data)
	op.types("kernel", kernel, kernelTypes...)
	op.types("data", data, F32)
	op.contiguous("kernel", kernel)
	if op.arena != nil {
		// The kernels use 32-bit indices.
		op.require(kernel.NumElements() < math.MaxInt32/4 && data.NumElements() < math.MaxInt32/4, "kernel and data must have fewer than %d elements", math.MaxInt32/4)
	}
	return op
}

// channels requires that dimension i of the kernel and dimension j of data are equal.
func (op *opCall) channels(kernel *Tensor, i int, data *Tensor, j int) {
	if op.arena != nil {
		op.require(kernel.ne[i] == data.ne[j], "the channels differ: ne%d of the kernel is %d, ne%d of the data %d", i, kernel.ne[i], j, data.ne[j])
	}
}

// Im2Col rearranges data so that a convolution becomes a matrix product: each row contains the
// elements under the kernel at one position. The number of dims selects one dimension:
//
//	kernel [k, channels, out], data [n, channels, batch]
//	→ [k·channels, positions, batch]
//
// or two:
//
//	kernel [kw, kh, channels, out], data [w, h, channels, batch]
//	→ [kw·kh·channels, positions 0, positions 1, batch]
//
// It reads only the kernel's shape. kernel and data are contiguous, data F32; the result has type
// t, F32 or F16. There is a backward for F32. C: ggml_im2col.
func (c *Context) Im2Col(kernel, data *Tensor, t Type, dims ...ConvDim) *Tensor {
	op := c.conv("im2col", kernel, data, F32, F16)
	op.contiguous("data", data)
	op.require(t == F32 || t == F16, "the result has type %v; it must have f32 or f16", t)
	op.require(len(dims) == 1 || len(dims) == 2, "there are %d dims; 1 or 2 can be given", len(dims))
	var d [2]ConvDim
	copy(d[:], dims)
	two := len(dims) == 2
	op.slide(0, &d[0], kernel, data)
	switch {
	case two:
		op.slide(1, &d[1], kernel, data)
		op.channels(kernel, 2, data, 2)
	case op.arena != nil:
		op.channels(kernel, 1, data, 1)
		op.require(data.ne[3] == 1, "ne3 of the data is %d; one dimension has no ne3", data.ne[3])
	}
	return op.done(C.goggml_op_im2col(op.arena, kernel.ptr(), data.ptr(), C.int(d[0].Stride), C.int(d[1].Stride), C.int(d[0].Padding),
		C.int(d[1].Padding), C.int(d[0].Dilation), C.int(d[1].Dilation), C.bool(two), C.goggml_type(t)))
}

// Im2ColBack returns the gradient of the data in [Context.Im2Col], given the gradient of the result
// and the kernel. shape is the data's shape. All are contiguous F32. It has no backward. C:
// ggml_im2col_back.
func (c *Context) Im2ColBack(grad, kernel *Tensor, shape [4]int64, dims ...ConvDim) *Tensor {
	op := c.begin("im2col_back", grad, kernel)
	op.types("grad", grad, F32)
	op.types("kernel", kernel, F32)
	op.contiguous("grad", grad)
	op.contiguous("kernel", kernel)
	op.checkShape(F32, shape[:])
	op.require(len(dims) == 1 || len(dims) == 2, "there are %d dims; 1 or 2 can be given", len(dims))
	var d [2]ConvDim
	copy(d[:], dims)
	two := len(dims) == 2
	data := &Tensor{ne: shape} // stands for the data; only its shape is used
	want := [4]int64{0, op.slide(0, &d[0], kernel, data), shape[2], 1}
	if two {
		want[2], want[3] = op.slide(1, &d[1], kernel, data), shape[3]
	}
	if op.arena != nil {
		want[0] = kernel.ne[0] * kernel.ne[1]
		if two {
			want[0] *= kernel.ne[2]
			op.channels(kernel, 2, data, 2)
		} else {
			op.channels(kernel, 1, data, 1)
			op.require(shape[3] == 1, "ne3 of the shape is %d; one dimension has no ne3", shape[3])
		}
		op.require(grad.ne == want, "grad must have the shape %v, as the result of im2col", want)
	}
	var ne [4]C.int64_t
	for i, n := range shape {
		ne[i] = C.int64_t(n)
	}
	return op.done(C.goggml_op_im2col_back(op.arena, grad.ptr(), kernel.ptr(), &ne[0], C.int(d[0].Stride), C.int(d[1].Stride), C.int(d[0].Padding),
		C.int(d[1].Padding), C.int(d[0].Dilation), C.int(d[1].Dilation), C.bool(two)))
}

// volume runs the checks that three-dimensional convolutions share:
//
//	kernel [kw, kh, kd, channels·out], data [w, h, d, channels·batch]
func (c *Context) volume(name string, kernel, data *Tensor, channels int, dims *[3]ConvDim) *opCall {
	op := c.conv(name, kernel, data, F32, F16)
	for i := range dims {
		op.slide(i, &dims[i], kernel, data)
	}
	if op.arena != nil {
		ok := channels >= 1 && kernel.ne[3]%int64(channels) == 0 && data.ne[3]%int64(channels) == 0
		op.require(ok, "ne3 of the kernel, %d, and of the data, %d, must be multiples of the %d channels", kernel.ne[3], data.ne[3], channels)
	}
	return op
}

// Im2Col3DOptions are the settings of [Context.Im2Col3D].
type Im2Col3DOptions struct {
	Channels int  // number of channels, which share dimension 3 of kernel and data with out and batch
	Type     Type // type of the result: F32 or F16
	Dims     [3]ConvDim
}

// Im2Col3D is [Context.Im2Col] in three dimensions:
//
//	kernel [kw, kh, kd, Channels·out], data [w, h, d, Channels·batch]
//	→ [kw·kh·kd·Channels, positions 0, positions 1, positions 2·batch]
//
// It has no backward. C: ggml_im2col_3d.
func (c *Context) Im2Col3D(kernel, data *Tensor, o Im2Col3DOptions) *Tensor {
	d := &o.Dims
	op := c.volume("im2col_3d", kernel, data, o.Channels, d)
	op.contiguousRows("data", data)
	op.require(o.Type == F32 || o.Type == F16, "the result has type %v; it must have f32 or f16", o.Type)
	return op.done(C.goggml_op_im2col_3d(op.arena, kernel.ptr(), data.ptr(), C.int64_t(o.Channels),
		C.int(d[0].Stride), C.int(d[1].Stride), C.int(d[2].Stride), C.int(d[0].Padding), C.int(d[1].Padding), C.int(d[2].Padding),
		C.int(d[0].Dilation), C.int(d[1].Dilation), C.int(d[2].Dilation), C.goggml_type(o.Type)))
}

// Conv1D is the convolution along dimension 0, by [Context.Im2Col] and [Context.MulMat]:
//
//	kernel [k, channels, out], data [n, channels, batch]
//	→ [positions, out, batch]
//
// kernel is F16 or F32, data F32; both are rounded to F16. The kernel and the rows of data are
// contiguous. A padding of k/2 keeps the size. C: ggml_conv_1d, ggml_conv_1d_ph.
func (c *Context) Conv1D(kernel, data *Tensor, d ConvDim) *Tensor {
	op := c.conv("conv_1d", kernel, data, F16, F32)
	op.contiguousRows("data", data)
	op.slide(0, &d, kernel, data)
	op.channels(kernel, 1, data, 1)
	if op.arena != nil {
		op.require(data.ne[3] == 1 && kernel.ne[3] == 1, "kernel and data have at most 3 dimensions")
	}
	return op.done(C.goggml_op_conv_1d(op.arena, kernel.ptr(), data.ptr(), C.int(d.Stride), C.int(d.Padding), C.int(d.Dilation)))
}

// ConvDepthwise1D is the convolution of each channel with its own kernel, along dimension 0:
//
//	kernel [k, 1, channels], data [n, channels] → [positions, channels]
//
// kernel is F16 or F32, data F32; both are contiguous. data is rounded to F16. C: ggml_conv_1d_dw,
// ggml_conv_1d_dw_ph.
func (c *Context) ConvDepthwise1D(kernel, data *Tensor, d ConvDim) *Tensor {
	op := c.conv("conv_1d_dw", kernel, data, F16, F32)
	op.contiguous("data", data)
	op.slide(0, &d, kernel, data)
	op.channels(kernel, 2, data, 1)
	if op.arena != nil {
		op.require(kernel.ne[1] == 1 && kernel.ne[3] == 1, "ne1 and ne3 of the kernel must be 1")
		op.require(data.NumDims() <= 2, "data has %d dimensions; it must have at most 2", data.NumDims())
	}
	return op.done(C.goggml_op_conv_1d_dw(op.arena, kernel.ptr(), data.ptr(), C.int(d.Stride), C.int(d.Padding), C.int(d.Dilation)))
}

// ConvTranspose1D adds up a copy of the kernel for each element of data, scaled by the element:
//
//	kernel [k, out, channels], data [n, channels] → [(n−1)·stride + k, out]
//
// kernel is F16 (data is then rounded to F16) or F32, data F32; both are contiguous. It has no
// backward. C: ggml_conv_transpose_1d.
func (c *Context) ConvTranspose1D(kernel, data *Tensor, stride int) *Tensor {
	op := c.conv("conv_transpose_1d", kernel, data, F32, F16)
	op.contiguous("data", data)
	op.require(stride >= 1 && stride <= maxConv, "the stride is %d; it must be 1 to %d", stride, maxConv)
	op.channels(kernel, 2, data, 1)
	if op.arena != nil {
		op.require(data.NumDims() <= 2 && kernel.ne[3] == 1, "data must be a matrix, and the kernel have at most 3 dimensions")
		op.require((data.ne[0]-1)*int64(stride)+kernel.ne[0] < math.MaxInt32, "the result is too large")
	}
	return op.done(C.goggml_op_conv_transpose_1d(op.arena, kernel.ptr(), data.ptr(), C.int(stride), 0, 1))
}

// Col2Im1D adds up the columns of a transposed convolution computed as a matrix product:
//
//	a [k·out, n], k fastest → [(n−1)·stride + k − 2·crop, out]
//
// crop elements are removed at each end. a is contiguous F32, F16 or BF16. It has no backward. C:
// ggml_col2im_1d.
func (c *Context) Col2Im1D(a *Tensor, stride, out, crop int) *Tensor {
	op := c.begin("col2im_1d", a)
	op.types("a", a, floats...)
	op.contiguous("a", a)
	op.require(stride >= 1 && stride <= maxConv, "the stride is %d; it must be 1 to %d", stride, maxConv)
	op.require(crop >= 0 && crop <= maxConv, "the crop is %d; it must be 0 to %d", crop, maxConv)
	if op.arena != nil {
		op.require(a.NumDims() <= 2, "a has %d dimensions; it must be a matrix", a.NumDims())
		op.require(out >= 1 && a.ne[0]%int64(max(out, 1)) == 0, "ne0 is %d, no multiple of the %d output channels", a.ne[0], out)
	}
	if op.arena != nil {
		n := (a.ne[1]-1)*int64(stride) + a.ne[0]/int64(out) - 2*int64(crop)
		op.require(n > 0 && n < math.MaxInt32, "the result would have %d elements in a row", n)
	}
	return op.done(C.goggml_op_col2im_1d(op.arena, a.ptr(), C.int(stride), C.int(out), C.int(crop)))
}

// image begins a convolution along dimensions 0 and 1.
func (c *Context) image(name string, kernel, data *Tensor, dims *[2]ConvDim, kernelTypes ...Type) *opCall {
	op := c.conv(name, kernel, data, kernelTypes...)
	op.slide(0, &dims[0], kernel, data)
	op.slide(1, &dims[1], kernel, data)
	return op
}

// Conv2D is the convolution along dimensions 0 and 1, by [Context.Im2Col] and [Context.MulMat]:
//
//	kernel [kw, kh, channels, out], data [w, h, channels, batch]
//	→ [positions 0, positions 1, out, batch]
//
// kernel is F16 or F32, data F32; both are contiguous and rounded to F16. For F32 throughout use
// Conv2DDirect, or Im2Col and MulMat. The backward requires an F32 kernel. C: ggml_conv_2d,
// ggml_conv_2d_sk_p0, ggml_conv_2d_s1_ph.
func (c *Context) Conv2D(kernel, data *Tensor, dims [2]ConvDim) *Tensor {
	op := c.image("conv_2d", kernel, data, &dims, F16, F32)
	op.contiguous("data", data)
	op.channels(kernel, 2, data, 2)
	return op.done(C.goggml_op_conv_2d(op.arena, kernel.ptr(), data.ptr(), C.int(dims[0].Stride), C.int(dims[1].Stride),
		C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[0].Dilation), C.int(dims[1].Dilation)))
}

// convScratch is the size in bytes of the CPU's scratch memory for the data under the kernel at one
// position.
const convScratch = 16 << 20

func (op *opCall) fitsScratch(kernel *Tensor, out int64) {
	if op.arena != nil {
		bytes := kernel.NumElements()/out*kernel.typ.BlockBytes() + 4*out
		op.require(bytes < convScratch, "the kernel has %d bytes for each output; the limit is %d", bytes, convScratch)
	}
}

// Conv2DDirect is [Context.Conv2D] without the memory of Im2Col; an F32 kernel computes in F32.
// data may have any layout. It has no backward. C: ggml_conv_2d_direct.
func (c *Context) Conv2DDirect(kernel, data *Tensor, dims [2]ConvDim) *Tensor {
	op := c.image("conv_2d_direct", kernel, data, &dims, F16, F32)
	op.channels(kernel, 2, data, 2)
	if op.arena != nil {
		op.fitsScratch(kernel, kernel.ne[3])
	}
	return op.done(C.goggml_op_conv_2d_direct(op.arena, kernel.ptr(), data.ptr(), C.int(dims[0].Stride), C.int(dims[1].Stride),
		C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[0].Dilation), C.int(dims[1].Dilation)))
}

// ConvDepthwise2D is the convolution of each channel with its own kernel:
//
//	kernel [kw, kh, 1, channels], data [w, h, channels, batch]
//	→ [positions 0, positions 1, channels, batch]
//
// kernel is F16 or F32, data F32; both are contiguous. With an F16 kernel, data is rounded to F16
// too. The backward requires an F32 kernel; the kernel's own gradient also requires batch = 1. C:
// ggml_conv_2d_dw.
func (c *Context) ConvDepthwise2D(kernel, data *Tensor, dims [2]ConvDim) *Tensor {
	op := c.image("conv_2d_dw", kernel, data, &dims, F16, F32)
	op.contiguous("data", data)
	op.depthwise(kernel, data)
	if op.arena != nil && kernel.typ == F32 {
		return op.done(C.goggml_op_conv_2d_dw_f32(op.arena, kernel.ptr(), data.ptr(), C.int(dims[0].Stride), C.int(dims[1].Stride),
			C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[0].Dilation), C.int(dims[1].Dilation)))
	}
	return op.done(C.goggml_op_conv_2d_dw(op.arena, kernel.ptr(), data.ptr(), C.int(dims[0].Stride), C.int(dims[1].Stride),
		C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[0].Dilation), C.int(dims[1].Dilation)))
}

func (op *opCall) depthwise(kernel, data *Tensor) {
	op.channels(kernel, 3, data, 2)
	if op.arena != nil {
		op.require(kernel.ne[2] == 1, "ne2 of the kernel is %d; it must be 1", kernel.ne[2])
	}
}

// ConvDepthwise2DDirect is [Context.ConvDepthwise2D] without the memory of Im2Col, for an F32 or
// F16 kernel. It has no backward. C: ggml_conv_2d_dw_direct.
func (c *Context) ConvDepthwise2DDirect(kernel, data *Tensor, dims [2]ConvDim) *Tensor {
	op := c.image("conv_2d_dw_direct", kernel, data, &dims, F32, F16)
	op.contiguous("data", data)
	op.depthwise(kernel, data)
	return op.done(C.goggml_op_conv_2d_dw_direct(op.arena, kernel.ptr(), data.ptr(), C.int(dims[0].Stride), C.int(dims[1].Stride),
		C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[0].Dilation), C.int(dims[1].Dilation)))
}

// ConvTranspose2D adds up a copy of the kernel for each element of data, scaled by the element:
//
//	kernel [kw, kh, out, channels], data [w, h, channels, batch]
//	→ [(w−1)·stride + kw, (h−1)·stride + kh, out, batch]
//
// kernel is F32 or F16, data F32 and rounded to the kernel's type; both are contiguous. It has no
// backward. C: ggml_conv_transpose_2d_p0.
func (c *Context) ConvTranspose2D(kernel, data *Tensor, stride int) *Tensor {
	op := c.conv("conv_transpose_2d_p0", kernel, data, F32, F16)
	op.contiguous("data", data)
	op.require(stride >= 1 && stride <= maxConv, "the stride is %d; it must be 1 to %d", stride, maxConv)
	op.channels(kernel, 3, data, 2)
	if op.arena != nil {
		row, rows := (data.ne[0]-1)*int64(stride)+kernel.ne[0], (data.ne[1]-1)*int64(stride)+kernel.ne[1]
		op.require(row < math.MaxInt32 && rows < math.MaxInt32 && row*rows < math.MaxInt32, "the result is too large")
	}
	return op.done(C.goggml_op_conv_transpose_2d_p0(op.arena, kernel.ptr(), data.ptr(), C.int(stride)))
}

// Conv3D is the convolution along dimensions 0, 1 and 2, by
// [Context.Im2Col3D] and [Context.MulMat]:
//
//	kernel [kw, kh, kd, channels·out], data [w, h, d, channels·batch]
//	→ [positions 0, positions 1, positions 2, out·batch]
//
// kernel is F16 or F32, data F32; both are rounded to F16, the kernel and the rows
// of data contiguous. It has no backward. C: ggml_conv_3d.
func (c *Context) Conv3D(kernel, data *Tensor, channels int, dims [3]ConvDim) *Tensor {
	op := c.volume("conv_3d", kernel, data, channels, &dims)
	op.contiguousRows("data", data)
	return op.done(C.goggml_op_conv_3d(op.arena, kernel.ptr(), data.ptr(), C.int64_t(channels),
		C.int(dims[0].Stride), C.int(dims[1].Stride), C.int(dims[2].Stride), C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[2].Padding),
		C.int(dims[0].Dilation), C.int(dims[1].Dilation), C.int(dims[2].Dilation)))
}

// Conv3DDirect is [Context.Conv3D] without the memory of Im2Col; an F32 kernel computes in F32.
// data may have any layout. It has no backward. C: ggml_conv_3d_direct.
func (c *Context) Conv3DDirect(kernel, data *Tensor, channels int, dims [3]ConvDim) *Tensor {
	op := c.volume("conv_3d_direct", kernel, data, channels, &dims)
	var batch, out int64
	if op.arena != nil {
		batch, out = data.ne[3]/int64(channels), kernel.ne[3]/int64(channels)
		op.fitsScratch(kernel, out)
	}
	return op.done(C.goggml_op_conv_3d_direct(op.arena, kernel.ptr(), data.ptr(),
		C.int(dims[0].Stride), C.int(dims[1].Stride), C.int(dims[2].Stride), C.int(dims[0].Padding), C.int(dims[1].Padding), C.int(dims[2].Padding),
		C.int(dims[0].Dilation), C.int(dims[1].Dilation), C.int(dims[2].Dilation), C.int(channels), C.int(batch), C.int(out)))
}

package refmath

import (
	"math"
	"slices"
)

// Slide describes how a kernel moves along a dimension: the step between positions, the zeros before and after
// the data, and the step between the kernel's elements.
type Slide struct{ Stride, Padding, Dilation int64 }

func (s Slide) positions(n, k int64) int64 {
	return (n+2*s.Padding-s.Dilation*(k-1)-1)/s.Stride + 1
}

// at returns the place of element k of the kernel at a position.
func (s Slide) at(position, k int64) int64 { return position*s.Stride + k*s.Dilation - s.Padding }

// or0 returns an element, or 0 outside of the tensor.
func (t Tensor) or0(i0, i1, i2, i3 int64) float64 {
	for i, v := range [4]int64{i0, i1, i2, i3} {
		if v < 0 || v >= t.Ne[i] {
			return 0
		}
	}
	return t.At(i0, i1, i2, i3)
}

// Im2Col returns rows [kw·kh·c, ow, oh, batch] of the elements under a kernel [kw, kh, c, …] on data [w, h, c,
// batch].
func Im2Col(kernel, data Tensor, s0, s1 Slide) Tensor {
	check(kernel.Ne[2] == data.Ne[2], "Im2Col: kernel %v, data %v", kernel.Ne, data.Ne)
	kw, kh := kernel.Ne[0], kernel.Ne[1]
	ne := [4]int64{kw * kh * kernel.Ne[2], s0.positions(data.Ne[0], kw), s1.positions(data.Ne[1], kh), data.Ne[3]}
	return generate(ne, func(i, x, y, b int64) float64 {
		return data.or0(s0.at(x, i%kw), s1.at(y, i/kw%kh), i/kw/kh, b)
	})
}

// Im2ColBack returns the gradient of the data, of shape ne, given the gradient of Im2Col's rows.
func Im2ColBack(grad, kernel Tensor, ne [4]int64, s0, s1 Slide) Tensor {
	out := New(ne[:]...)
	kw, kh := kernel.Ne[0], kernel.Ne[1]
	eachRow(grad.Ne, func(x, y, b int64) {
		for i, g := range grad.row(x, y, b) {
			i := int64(i)
			at0, at1 := s0.at(x, i%kw), s1.at(y, i/kw%kh)
			if at0 >= 0 && at0 < ne[0] && at1 >= 0 && at1 < ne[1] {
				out.Data[out.index(at0, at1, i/kw/kh, b)] += g
			}
		}
	})
	return out
}

// Conv2D returns the convolution [ow, oh, out, batch] of data [w, h, c, batch]
// with a kernel [kw, kh, c, out].
func Conv2D(kernel, data Tensor, s0, s1 Slide) Tensor {
	ne := [4]int64{s0.positions(data.Ne[0], kernel.Ne[0]), s1.positions(data.Ne[1], kernel.Ne[1]), kernel.Ne[3], data.Ne[3]}
	return generate(ne, func(x, y, o, b int64) float64 {
		total := 0.0
		for c := range kernel.Ne[2] {
			for ky := range kernel.Ne[1] {
				for kx := range kernel.Ne[0] {
					total += kernel.At(kx, ky, c, o) * data.or0(s0.at(x, kx), s1.at(y, ky), c, b)
				}
			}
		}
		return total
	})
}

// ConvDepthwise2D is Conv2D of each channel with its own kernel, [kw, kh, 1, c].
func ConvDepthwise2D(kernel, data Tensor, s0, s1 Slide) Tensor {
	ne := [4]int64{s0.positions(data.Ne[0], kernel.Ne[0]), s1.positions(data.Ne[1], kernel.Ne[1]), data.Ne[2], data.Ne[3]}
	return generate(ne, func(x, y, c, b int64) float64 {
		total := 0.0
		for ky := range kernel.Ne[1] {
			for kx := range kernel.Ne[0] {
				total += kernel.At(kx, ky, 0, c) * data.or0(s0.at(x, kx), s1.at(y, ky), c, b)
			}
		}
		return total
	})
}

// ConvTranspose2D spreads data [w, h, c, batch] by a kernel [kw, kh, out, c] in
// steps of stride0 and stride1.
func ConvTranspose2D(kernel, data Tensor, stride0, stride1 int64) Tensor {
	out := New((data.Ne[0]-1)*stride0+kernel.Ne[0], (data.Ne[1]-1)*stride1+kernel.Ne[1], kernel.Ne[2], data.Ne[3])
	eachRow(data.Ne, func(y, c, b int64) {
		for x, v := range data.row(y, c, b) {
			eachRow(kernel.Ne, func(ky, o, kc int64) {
				if kc != c {
					return
				}
				for kx, k := range kernel.row(ky, o, c) {
					out.Data[out.index(int64(x)*stride0+int64(kx), y*stride1+ky, o, b)] += v * k
				}
			})
		}
	})
	return out
}

// Col2Im1D adds columns [k·out, n], k fastest, into [(n−1)·stride + k − 2·crop, out].
func Col2Im1D(a Tensor, stride, outs, crop int64) Tensor {
	k := a.Ne[0] / outs
	out := New((a.Ne[1]-1)*stride+k-2*crop, outs)
	for i := range a.Ne[1] {
		for j, v := range a.Row(i) {
			at, o := i*stride+int64(j)%k-crop, int64(j)/k
			if at >= 0 && at < out.Ne[0] {
				out.Data[out.index(at, o, 0, 0)] += v
			}
		}
	}
	return out
}

// Im2Col3D returns rows [kw·kh·kd·c, ow, oh, od·batch] of the elements under a kernel [kw, kh, kd, c·out] on
// data [w, h, d, c·batch].
func Im2Col3D(kernel, data Tensor, channels int64, s [3]Slide) Tensor {
	kw, kh, kd := kernel.Ne[0], kernel.Ne[1], kernel.Ne[2]
	od := s[2].positions(data.Ne[2], kd)
	ne := [4]int64{kw * kh * kd * channels, s[0].positions(data.Ne[0], kw), s[1].positions(data.Ne[1], kh), od * data.Ne[3] / channels}
	return generate(ne, func(i, x, y, zb int64) float64 {
		c := i / kw / kh / kd
		return data.or0(s[0].at(x, i%kw), s[1].at(y, i/kw%kh), s[2].at(zb%od, i/kw/kh%kd), zb/od*channels+c)
	})
}

// Conv3D returns the convolution [ow, oh, od, out·batch] of data
// [w, h, d, c·batch] with a kernel [kw, kh, kd, c·out].
func Conv3D(kernel, data Tensor, channels int64, s [3]Slide) Tensor {
	outs := kernel.Ne[3] / channels
	var ne [4]int64
	for i := range s {
		ne[i] = s[i].positions(data.Ne[i], kernel.Ne[i])
	}
	ne[3] = outs * data.Ne[3] / channels
	return generate(ne, func(x, y, z, ob int64) float64 {
		total := 0.0
		for c := range channels {
			for kz := range kernel.Ne[2] {
				for ky := range kernel.Ne[1] {
					for kx := range kernel.Ne[0] {
						total += kernel.At(kx, ky, kz, ob%outs*channels+c) *
							data.or0(s[0].at(x, kx), s[1].at(y, ky), s[2].at(z, kz), ob/outs*channels+c)
					}
				}
			}
		}
		return total
	})
}

// Window is a window of Size elements that moves in steps of Stride, with
// Padding before and after the data.
type Window struct{ Size, Stride, Padding int64 }

func (w Window) slide() Slide { return Slide{w.Stride, w.Padding, 1} }

// Pool2D reduces windows of dimensions 0 and 1 to the largest element, or to
// the sum divided by the size of the window.
func Pool2D(a Tensor, largest bool, w0, w1 Window) Tensor {
	ne := [4]int64{w0.slide().positions(a.Ne[0], w0.Size), w1.slide().positions(a.Ne[1], w1.Size), a.Ne[2], a.Ne[3]}
	return generate(ne, func(x, y, i2, i3 int64) float64 {
		total, top := 0.0, math.Inf(-1)
		eachInWindow(a.Ne, x, y, w0, w1, func(i0, i1 int64) {
			total += a.At(i0, i1, i2, i3)
			top = max(top, a.At(i0, i1, i2, i3))
		})
		if largest {
			return top
		}
		return total / float64(w0.Size*w1.Size)
	})
}

// Pool1D reduces windows of the rows to the largest element, or to the mean of the elements inside the row.
func Pool1D(a Tensor, largest bool, w Window) Tensor {
	ne := a.Ne
	ne[0] = w.slide().positions(ne[0], w.Size)
	return generate(ne, func(x, i1, i2, i3 int64) float64 {
		from := w.slide().at(x, 0)
		seen := a.row(i1, i2, i3)[max(0, from):min(a.Ne[0], from+w.Size)]
		if largest {
			return slices.Max(seen)
		}
		return sum(seen) / float64(len(seen))
	})
}

// Pool2DBack returns the gradient of a in Pool2D.
func Pool2DBack(grad, a Tensor, largest bool, w0, w1 Window) Tensor {
	out := New(a.Ne[:]...)
	eachRow(grad.Ne, func(y, i2, i3 int64) {
		for x, g := range grad.row(y, i2, i3) {
			top, at := math.Inf(-1), int64(-1)
			eachInWindow(a.Ne, int64(x), y, w0, w1, func(i0, i1 int64) {
				here := out.index(i0, i1, i2, i3)
				switch {
				case !largest:
					out.Data[here] += g / float64(w0.Size*w1.Size)
				case a.Data[here] > top:
					top, at = a.Data[here], here
				}
			})
			if largest {
				out.Data[at] += g
			}
		}
	})
	return out
}

// eachInWindow calls f with the elements under the window at position (x, y).
func eachInWindow(ne [4]int64, x, y int64, w0, w1 Window, f func(i0, i1 int64)) {
	for k1 := range w1.Size {
		for k0 := range w0.Size {
			i0, i1 := w0.slide().at(x, k0), w1.slide().at(y, k1)
			if i0 >= 0 && i0 < ne[0] && i1 >= 0 && i1 < ne[1] {
				f(i0, i1)
			}
		}
	}
}

package fuzz

import "github.com/goggml/ggml"

func (p *program) conv() ggml.ConvDim {
	return ggml.ConvDim{Stride: p.IntN(4), Padding: p.IntN(4), Dilation: p.IntN(3)}
}

func convolutions() {
	// An image is [w, h, channels, batch], its kernel [kw, kh, channels, out].
	image := func(p *program, kernels []ggml.Type, channels, depth int64) (kernel, data *ggml.Tensor) {
		kernel = p.contiguous(kernels, p.size(4), p.size(3), channels, p.size(4))
		return kernel, p.contiguous(f32, p.size(12)+3, p.size(8)+2, channels, depth)
	}
	family(func(p *program) []any {
		kernel, data := image(p, f32OrF16, p.size(3), p.size(3))
		return list{kernel, data, [2]ggml.ConvDim{p.conv(), p.conv()}}
	}, "Conv2D Conv2DDirect")
	depthwise := func(types []ggml.Type) generator {
		return func(p *program) []any {
			channels := p.size(4)
			return list{p.contiguous(types, p.size(4), p.size(3), 1, channels), p.contiguous(f32, p.size(12)+3, p.size(8)+2, channels, p.size(3)), [2]ggml.ConvDim{p.conv(), p.conv()}}
		}
	}
	family(depthwise(f16), "ConvDepthwise2D")
	family(depthwise(f32), "ConvDepthwise2DDirect")
	family(func(p *program) []any {
		channels := p.size(3)
		return list{p.contiguous(f16, p.size(4), p.size(4), p.size(3), channels), p.contiguous(f32, p.size(8), p.size(6), channels, p.size(3)), int(p.size(3))}
	}, "ConvTranspose2D")
	family(func(p *program) []any {
		channels := p.size(3)
		return list{p.contiguous(f32OrF16, p.size(5), channels, p.size(4)), p.contiguous(f32, p.size(20)+4, channels, p.size(3)), p.conv()}
	}, "Conv1D")
	family(func(p *program) []any {
		channels := p.size(4)
		return list{p.contiguous(f32OrF16, p.size(5), 1, channels), p.contiguous(f32, p.size(20)+4, channels), p.conv()}
	}, "ConvDepthwise1D")
	family(func(p *program) []any {
		channels := p.size(4)
		return list{p.contiguous(f32OrF16, p.size(5), p.size(3), channels), p.contiguous(f32, p.size(20), channels), int(p.size(4))}
	}, "ConvTranspose1D")
	family(func(p *program) []any {
		k, out, stride := p.size(5), p.size(4), p.size(4)
		return list{p.contiguous(floats, k*out, p.size(12)), int(stride), int(out), p.IntN(2)}
	}, "Col2Im1D")
	volume := func(p *program) (kernel, data *ggml.Tensor, channels int) {
		n := p.size(3)
		return p.contiguous(f32OrF16, p.size(3), p.size(3), p.size(2), n*p.size(3)), p.contiguous(f32, p.size(6)+2, p.size(5)+2, p.size(4)+1, n*p.size(2)), int(n)
	}
	family(func(p *program) []any {
		kernel, data, channels := volume(p)
		return list{kernel, data, channels, [3]ggml.ConvDim{p.conv(), p.conv(), p.conv()}}
	}, "Conv3D Conv3DDirect")
	family(func(p *program) []any {
		kernel, data, channels := volume(p)
		return list{kernel, data, ggml.Im2Col3DOptions{Channels: channels, Type: p.oneOf(f32OrF16), Dims: [3]ggml.ConvDim{p.conv(), p.conv(), p.conv()}}}
	}, "Im2Col3D")
	family(func(p *program) []any {
		if p.IntN(2) == 0 {
			channels := p.size(3)
			return list{p.contiguous(f32OrF16, p.size(5), channels, p.size(4)), p.contiguous(f32, p.size(20)+4, channels, p.size(3)), p.oneOf(f32OrF16), p.conv()}
		}
		kernel, data := image(p, f32OrF16, p.size(3), p.size(3))
		return list{kernel, data, p.oneOf(f32OrF16), p.conv(), p.conv()}
	}, "Im2Col")
	family(func(p *program) []any {
		kernel, data := image(p, f32, p.size(3), p.size(3))
		ne := dims(data)
		d := [2]ggml.ConvDim{{Stride: 1 + p.IntN(2), Padding: p.IntN(2), Dilation: 1}, {Stride: 1 + p.IntN(2), Padding: p.IntN(2), Dilation: 1}}
		positions := func(i int) int64 {
			return (ne[i]+2*int64(d[i].Padding)-(kernel.Dim(i)-1)-1)/int64(d[i].Stride) + 1
		}
		grad := p.contiguous(f32, kernel.Dim(0)*kernel.Dim(1)*kernel.Dim(2), max(1, positions(0)), max(1, positions(1)), ne[3])
		return list{grad, kernel, ne, d[0], d[1]}
	}, "Im2ColBack")
	window := func(p *program) ggml.PoolDim {
		d := ggml.PoolDim{Size: int(p.size(4)), Stride: p.IntN(4)}
		d.Padding = p.IntN(d.Size)
		return d
	}
	family(func(p *program) []any {
		d := window(p)
		return list{p.contiguous(f32OrF16, int64(d.Size)+p.size(20)-1, p.size(4), p.size(3)), ggml.Pool(p.IntN(2)), d}
	}, "Pool1D")
	family(func(p *program) []any {
		return list{p.contiguous(f32OrF16, p.size(12)+3, p.size(8)+3, p.size(3), p.size(2)), ggml.Pool(p.IntN(2)), [2]ggml.PoolDim{window(p), window(p)}}
	}, "Pool2D")
	family(func(p *program) []any {
		d := [2]ggml.PoolDim{window(p), window(p)}
		x := p.contiguous(f32, p.size(12)+3, p.size(8)+3, p.size(3), p.size(2))
		ne := dims(x)
		for i := range d {
			stride := d[i].Stride
			if stride == 0 {
				stride = d[i].Size
			}
			ne[i] = (ne[i]+2*int64(d[i].Padding)-int64(d[i].Size))/int64(stride) + 1
		}
		return list{p.contiguous(f32, ne[:]...), x, ggml.Pool(p.IntN(2)), d}
	}, "Pool2DBack")
}

func imageOps() {
	mode := func(p *program) ggml.ScaleMode {
		return []ggml.ScaleMode{ggml.ScaleNearest, ggml.ScaleBilinear, ggml.ScaleBicubic, ggml.ScaleBilinear | ggml.ScaleAntialias, ggml.ScaleBilinear | ggml.ScaleAlignCorners}[p.IntN(5)]
	}
	family(func(p *program) []any {
		return list{p.any(f32), mode(p), p.size(20), p.size(9), p.size(4), p.size(3)}
	}, "Interpolate")
	family(func(p *program) []any { return list{p.any(f32), 2 + p.IntN(3), mode(p)} }, "Upscale")
	few := func(p *program) (n [4]int) {
		for i := range n {
			n[i] = p.IntN(4)
		}
		return n
	}
	family(func(p *program) []any { return list{p.anyContiguous(f32), few(p)} }, "Pad")
	family(func(p *program) []any { return list{p.any(f32), few(p), few(p)} }, "PadExt")
	family(func(p *program) []any {
		a := p.any(f32)
		before := few(p)
		for i := range before {
			before[i] = min(before[i], int(a.Dim(i)))
		}
		return list{a, before, few(p)}
	}, "PadCircular")
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		return list{a, int(p.size(a.Dim(0))) - 1, int(p.size(a.Dim(0))) - 1}
	}, "PadReflect1D")
	family(func(p *program) []any {
		return list{p.anyContiguous(f32), [4]int{p.IntN(20) - 10, p.IntN(9) - 4, p.IntN(9) - 4, p.IntN(9) - 4}}
	}, "Roll")
	family(func(p *program) []any {
		n := p.size(20)
		return list{p.contiguous(f32, n, n, p.size(3), p.size(3)), ggml.Triangle(p.IntN(4))}
	}, "Tri")
	family(func(p *program) []any { return list{p.contiguous(f32, p.size(9)), int(p.size(40)), int(p.size(10000))} }, "TimestepEmbedding")
	family(func(p *program) []any {
		return list{p.contiguous(f32, p.size(20), p.size(12), p.size(12)), int(p.size(6))}
	}, "WinPart")
	family(func(p *program) []any {
		x, y, w := p.size(12), p.size(12), p.size(6)
		return list{p.contiguous(f32, p.size(20), w, w, (x+w-1)/w*((y+w-1)/w)), int(x), int(y)}
	}, "WinUnpart")
	family(func(p *program) []any {
		n := p.size(9)
		return list{p.contiguous(f16, p.size(20), 2*n-1), int(n)}
	}, "GetRelPos")
	family(func(p *program) []any {
		n, qw, qh, batch := p.size(6), p.size(4), p.size(4), p.size(3)
		return list{p.contiguous(f32, n*n, qw*qh, batch), p.contiguous(f32, n, qw, qh, batch), p.contiguous(f32, n, qw, qh, batch)}
	}, "AddRelPos AddRelPosInPlace")
}

package fuzz

import "github.com/goggml/ggml"

func attentionOps() {
	family(oneContiguous(f32), "SoftMax SoftMaxInPlace")
	mask := func(p *program, a *ggml.Tensor) *ggml.Tensor {
		return p.maybe(func() *ggml.Tensor {
			return p.contiguous(f32OrF16, a.Dim(0), a.Dim(1)+p.size(3)-1, p.divisor(a.Dim(2)), p.divisor(a.Dim(3)))
		})
	}
	bias := func(p *program, mask *ggml.Tensor) float32 {
		if mask == nil {
			return 0
		}
		return []float32{0, 0, 8}[p.IntN(3)]
	}
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		sinks := p.maybe(func() *ggml.Tensor { return p.contiguous(f32, a.Dim(2)) })
		m := mask(p, a)
		return list{a, ggml.SoftMaxOptions{Mask: m, Sinks: sinks, Scale: number(p), MaxBias: bias(p, m)}}
	}, "SoftMaxExt SoftMaxExtInPlace")
	family(func(p *program) []any {
		a := p.anyContiguous(f32)
		ne := dims(a)
		return list{a, p.contiguous(f32, ne[:]...), scalar(p)}
	}, "SoftMaxBack SoftMaxBackInPlace")
	family(func(p *program) []any {
		n := 2 * p.size(p.width/2)
		a := p.shaped(f32OrF16, [4]int64{n, p.size(4), p.size(5), p.size(2)})
		modes := []ggml.RoPEMode{ggml.RoPENorm, ggml.RoPENeoX, ggml.RoPEMulti, ggml.RoPEInterleaved, ggml.RoPEVision}
		r := ggml.RoPE{Dims: 2 * int(p.size(n/2)), Mode: modes[p.IntN(len(modes))], FreqBase: 1e4, FreqScale: 1, TrainedCtx: p.IntN(100), AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
		positions := a.Dim(2)
		pairs := int64(r.Dims / 2)
		switch r.Mode {
		case ggml.RoPEVision:
			r.Dims = int(n / 2)
			pairs = int64(r.Dims)
			fallthrough
		case ggml.RoPEMulti, ggml.RoPEInterleaved:
			positions *= 4
			for i := range r.Sections {
				r.Sections[i] = int(p.size(n/4 + 1))
			}
		default:
			if p.IntN(4) == 0 {
				r.Offset = 2 * int(p.size(n/2-pairs+1)-1)
			}
		}
		if p.IntN(3) == 0 {
			r.ExtFactor, r.FreqScale, r.Unrounded = p.Float32(), p.Float32()+0.1, p.IntN(2) == 0
		}
		factors := p.maybe(func() *ggml.Tensor { return p.contiguous(f32, pairs) })
		return list{a, p.contiguous(i32, positions), factors, r}
	}, "RoPE RoPEBack RoPEInPlace")
	family(func(p *program) []any {
		heads, kv, batch := p.size(2), p.size(9), p.size(2)
		k := p.shaped(weights, [4]int64{p.size(p.width), kv, heads, batch})
		q := p.shaped(f32, [4]int64{k.Dim(0), p.size(5), heads * p.size(2), batch * p.size(2)})
		v := p.shaped([]ggml.Type{k.Type()}, [4]int64{p.size(p.width), kv, heads, batch})
		m := p.maybe(func() *ggml.Tensor {
			return p.contiguous(f16, kv, q.Dim(1)+p.size(3)-1, p.divisor(q.Dim(2)), p.divisor(q.Dim(3)))
		})
		sinks := p.maybe(func() *ggml.Tensor { return p.contiguous(f32, q.Dim(2)) })
		return list{q, k, v, ggml.AttentionOptions{Mask: m, Sinks: sinks, Scale: number(p), MaxBias: bias(p, m), Softcap: []float32{0, 0, 30}[p.IntN(3)]}}
	}, "FlashAttention")
	family(func(p *program) []any {
		heads, rows, kv, batch := p.size(2), p.size(9), p.size(9), p.size(3)
		k := p.shaped(weights, [4]int64{p.size(p.width), rows, heads, 1})
		q := p.shaped(f32, [4]int64{k.Dim(0), p.size(5), heads * p.size(2), batch})
		v := p.shaped([]ggml.Type{k.Type()}, [4]int64{p.size(p.width), rows, heads, 1})
		m := p.contiguous(f16, kv, q.Dim(1)+p.size(3)-1, p.divisor(q.Dim(2)), p.divisor(batch))
		return list{q, k, v, p.contiguous(i32, kv, batch), ggml.AttentionOptions{Mask: m, Scale: number(p), MaxBias: bias(p, m)}}
	}, "FlashAttentionRows")
	family(func(p *program) []any {
		n, m, b, kv, picks := p.size(5), p.size(3), p.size(2), p.size(9), p.size(5)
		mask := p.contiguous(f32OrF16, kv, p.divisor(n), p.divisor(m), p.divisor(b))
		o := ggml.TopKOptions{
			Score:  p.maybe(func() *ggml.Tensor { return p.contiguous(f32, picks, n, m, b) }),
			Blocks: p.maybe(func() *ggml.Tensor { return p.contiguous(i32, p.size(3), picks) }),
			Extra:  p.maybe(func() *ggml.Tensor { return p.contiguous(i32, p.size(3), n, m, b) }),
		}
		return list{mask, p.contiguous(i32, p.size(4), n, m, b), o}
	}, "TopKMask")
	family(func(p *program) []any {
		d, heads, n, streams, kv := p.size(p.width), p.size(4), p.size(5), p.size(3), p.size(7)
		return list{p.contiguous(f32, d, heads, n, streams), p.contiguous(f32OrF16, d, 1, kv, streams), p.contiguous(f32, heads, n, 1, streams), p.contiguous(f16, kv, n, 1, p.divisor(streams))}
	}, "LightningIndexer")
	family(func(p *program) []any {
		return list{p.contiguous(f32, 24, p.size(6)), p.contiguous(f32, 3), p.contiguous(f32, 24), ggml.Sinkhorn{Eps: smallNumber(p), Iterations: int(p.size(5))}}
	}, "HyperConnectComb")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.contiguous(f32, n, 4, tokens), p.contiguous(f32, 4, tokens)}
	}, "HyperConnectPre")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.contiguous(f32, n, 4, tokens), p.contiguous(f32, n, 4, tokens), scalar(p)}
	}, "HyperConnectPreGated")
	family(func(p *program) []any {
		n, tokens := p.size(p.width), p.size(6)
		return list{p.contiguous(f32, n, tokens), p.contiguous(f32, n, 4, tokens), p.contiguous(f32, 4, tokens), p.maybe(func() *ggml.Tensor { return p.contiguous(f32, 4, 4, tokens) })}
	}, "HyperConnectPost")
}

func recurrentOps() {
	heads := func(p *program, n int64, operands int) (xs []*ggml.Tensor, state *ggml.Tensor, ne [3]int64) {
		sequences := p.size(3)
		ne = [3]int64{n, p.size(3), sequences * p.size(3)}
		for range operands {
			xs = append(xs, p.contiguous(f32, ne[:]...))
		}
		return xs, p.contiguous(f32, n*n*ne[1], sequences), ne
	}
	width := func(p *program) int64 { return []int64{1, 2, 5, 8, 16, 32, 64, 128}[p.IntN(8)] }
	family(func(p *program) []any {
		x, state, ne := heads(p, width(p), 4)
		return list{ggml.RWKV6Operands{K: x[0], V: x[1], R: x[2], TimeFirst: p.contiguous(f32, ne[0], ne[1]), TimeDecay: x[3], State: state}}
	}, "RWKV6")
	family(func(p *program) []any {
		x, state, _ := heads(p, 64*p.size(2), 6)
		return list{ggml.RWKV7Operands{R: x[0], W: x[1], K: x[2], V: x[3], A: x[4], B: x[5], State: state}}
	}, "RWKV7")
	family(func(p *program) []any {
		x, state, _ := heads(p, width(p), 4)
		return list{ggml.GatedLinearAttentionOperands{K: x[0], V: x[1], Q: x[2], G: x[3], State: state, Scale: number(p)}}
	}, "GatedLinearAttention")
	family(func(p *program) []any {
		k, channels := p.size(5), p.size(40)
		return list{p.contiguous(f32, k-1+p.size(9), channels, p.size(3)), p.contiguous(f32, k, channels)}
	}, "SSMConv")
	family(func(p *program) []any {
		d, n, tokens, sequences := width(p), p.size(9), p.size(4), p.size(3)
		groups := p.size(2)
		heads, states := groups*p.size(3), sequences+p.size(2)
		decay := d
		if p.IntN(2) == 0 {
			decay = 1
		}
		return list{ggml.SSMScanOperands{
			State: p.contiguous(f32, d, n, heads, states), X: p.contiguous(f32, n, heads, tokens, sequences), DT: p.contiguous(f32, heads, tokens, sequences),
			A: p.contiguous(f32, decay, heads), B: p.contiguous(f32, d, groups, tokens, sequences), C: p.contiguous(f32, d, groups, tokens, sequences),
			IDs: p.ids(states, ggml.I32, sequences),
		}}
	}, "SSMScan SSMScanStates")
	family(func(p *program) []any {
		n, kHeads, tokens, sequences := width(p), p.size(2), p.size(4), p.size(3)
		heads, gate := kHeads*p.size(2), int64(1)
		if p.IntN(2) == 0 {
			gate = n
		}
		return list{ggml.GatedDeltaNetOperands{
			Q: p.contiguous(f32, n, kHeads, tokens, sequences), K: p.contiguous(f32, n, kHeads, tokens, sequences), V: p.contiguous(f32, n, heads, tokens, sequences),
			G: p.contiguous(f32, gate, heads, tokens, sequences), Beta: p.contiguous(f32, 1, heads, tokens, sequences), State: p.contiguous(f32, n, n, heads, sequences),
		}}
	}, "GatedDeltaNet GatedDeltaNetStates")
	family(func(p *program) []any {
		n, ne2, ne3 := p.size(20), p.size(3), p.size(2)
		return list{p.contiguous(f32, n, n, ne2, ne3), p.contiguous(f32, p.size(20), n, ne2, ne3)}
	}, "SolveTri")
}

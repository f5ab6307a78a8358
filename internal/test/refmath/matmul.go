package refmath

// MulMat returns a·b in ggml's order: a [k, m, a2, a3], b [k, n, b2, b3],
// result[i, j] = Σₖ a[k, i]·b[k, j], shape [m, n, b2, b3]. b2 and b3 are
// multiples of a2 and a3; consecutive matrices of b share one of a.
func MulMat(a, b Tensor) Tensor {
	check(a.Ne[0] == b.Ne[0] && b.Ne[2]%a.Ne[2] == 0 && b.Ne[3]%a.Ne[3] == 0,
		"MulMat: shapes %v and %v", a.Ne, b.Ne)
	share2, share3 := b.Ne[2]/a.Ne[2], b.Ne[3]/a.Ne[3]
	out := New(a.Ne[1], b.Ne[1], b.Ne[2], b.Ne[3])
	eachRow(out.Ne, func(i1, i2, i3 int64) {
		dst, y := out.row(i1, i2, i3), b.row(i1, i2, i3)
		for i := range dst {
			dst[i] = dot(a.row(int64(i), i2/share2, i3/share3), y)
		}
	})
	return out
}

// MulMatID multiplies with a matrix chosen per row: as [k, m, experts],
// b [k, used or 1, tokens], ids [used, tokens], result [m, used, tokens] =
// as[ids[e, t]]·b[e mod b.ne1, t].
func MulMatID(as, b, ids Tensor) Tensor {
	check(as.Ne[0] == b.Ne[0] && ids.Ne[1] == b.Ne[2] && ids.Ne[0]%b.Ne[1] == 0,
		"MulMatID: shapes %v, %v, ids %v", as.Ne, b.Ne, ids.Ne)
	out := New(as.Ne[1], ids.Ne[0], b.Ne[2])
	eachRow(out.Ne, func(e, t, _ int64) {
		expert := rowID("MulMatID", ids.At(e, t, 0, 0), as.Ne[2])
		dst, y := out.row(e, t, 0), b.row(e%b.Ne[1], t, 0)
		for i := range dst {
			dst[i] = dot(as.row(int64(i), expert, 0), y)
		}
	})
	return out
}

// OutProd returns result[i, j] = Σₖ a[i, k]·b[j, k] for a [m, k, a2, a3] and
// b [p, k, b2, b3]: shape [m, p, b2, b3], a shared as in MulMat.
func OutProd(a, b Tensor) Tensor {
	check(a.Ne[1] == b.Ne[1] && b.Ne[2]%a.Ne[2] == 0 && b.Ne[3]%a.Ne[3] == 0,
		"OutProd: shapes %v and %v", a.Ne, b.Ne)
	share2, share3 := b.Ne[2]/a.Ne[2], b.Ne[3]/a.Ne[3]
	out := New(a.Ne[0], b.Ne[0], b.Ne[2], b.Ne[3])
	eachRow(out.Ne, func(j, i2, i3 int64) {
		dst := out.row(j, i2, i3)
		for k := range a.Ne[1] {
			add(dst, b.At(j, k, i2, i3), a.row(k, i2/share2, i3/share3))
		}
	})
	return out
}

// OutProdID sums outer products per expert: x [k, used or 1, tokens], y [m, used, tokens], ids [used, tokens],
// result [k, m, experts]. Matrix e is Σ x[i, s mod x.ne1, t]·y[j, s, t] over ids[s, t] = e.
func OutProdID(x, y, ids Tensor, experts int64) Tensor {
	check(ids.Ne[1] == x.Ne[2] && y.Ne[2] == x.Ne[2] && ids.Ne[0] == y.Ne[1] && y.Ne[1]%x.Ne[1] == 0,
		"OutProdID: shapes %v, %v, ids %v", x.Ne, y.Ne, ids.Ne)
	out := New(x.Ne[0], y.Ne[0], experts)
	eachRow(y.Ne, func(s, t, _ int64) {
		expert := rowID("OutProdID", ids.At(s, t, 0, 0), experts)
		for j, v := range y.row(s, t, 0) {
			add(out.row(int64(j), expert, 0), v, x.row(s%x.Ne[1], t, 0))
		}
	})
	return out
}

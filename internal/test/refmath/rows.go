package refmath

import "math"

// GetRows returns rows of a [n, ne1, ne2, ne3] chosen by ids [rows, ne2, ne3]:
// result [n, rows, ne2, ne3].
func GetRows(a, ids Tensor) Tensor {
	check(ids.Ne[1] == a.Ne[2] && ids.Ne[2] == a.Ne[3] && ids.Ne[3] == 1,
		"GetRows: ids %v do not fit %v", ids.Ne, a.Ne)
	ne := [4]int64{a.Ne[0], ids.Ne[0], a.Ne[2], a.Ne[3]}
	out := New(ne[:]...)
	eachRow(ne, func(i1, i2, i3 int64) {
		copy(out.row(i1, i2, i3), a.row(rowID("GetRows", ids.At(i1, i2, i3, 0), a.Ne[1]), i2, i3))
	})
	return out
}

// GetRowsBack returns a matrix [n, rows] into whose row ids[i] row i of
// dy [n, len(ids)] is added: the gradient of GetRows of a matrix of that many rows.
func GetRowsBack(dy, ids Tensor, rows int64) Tensor {
	check(dy.Ne[1] == int64(len(ids.Data)), "GetRowsBack: %v rows, %v ids", dy.Ne, ids.Ne)
	out := New(dy.Ne[0], rows)
	for i, id := range ids.Data {
		dst := out.Row(rowID("GetRowsBack", id, rows))
		for i0, v := range dy.Row(int64(i)) {
			dst[i0] += v
		}
	}
	return out
}

// SetRows returns a copy of a [n, ne1, ne2, ne3] whose row
// ids[i1, i2 mod ids.ne1, i3 mod ids.ne2] is replaced by row (i1, i2, i3) of
// b [n, rows, ne2, ne3].
func SetRows(a, b, ids Tensor) Tensor {
	check(a.Ne[0] == b.Ne[0] && a.Ne[2] == b.Ne[2] && a.Ne[3] == b.Ne[3] && ids.Ne[0] == b.Ne[1] &&
		b.Ne[2]%ids.Ne[1] == 0 && b.Ne[3]%ids.Ne[2] == 0 && ids.Ne[3] == 1,
		"SetRows: %v, rows %v, ids %v", a.Ne, b.Ne, ids.Ne)
	out := a.Clone()
	eachRow(b.Ne, func(i1, i2, i3 int64) {
		id := rowID("SetRows", ids.At(i1, i2%ids.Ne[1], i3%ids.Ne[2], 0), a.Ne[1])
		copy(out.row(id, i2, i3), b.row(i1, i2, i3))
	})
	return out
}

func rowID(op string, id float64, rows int64) int64 {
	check(id >= 0 && id < float64(rows), "%s: row %v of %d", op, id, rows)
	return int64(id)
}

// Diag returns [n, n, ne2, ne3] with a [n, 1, ne2, ne3] on the diagonal, else 0.
func Diag(a Tensor) Tensor {
	check(a.Ne[1] == 1, "Diag: %v has more than one row", a.Ne)
	return generate([4]int64{a.Ne[0], a.Ne[0], a.Ne[2], a.Ne[3]}, func(i0, i1, i2, i3 int64) float64 {
		if i0 != i1 {
			return 0
		}
		return a.At(i0, 0, i2, i3)
	})
}

// DiagMaskInf replaces elements with i0 > past + i1 by −Inf.
func DiagMaskInf(a Tensor, past int64) Tensor {
	return keep(a, math.Inf(-1), func(i0, i1 int64) bool { return i0 <= past+i1 })
}

// SeenRows returns the rows that each batch sees, [n, kv, ne2, batch], of a [n, rows, ne2]: row i of batch b is
// row seen[i, b] of a.
func SeenRows(a, seen Tensor) Tensor {
	out := New(a.Ne[0], seen.Ne[0], a.Ne[2], seen.Ne[1])
	eachRow(out.Ne, func(i1, i2, i3 int64) {
		copy(out.row(i1, i2, i3), a.row(rowID("SeenRows", seen.At(i1, i3, 0, 0), a.Ne[1]), i2, 0))
	})
	return out
}

// TopKMask returns mask [kv, …], repeated to the rows of topK [top, …], with −Inf for each key that its row does not
// pick. A pick p stands for the keys blocks[·, p], or for key p without blocks. Picks with a score [picks, …] of −Inf
// do not count; extra [extra, …] are further keys. Picks and keys out of range are skipped.
func TopKMask(mask, topK, score, blocks, extra Tensor) Tensor {
	ne := topK.Ne
	ne[0] = mask.Ne[0]
	out := New(ne[:]...)
	eachRow(ne, func(i1, i2, i3 int64) {
		row, from := out.row(i1, i2, i3), mask.row(i1%mask.Ne[1], i2%mask.Ne[2], i3%mask.Ne[3])
		for i := range row {
			row[i] = math.Inf(-1)
		}
		show := func(keys []float64) {
			for _, k := range keys {
				if k >= 0 && k < float64(len(row)) {
					row[int(k)] = from[int(k)]
				}
			}
		}
		for _, p := range topK.row(i1, i2, i3) {
			switch pick := int64(p); {
			case len(score.Data) > 0 && (pick < 0 || pick >= score.Ne[0] || math.IsInf(score.At(pick, i1, i2, i3), -1)):
			case len(blocks.Data) == 0:
				show([]float64{p})
			case pick >= 0 && pick < blocks.Ne[1]:
				show(blocks.Row(pick))
			}
		}
		if len(extra.Data) > 0 {
			show(extra.row(i1, i2, i3))
		}
	})
	return out
}

// Tri names a triangle of a matrix with rows i1 and columns i0.
type Tri int

// The triangles, with ggml's numbers.
const (
	UpperDiag Tri = 0 // i0 ≥ i1
	Upper     Tri = 1 // i0 > i1
	LowerDiag Tri = 2 // i0 ≤ i1
	Lower     Tri = 3 // i0 < i1
)

// Triangle keeps one triangle of each matrix and sets the rest to 0.
func Triangle(a Tensor, tri Tri) Tensor {
	inside, ok := map[Tri]func(i0, i1 int64) bool{
		UpperDiag: func(i0, i1 int64) bool { return i0 >= i1 },
		Upper:     func(i0, i1 int64) bool { return i0 > i1 },
		LowerDiag: func(i0, i1 int64) bool { return i0 <= i1 },
		Lower:     func(i0, i1 int64) bool { return i0 < i1 },
	}[tri]
	check(ok, "Triangle: unknown triangle %d", tri)
	return keep(a, 0, inside)
}

func keep(a Tensor, otherwise float64, inside func(i0, i1 int64) bool) Tensor {
	return generate(a.Ne, func(i0, i1, i2, i3 int64) float64 {
		if !inside(i0, i1) {
			return otherwise
		}
		return a.At(i0, i1, i2, i3)
	})
}

// CausalMask returns [kv, queries]: 0 where key i0 ≤ past + query i1, −Inf
// elsewhere: the mask of SoftMaxExt and FlashAttnExt for causal attention.
func CausalMask(kv, queries, past int64) Tensor { return DiagMaskInf(New(kv, queries), past) }

package refmath

// Cont returns a itself: tensors here are always contiguous.
func Cont(a Tensor) Tensor { return a }

// Reshape returns a's elements, in the same order, in another shape. It shares
// data with a.
func Reshape(a Tensor, ne ...int64) Tensor {
	shape := shapeOf("Reshape", ne)
	check(count(shape) == int64(len(a.Data)), "Reshape: %v does not have the elements of %v", shape, a.Ne)
	return Tensor{Ne: shape, Data: a.Data}
}

// View returns a copy of the elements of a at offset + i0 + i1·stride[0] +
// i2·stride[1] + i3·stride[2]. Strides and offset count elements, where ggml
// counts bytes.
func View(a Tensor, ne [4]int64, stride [3]int64, offset int64) Tensor {
	at := viewIndex("View", a, ne, stride, offset)
	return generate(ne, func(i0, i1, i2, i3 int64) float64 { return a.Data[at(i0, i1, i2, i3)] })
}

// Set returns a copy of a in which the view of b's shape (see View) is
// replaced by b.
func Set(a, b Tensor, stride [3]int64, offset int64) Tensor {
	return intoView("Set", a, b, stride, offset, func(_, y float64) float64 { return y })
}

// Acc returns a copy of a with b added to the view of b's shape (see View).
func Acc(a, b Tensor, stride [3]int64, offset int64) Tensor {
	return intoView("Acc", a, b, stride, offset, func(x, y float64) float64 { return x + y })
}

func intoView(op string, a, b Tensor, stride [3]int64, offset int64, f func(x, y float64) float64) Tensor {
	at := viewIndex(op, a, b.Ne, stride, offset)
	out := a.Clone()
	eachRow(b.Ne, func(i1, i2, i3 int64) {
		for i0 := range b.Ne[0] {
			i := at(i0, i1, i2, i3)
			out.Data[i] = f(out.Data[i], b.At(i0, i1, i2, i3))
		}
	})
	return out
}

func viewIndex(op string, a Tensor, ne [4]int64, stride [3]int64, offset int64) func(i0, i1, i2, i3 int64) int64 {
	at := func(i0, i1, i2, i3 int64) int64 {
		return offset + i0 + i1*stride[0] + i2*stride[1] + i3*stride[2]
	}
	last := at(ne[0]-1, ne[1]-1, ne[2]-1, ne[3]-1)
	check(offset >= 0 && last < int64(len(a.Data)), "%s: view %v, strides %v, offset %d leaves %v", op, ne, stride, offset, a.Ne)
	return at
}

// Permute moves dimension i of a to position axis[i], as ggml_permute does,
// and makes the result contiguous.
func Permute(a Tensor, axis0, axis1, axis2, axis3 int) Tensor {
	axis := [4]int{axis0, axis1, axis2, axis3}
	var ne, stride [4]int64
	var seen [4]bool
	step := int64(1)
	for i, to := range axis {
		check(to >= 0 && to < 4 && !seen[to], "Permute: axes %v are not a permutation", axis)
		seen[to] = true
		ne[to], stride[to] = a.Ne[i], step
		step *= a.Ne[i]
	}
	out := New(ne[:]...)
	eachRow(ne, func(i1, i2, i3 int64) {
		gather(out.row(i1, i2, i3), a.Data, i1*stride[1]+i2*stride[2]+i3*stride[3], stride[0])
	})
	return out
}

// gather copies the elements at first, first + step, ….
//
//go:norace
func gather(dst, src []float64, first, step int64) {
	for i := range dst {
		dst[i] = src[first+int64(i)*step]
	}
}

// Transpose exchanges the first two dimensions, contiguously.
func Transpose(a Tensor) Tensor { return Permute(a, 1, 0, 2, 3) }

// Repeat repeats a along every dimension until it has shape ne.
func Repeat(a Tensor, ne ...int64) Tensor {
	shape := shapeOf("Repeat", ne)
	check(repeats(a.Ne, shape), "Repeat: shape %v does not repeat to %v", a.Ne, shape)
	return generate(shape, func(i0, i1, i2, i3 int64) float64 {
		return a.At(i0%a.Ne[0], i1%a.Ne[1], i2%a.Ne[2], i3%a.Ne[3])
	})
}

// RepeatBack sums the repetitions in a into shape ne: the gradient of Repeat.
func RepeatBack(a Tensor, ne ...int64) Tensor {
	out := New(ne...)
	check(repeats(out.Ne, a.Ne), "RepeatBack: shape %v does not repeat to %v", out.Ne, a.Ne)
	eachRow(a.Ne, func(i1, i2, i3 int64) {
		dst := out.row(i1%out.Ne[1], i2%out.Ne[2], i3%out.Ne[3])
		for i0, v := range a.row(i1, i2, i3) {
			dst[int64(i0)%out.Ne[0]] += v
		}
	})
	return out
}

// Concat appends b to a along dimension dim; the other dimensions are equal.
func Concat(a, b Tensor, dim int) Tensor {
	check(dim >= 0 && dim < 4, "Concat: dimension %d", dim)
	ne := a.Ne
	ne[dim] += b.Ne[dim]
	for i := range ne {
		check(i == dim || a.Ne[i] == b.Ne[i], "Concat: shapes %v and %v along dimension %d", a.Ne, b.Ne, dim)
	}
	out := New(ne[:]...)
	var at [4]int64
	for _, src := range []Tensor{a, b} {
		eachRow(src.Ne, func(i1, i2, i3 int64) {
			copy(out.row(at[1]+i1, at[2]+i2, at[3]+i3)[at[0]:], src.row(i1, i2, i3))
		})
		at[dim] += src.Ne[dim]
	}
	return out
}

// Pad appends p[i] zeros along each dimension i.
func Pad(a Tensor, p0, p1, p2, p3 int64) Tensor {
	return PadExt(a, [4]int64{}, [4]int64{p0, p1, p2, p3})
}

// PadExt puts left[i] zeros before and right[i] zeros after a along each
// dimension i.
func PadExt(a Tensor, left, right [4]int64) Tensor {
	var ne [4]int64
	for i := range ne {
		check(left[i] >= 0 && right[i] >= 0, "PadExt: negative padding %v, %v", left, right)
		ne[i] = left[i] + a.Ne[i] + right[i]
	}
	return generate(ne, func(i0, i1, i2, i3 int64) float64 {
		at := [4]int64{i0 - left[0], i1 - left[1], i2 - left[2], i3 - left[3]}
		for i, v := range at {
			if v < 0 || v >= a.Ne[i] {
				return 0
			}
		}
		return a.At(at[0], at[1], at[2], at[3])
	})
}

// Roll moves element i of each dimension d to (i + shift[d]) mod ne[d].
func Roll(a Tensor, shift0, shift1, shift2, shift3 int64) Tensor {
	from := func(i, shift, n int64) int64 { return ((i-shift)%n + n) % n }
	return generate(a.Ne, func(i0, i1, i2, i3 int64) float64 {
		return a.At(from(i0, shift0, a.Ne[0]), from(i1, shift1, a.Ne[1]),
			from(i2, shift2, a.Ne[2]), from(i3, shift3, a.Ne[3]))
	})
}

// Arange returns start, start + step, … below stop: ⌈(stop − start)/step⌉ values.
func Arange(start, stop, step float64) Tensor {
	check(step > 0 && stop > start, "Arange: no values from %v to %v by %v", start, stop, step)
	var out []float64
	for i := 0; start+float64(i)*step < stop; i++ {
		out = append(out, start+float64(i)*step)
	}
	return From(out)
}

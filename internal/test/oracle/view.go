package oracle

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A view is a part of a root: elements at offset + Σ iₖ·stride[k].
type view struct {
	root   int
	offset int64
	ne     [4]int64
	stride [4]int64
}

// viewOf returns the view of a tensor. It converts byte strides to elements, also for blocks.
func (p *Program) viewOf(t *ggml.Tensor) (view, error) {
	if v, known := p.views[t.Key()]; known {
		return v, nil
	}
	source, isView := t.ViewSource()
	if !isView {
		source = t
	}
	i, err := p.rootOf(source, nil)
	if err != nil {
		return view{}, err
	}
	block, bytes := t.Type().BlockSize(), t.Type().BlockBytes()
	elements := func(n int64) int64 { return n / int64(bytes) * int64(block) }
	v := view{root: i, offset: elements(t.ViewOffset()), ne: shapeOf(t)}
	for k := range v.stride {
		v.stride[k] = elements(t.Stride(k))
	}
	if block > 1 {
		v.stride[0] = 1
	}
	p.views[t.Key()] = v
	return v, nil
}

// isWhole reports whether the view covers its root completely and in order.
func (v view) isWhole(data []float64) bool {
	next := int64(1)
	for k, n := range v.ne {
		if n > 1 && v.stride[k] != next {
			return false
		}
		next *= n
	}
	return v.offset == 0 && next == int64(len(data))
}

// gather reads the elements; the result may share memory with the root.
func (v view) gather(data [][]float64) refmath.Tensor {
	from := data[v.root]
	if v.isWhole(from) {
		return refmath.Tensor{Ne: v.ne, Data: from}
	}
	x := refmath.New(v.ne[:]...)
	v.eachRow(func(row int, at int64) { gatherRow(x.Row(int64(row)), from[at:], v.stride[0]) })
	return x
}

// scatter writes the elements.
func (v view) scatter(data [][]float64, x refmath.Tensor) {
	to := data[v.root]
	if v.isWhole(to) {
		copy(to, x.Data)
		return
	}
	v.eachRow(func(row int, at int64) { scatterRow(to[at:], x.Row(int64(row)), v.stride[0]) })
}

// eachRow calls f for each row with its number and its offset in the root.
func (v view) eachRow(f func(row int, at int64)) {
	row := 0
	for i3 := range v.ne[3] {
		for i2 := range v.ne[2] {
			for i1 := range v.ne[1] {
				f(row, v.offset+i1*v.stride[1]+i2*v.stride[2]+i3*v.stride[3])
				row++
			}
		}
	}
}

// The loops over elements are marked go:norace: a program belongs to one goroutine.
//
//go:norace
func gatherRow(to, from []float64, stride int64) {
	for i := range to {
		to[i] = from[int64(i)*stride]
	}
}

//go:norace
func scatterRow(to, from []float64, stride int64) {
	for i, x := range from {
		to[int64(i)*stride] = x
	}
}

package train

import (
	"cmp"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
)

// A run is a sequence of parameters that are adjacent in memory and updated by the same settings, so
// that one op updates all of them. Their gradients and moments are adjacent too. A parameter that is
// not part of a larger tensor is a run of its own.
type run struct {
	group               int   // index in optimizer.groups
	members             []int // indices in optimizer.params
	elements            int64
	grad, first, second *ggml.Tensor // of the whole run [elements]
}

// runElements limits the size of a run: the results of its update are as large as the run.
const runElements = 1 << 22

// runsOf divides parameters into runs, given the group of each.
func runsOf(params []parameter, groups []int) []run {
	var list []run
	latest := map[ggml.TensorKey]int{} // index of the latest run of each tensor that parameters are views of
	for _, i := range byOffset(params) {
		p := params[i]
		whole, isPart := p.ViewSource()
		if isPart && p.IsContiguous() {
			if j, known := latest[whole.Key()]; known && list[j].isFollowedBy(params, i, groups[i]) {
				list[j].members, list[j].elements = append(list[j].members, i), list[j].elements+p.NumElements()
				continue
			}
			latest[whole.Key()] = len(list)
		}
		list = append(list, run{group: groups[i], members: []int{i}, elements: p.NumElements()})
	}
	return list
}

// byOffset returns the indices of parameters by ascending offset in their tensors. Equal offsets keep
// their order.
func byOffset(params []parameter) []int {
	order := make([]int, len(params))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(params[a].ViewOffset(), params[b].ViewOffset()) })
	return order
}

// isFollowedBy reports whether the run can be extended by parameter i.
func (r run) isFollowedBy(params []parameter, i, group int) bool {
	last := params[r.members[len(r.members)-1]]
	return group == r.group && params[i].ViewOffset() == last.ViewOffset()+last.NumBytes() && r.elements+params[i].NumElements() <= runElements
}

// beside creates a tensor for the run on the device of its parameters.
func (o *optimizer) beside(r run, m *layout.Memory) *ggml.Tensor {
	p, shape := o.params[r.members[0]], []int64{r.elements}
	if len(r.members) == 1 {
		shape = p.Shape()
	}
	x := o.stateCtx.NewTensor(ggml.F32, shape...)
	m.Add(p.weight.Layer, p.weight.Kind, x)
	return x
}

// parameters returns all parameters of a run as one tensor.
func (o *optimizer) parameters(r run) *ggml.Tensor {
	p := o.params[r.members[0]]
	if len(r.members) == 1 {
		return p.Tensor
	}
	whole, _ := p.ViewSource()
	return o.graphCtx.View(whole, []int64{r.elements}, nil, p.ViewOffset()).SetParam()
}

// parts divides a tensor of the run's size into views, one per parameter.
func (o *optimizer) parts(r run, x *ggml.Tensor) []*ggml.Tensor {
	if len(r.members) == 1 {
		return []*ggml.Tensor{x}
	}
	var list []*ggml.Tensor
	offset := int64(0)
	for _, i := range r.members {
		list = append(list, o.stateCtx.View(x, o.params[i].Shape(), nil, offset))
		offset += o.params[i].NumBytes()
	}
	return list
}

package train

import (
	"cmp"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
)

// A run are parameters that lie one after the other and move by the same settings, so that one op
// updates all of them; gradients and moments lie as the parameters do. A parameter that is no part of
// a larger tensor is a run of its own.
type run struct {
	group               int   // index in optimizer.groups
	members             []int // indices in optimizer.params
	elements            int64
	grad, first, second *ggml.Tensor // of all
}

// runElements bounds a run: its update needs memory for results of that size.
const runElements = 1 << 22

// runsOf divides parameters, given the group of each.
func runsOf(params []parameter, groups []int) []run {
	var list []run
	latest := map[ggml.TensorKey]int{} // run in what the parameters are views of
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

// byOffset is the order of parameters in memory; those that are no parts keep theirs.
func byOffset(params []parameter) []int {
	order := make([]int, len(params))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(params[a].ViewOffset(), params[b].ViewOffset()) })
	return order
}

// isFollowedBy reports whether the run can go on with a parameter.
func (r run) isFollowedBy(params []parameter, i, group int) bool {
	last := params[r.members[len(r.members)-1]]
	return group == r.group && params[i].ViewOffset() == last.ViewOffset()+last.NumBytes() && r.elements+params[i].NumElements() <= runElements
}

// beside makes a tensor of the shape of the run, where its parameters lie.
func (o *optimizer) beside(r run, m *layout.Memory) *ggml.Tensor {
	p, shape := o.params[r.members[0]], []int64{r.elements}
	if len(r.members) == 1 {
		shape = p.Shape()
	}
	x := o.stateCtx.NewTensor(ggml.F32, shape...)
	m.Add(p.weight.Layer, p.weight.Kind, x)
	return x
}

// parameters is all of a run in one.
func (o *optimizer) parameters(r run) *ggml.Tensor {
	p := o.params[r.members[0]]
	if len(r.members) == 1 {
		return p.Tensor
	}
	whole, _ := p.ViewSource()
	return o.graphCtx.View(whole, []int64{r.elements}, nil, p.ViewOffset()).SetParam()
}

// parts divides a tensor of a run by its parameters.
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

package model

import (
	"fmt"

	"github.com/goggml/ggml"
)

// A Milestone is the point of the backward pass after which the graph adds nothing more to some
// accumulators of gradients.
type Milestone struct {
	Grads []*ggml.Tensor // of TrainGraphOptions.Grads
	// Reached is called there by the computation, which waits for it, and whose error it may be.
	Reached func() error
}

// addMilestones puts nodes into the graph that call the functions.
func (l *LossGraph) addMilestones(list []Milestone) error {
	last, err := lastWrites(l.Graph, list)
	if err != nil {
		return err
	}
	g, i := l.ctx.NewGraph(), 0
	var nodes []*ggml.Tensor
	for node := range l.Graph.Nodes() {
		nodes = append(nodes, node)
		for _, m := range last[i] {
			nodes = append(nodes, l.ctx.Custom(ggml.CustomOptions{
				Func:    func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return list[m].Reached() },
				Threads: 1, Type: ggml.F32, Shape: []int64{1},
			}, node))
		}
		i++
	}
	l.Graph = g.Expand(nodes...)
	return l.ctx.Err()
}

// lastWrites gives, by the index of a node, the milestones that are reached there.
func lastWrites(g *ggml.Graph, list []Milestone) (map[int][]int, error) {
	of, last := map[ggml.TensorKey]int{}, make([]int, len(list))
	for m, milestone := range list {
		last[m] = -1
		for _, acc := range milestone.Grads {
			of[acc.Key()] = m
		}
	}
	i := 0
	for node := range g.Nodes() {
		for _, x := range node.Sources() {
			if m, ok := of[x.Key()]; ok {
				of[node.Key()], last[m] = m, i // which may be added to in turn
			}
		}
		i++
	}
	at := map[int][]int{}
	for m, i := range last {
		if i < 0 {
			return nil, fmt.Errorf("the graph adds nothing to the gradients of milestone %d", m)
		}
		at[i] = append(at[i], m)
	}
	return at, nil
}

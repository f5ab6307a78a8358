package lossgraph

import (
	"fmt"

	"github.com/goggml/ggml"
)

// A Hook is called in the backward pass once some gradient accumulators are complete.
type Hook struct {
	Grads []*ggml.Tensor // accumulators of Options.Grads
	// The computation calls Call, waits for it, and fails with its error.
	Call func() error
}

// addHooks inserts nodes into the graph that call the hooks.
func (l *Graph) addHooks(list []Hook) error {
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
				Func:    func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return list[m].Call() },
				Threads: 1, Type: ggml.F32, Shape: []int64{1},
			}, node))
		}
		i++
	}
	l.Graph = g.Expand(nodes...)
	return l.ctx.Err()
}

// lastWrites returns, by node index, the hooks that are called after the node.
func lastWrites(g *ggml.Graph, list []Hook) (map[int][]int, error) {
	of, last := map[ggml.TensorKey]int{}, make([]int, len(list))
	for m, hook := range list {
		last[m] = -1
		for _, acc := range hook.Grads {
			of[acc.Key()] = m
		}
	}
	i := 0
	for node := range g.Nodes() {
		for _, x := range node.Sources() {
			if m, ok := of[x.Key()]; ok {
				of[node.Key()], last[m] = m, i // later nodes may add to the result
			}
		}
		i++
	}
	at := map[int][]int{}
	for m, i := range last {
		if i < 0 {
			return nil, fmt.Errorf("no gradient reaches hook %d of the graph", m)
		}
		at[i] = append(at[i], m)
	}
	return at, nil
}

package device

import (
	"slices"

	"github.com/goggml/ggml"
)

// A liveness knows of a graph from when to when there are which results, and so what they take
// wherever what the graph computes of lies.
type liveness struct {
	blocks []block
	nodes  []liveNode
}

// A block is memory: of a result and its views, of what is held, or of an input.
type block struct {
	size  int64
	owner int   // in Demand.held, −1 for none
	node  int   // that makes it; −1 for what is there before
	uses  []int // nodes that read it, in order
	over  int   // the block that a result may be written over, −1 for none
}

// A liveNode is what decides where a node is computed.
type liveNode struct {
	block   int
	isView  bool
	sources []int // blocks
	owner   int   // in Demand.held, of the weight with which it computes or to which it writes; −1 for none
}

const alignment = 128 // of most devices, in bytes

// livenessOf reads a graph.
func (d *Demand) livenessOf(g *ggml.Graph) *liveness {
	l, of := &liveness{}, map[ggml.TensorKey]int{}
	blockOf := func(t *ggml.Tensor) int {
		if root, is := t.ViewSource(); is {
			t = root
		}
		i, known := of[t.Key()]
		if !known {
			owner, isHeld := d.owners[t.Key()]
			if !isHeld {
				owner = -1
			}
			i = len(l.blocks)
			of[t.Key()] = i
			l.blocks = append(l.blocks, block{size: (t.NumBytes() + alignment - 1) / alignment * alignment, owner: owner, node: -1, over: -1})
		}
		return i
	}
	number := 0
	for t := range g.Nodes() {
		n := liveNode{block: blockOf(t), isView: slices.Contains(views, t.Op()), owner: -1}
		if own := &l.blocks[n.block]; own.owner >= 0 {
			n.owner = own.owner
		} else if own.node < 0 && !t.IsView() {
			own.node = number
		}
		for _, source := range t.Sources() {
			b := blockOf(source)
			n.sources = append(n.sources, b)
			if uses := l.blocks[b].uses; len(uses) == 0 || uses[len(uses)-1] != number {
				l.blocks[b].uses = append(uses, number)
			}
			// As the scheduler chooses, to which the factors of RoPE are too small to count.
			if n.owner < 0 && !n.isView && t.Op() != "rope" {
				n.owner = l.blocks[b].owner
			}
		}
		if own := &l.blocks[n.block]; own.node == number && slices.Contains(inPlace, t.Op()) {
			for _, b := range n.sources {
				if l.blocks[b].node >= 0 && l.blocks[b].size == own.size {
					own.over = b
					break
				}
			}
		}
		l.nodes = append(l.nodes, n)
		number++
	}
	return l
}

// views are ops that compute nothing.
var views = []string{"view", "reshape", "permute", "transpose"}

// inPlace are ops whose result ggml writes over an operand that nothing else needs.
var inPlace = []string{"scale", "add", "add_id", "sub", "mul", "div", "sqr", "sqrt", "log", "rope", "rms_norm", "soft_max", "sigmoid", "tanh", "gelu", "silu", "relu", "softplus", "exp", "neg", "step", "abs"}

// peaks are the most bytes at a time on each of so many devices, of which the last is the CPU; held are
// the devices of what is held.
func (l *liveness) peaks(held []int, devices int) []int64 {
	at := l.assign(held, devices)
	home := make([]int, len(l.blocks))
	for i, b := range l.blocks {
		switch {
		case b.owner >= 0:
			home[i] = held[b.owner]
		case b.node >= 0:
			home[i] = at[b.node]
		default:
			home[i] = devices - 1 // an input
		}
	}
	changes := make([][]int64, devices)
	for i := range changes {
		changes[i] = make([]int64, len(l.nodes)+2)
	}
	lives := func(device, from, to int, size int64) {
		changes[device][from] += size
		changes[device][to] -= size
	}
	reused := make([]bool, len(l.blocks))
	for i, b := range l.blocks {
		if o := b.over; o >= 0 && home[o] == home[i] && l.blocks[o].last() == b.node {
			reused[o] = true
		}
	}
	first, last := make([]int, devices), make([]int, devices)
	for i, b := range l.blocks {
		end := len(l.nodes)
		switch {
		case reused[i]:
			end = b.last()
		case len(b.uses) > 0:
			end = b.last() + 1
		}
		switch {
		case b.owner >= 0:
		case b.node >= 0:
			lives(home[i], b.node, end, b.size)
		default:
			lives(home[i], 0, len(l.nodes), b.size)
		}
		// Others that read it have a copy meanwhile.
		for d := range devices {
			first[d] = -1
		}
		for _, n := range b.uses {
			d := at[n]
			if first[d] < 0 {
				first[d] = n
			}
			last[d] = n
		}
		for d := range devices {
			if d != home[i] && first[d] >= 0 {
				lives(d, first[d], last[d]+1, b.size)
			}
		}
	}
	most := make([]int64, devices)
	for d, list := range changes {
		n := int64(0)
		for _, change := range list {
			n += change
			most[d] = max(most[d], n)
		}
	}
	return most
}

func (b *block) last() int {
	if len(b.uses) == 0 {
		return -1
	}
	return b.uses[len(b.uses)-1]
}

// assign chooses the device of each node as ggml's scheduler does: that of the weight it computes with,
// or else that of its neighbours, rather one that is not the CPU.
func (l *liveness) assign(held []int, devices int) []int {
	cpu := devices - 1
	at := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		at[i] = -1
		if n.owner >= 0 {
			at[i] = held[n.owner]
		}
	}
	expand := func(i int, current *int, spreads func(device int) bool) {
		switch n := &l.nodes[i]; {
		case n.isView:
		case at[i] >= 0:
			*current = at[i]
			if !spreads(at[i]) {
				*current = -1
			}
		case *current >= 0:
			at[i] = *current
		}
	}
	notCPU, all := func(d int) bool { return d != cpu }, func(int) bool { return true }
	for _, spreads := range []func(int) bool{notCPU, all} {
		current := -1
		for i := range l.nodes {
			expand(i, &current, spreads)
		}
		current = -1
		for i := len(l.nodes) - 1; i >= 0; i-- {
			expand(i, &current, spreads)
		}
	}
	for i, n := range l.nodes {
		if at[i] >= 0 {
			continue
		}
		at[i] = cpu
		if n.isView { // where its data lies
			switch b := l.blocks[n.block]; {
			case b.owner >= 0:
				at[i] = held[b.owner]
			case b.node >= 0 && b.node < i:
				at[i] = at[b.node]
			}
		}
	}
	return at
}

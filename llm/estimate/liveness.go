package estimate

import (
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A liveness holds the lifetimes of a graph's results. From them follows the memory on each device,
// wherever the persistent tensors are.
type liveness struct {
	blocks []block
	nodes  []liveNode
}

// A block is the memory of a result and its views, of a persistent tensor, or of an input.
type block struct {
	size  int64
	owner int   // index in Memory.held; −1 if not persistent
	node  int   // node that computes it; −1 if it exists before the graph
	uses  []int // nodes that read it, in ascending order
	over  int   // block whose memory the result may reuse in place; −1 if none
}

// A liveNode holds what determines the device of a node.
type liveNode struct {
	block   int
	isView  bool
	inPlace bool  // its result may reuse the memory of an operand
	sources []int // indices of blocks
	whole   []int // sources that it reads directly, not through a view
	owner   int   // index in Memory.held of the weight that it reads or writes; −1 if none
	onCPU   bool  // always computed on the CPU, wherever its weight is
}

// aligned rounds a size up to the alignment of most devices.
func aligned(size int64) int64 {
	const alignment = 128
	return (size + alignment - 1) / alignment * alignment
}

// livenessOf analyses a graph.
func (m *Memory) livenessOf(g *ggml.Graph) *liveness {
	l, of := &liveness{}, map[ggml.TensorKey]int{}
	blockOf := func(t *ggml.Tensor) int {
		if root, is := t.ViewSource(); is {
			t = root
		}
		i, known := of[t.Key()]
		if !known {
			owner, isHeld := m.owners[t.Key()]
			if !isHeld {
				owner = -1
			}
			i = len(l.blocks)
			of[t.Key()] = i
			l.blocks = append(l.blocks, block{size: aligned(t.NumBytes()), owner: owner, node: -1, over: -1})
		}
		return i
	}
	number, written := 0, map[ggml.TensorKey]bool{}
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
			if !source.IsView() {
				n.whole = append(n.whole, b)
			}
			if uses := l.blocks[b].uses; len(uses) == 0 || uses[len(uses)-1] != number {
				l.blocks[b].uses = append(uses, number)
			}
			// ggml's scheduler does likewise: RoPE factors are too small to determine the device, and a tensor
			// that a node has written does not count as a weight.
			if n.owner < 0 && !n.isView && t.Op() != "rope" && !written[source.Key()] {
				n.owner = l.blocks[b].owner
			}
			written[t.Key()] = written[t.Key()] || n.isView && written[source.Key()]
		}
		if n.onCPU = isOfProcess(t); n.onCPU && t.IsView() {
			if b := l.blocks[n.block]; b.node >= 0 {
				l.nodes[b.node].onCPU = true // changed in place on the CPU
			}
		}
		written[t.Key()] = written[t.Key()] || !n.isView && t.Op() != "none" // parameters are leaves with op none
		n.inPlace = slices.Contains(inPlace, t.Op())
		l.nodes = append(l.nodes, n)
		number++
	}
	l.reuse()
	return l
}

// reuse finds the blocks that a node writes over, in place: it is the last to read them.
func (l *liveness) reuse() {
	for i, n := range l.nodes {
		own := &l.blocks[n.block]
		over := slices.IndexFunc(n.whole, func(b int) bool { return l.blocks[b].size == own.size && l.blocks[b].last() == i })
		if own.node == i && n.inPlace && over >= 0 {
			own.over = n.whole[over]
		}
	}
}

// isOfProcess reports whether a function of this process computes a node, which the scheduler gives to the CPU alone.
func isOfProcess(t *ggml.Tensor) bool { return strings.Contains(t.OpCode().String(), "custom") }

// views lists ops that compute nothing.
var views = []string{"view", "reshape", "permute", "transpose"}

// inPlace lists ops whose result ggml writes over an operand that no later node needs.
var inPlace = []string{"scale", "fill", "add", "add_id", "sub", "mul", "div", "sqr", "sqrt", "log", "rope", "rms_norm", "soft_max", "sigmoid", "tanh", "gelu", "silu", "relu", "softplus", "exp", "neg", "step", "abs"}

// homes returns the device of each block, given the devices of the owners and of the nodes.
func (l *liveness) homes(held, at []int, devices int) []int {
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
	return home
}

// peaks returns the peak number of bytes on each device, the CPU last; held[i] is the device of
// persistent tensor i.
func (l *liveness) peaks(held []int, devices int) []int64 {
	at := l.assign(held, devices)
	home := l.homes(held, at, devices)
	allocators := make([]allocation, devices)
	lives := make([][]int, len(l.blocks)) // per device, the lifetime of the block or its copy; −1 if none
	for i := range lives {
		lives[i] = slices.Repeat([]int{-1}, devices)
	}
	first, last, begins := make([]int, devices), make([]int, devices), l.begins(at)
	for i, b := range l.blocks {
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
		own := &allocators[home[i]]
		switch {
		case b.owner >= 0:
		case b.node >= 0:
			life := lifetime{from: b.node, order: b.node, size: b.size, over: -1}
			for d := range devices {
				switch {
				case first[d] < 0:
				case d == home[i]:
					life.to = max(life.to, last[d]+1)
				default: // until the other device has copied it
					life.to = max(life.to, begins[first[d]]+1)
				}
			}
			if len(b.uses) == 0 {
				life.to = len(l.nodes)
			}
			if o := b.over; o >= 0 {
				life.over = lives[o][home[i]]
			}
			lives[i][home[i]] = own.add(life)
		default:
			own.add(lifetime{from: 0, order: -1, to: len(l.nodes), size: b.size, over: -1})
		}
		// A device that reads the block from another has a copy, from the start of the split that needs it.
		for d := range devices {
			if d != home[i] && first[d] >= 0 {
				lives[i][d] = allocators[d].add(lifetime{from: begins[first[d]], order: -1, to: last[d] + 1, size: b.size, over: -1})
			}
		}
	}
	most := make([]int64, devices)
	for d := range allocators {
		most[d] = allocators[d].most()
	}
	return most
}

// begins returns, for each node, the first node of its split: a run of nodes on the same device.
func (l *liveness) begins(at []int) []int {
	begins, first, device := make([]int, len(at)), 0, -1
	for i, n := range l.nodes {
		if !n.isView && at[i] != device {
			first, device = i, at[i]
		}
		begins[i] = first
	}
	return begins
}

func (b *block) last() int {
	if len(b.uses) == 0 {
		return -1
	}
	return b.uses[len(b.uses)-1]
}

// assign chooses the device of each node as ggml's scheduler does: the device of its weight, or else a
// neighbour's device, preferably not the CPU.
func (l *liveness) assign(held []int, devices int) []int {
	cpu := devices - 1
	at := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		at[i] = -1
		switch {
		case n.onCPU:
			at[i] = cpu
		case n.owner >= 0:
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
		if n.isView { // the device of its data
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

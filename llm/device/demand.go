package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
)

// A Demand is what a run needs of the memory of devices, in whatever layout: what it holds, and the
// results of its graphs. It is made from a model on the CPU, by the ops that all devices have, and
// stays valid when that is closed. The zero value has nothing yet. It is used by one goroutine.
type Demand struct {
	devices []*ggml.Device
	lacks   []map[string]bool // of the devices, by op
	held    []held
	owners  map[ggml.TensorKey]int // in held
	graphs  []*liveness
	err     error // of what was added
}

// held is memory that belongs to a weight.
type held struct {
	layer int
	kind  string
	size  int64
}

// NewDemand makes one that has nothing yet. Of the devices it finds out which ops they lack.
func NewDemand(devices ...*ggml.Device) *Demand {
	d := &Demand{}
	for _, of := range devices {
		if of == nil {
			d.err = errors.New("a device of the demand is nil")
			continue
		}
		d.devices, d.lacks = append(d.devices, of), append(d.lacks, map[string]bool{})
	}
	return d
}

// Check says what is wrong with a demand that is nil, or with what was added to it.
func (d *Demand) Check() error {
	if d == nil {
		return errors.New("the demand is nil")
	}
	return d.err
}

// Hold adds tensors that are of a kind of weight, or belong to it, as [Memory.Add] does.
func (d *Demand) Hold(layer int, kind string, tensors ...*ggml.Tensor) {
	if d.Check() != nil {
		return
	}
	if d.owners == nil {
		d.owners = map[ggml.TensorKey]int{}
	}
	for _, t := range tensors {
		if t == nil {
			d.err = fmt.Errorf("a tensor of %s is nil", kind)
			return
		}
		if _, known := d.owners[t.Key()]; known {
			continue
		}
		d.owners[t.Key()] = len(d.held)
		d.held = append(d.held, held{layer, kind, t.NumBytes()})
	}
}

// Compute adds the results of a graph of what is held. Graphs take their memory beside each other.
func (d *Demand) Compute(g *ggml.Graph) {
	switch {
	case d.Check() != nil:
		return
	case g == nil:
		d.err = errors.New("a graph of the demand is nil")
		return
	}
	d.graphs = append(d.graphs, d.livenessOf(g))
	for node := range g.Nodes() {
		for i, of := range d.devices {
			if op := node.Op(); !node.IsView() && !d.lacks[i][op] && !of.SupportsOp(node) {
				d.lacks[i][op] = true
			}
		}
	}
}

// Lacks lists the ops that a device does not have, which the CPU computes for it.
func (d *Demand) Lacks(of *ggml.Device) []string {
	var ops []string
	if d == nil || of == nil {
		return nil
	}
	for i, other := range d.devices {
		if *other == *of {
			for op := range d.lacks[i] {
				ops = append(ops, op)
			}
		}
	}
	slices.Sort(ops)
	return ops
}

// In is what a layout needs of each of its devices, and of the CPU as the last. Results count a quarter
// more than they take: devices have memory of their own in use, and it has gaps.
func (d *Demand) In(l Layout) (Sizes, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	p, err := l.places()
	if err != nil {
		return nil, err
	}
	sizes, at := make(Sizes, len(p.devices)), make([]int, len(d.held))
	for i, h := range d.held {
		if at[i], err = p.index(h.layer, h.kind); err != nil {
			return nil, err
		}
		sizes[at[i]] += h.size
	}
	for _, g := range d.graphs {
		for i, n := range g.peaks(at, len(p.devices)) {
			sizes[i] += n / 4 * 5
		}
	}
	return sizes, nil
}

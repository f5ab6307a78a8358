package device

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/layout"
)

// A Demand estimates the memory of a run on devices, in any layout: tensors that stay, and the
// results of its graphs. It is made from a model on the CPU, by the ops that all devices have, and
// stays valid when the model is closed. The zero value is empty. It is used by one goroutine.
type Demand struct {
	devices []*ggml.Device
	layout  *layout.Places    // of NewDemandIn
	lacks   []map[string]bool // of the devices, by op
	part    string            // of what is added
	held    []held
	owners  map[ggml.TensorKey]int // in held
	works   []work
	err     error // of what was added
	access  exclusive.Access
}

// held is memory that belongs to a weight.
type held struct {
	part  string
	layer int
	kind  string
	size  int64
}

// A work are graphs that share memory, one after the other.
type work struct {
	part   string
	graphs []*liveness
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

// NewDemandIn makes one for a layout: its graphs are of the ops by which that is computed, and say nothing of another.
func NewDemandIn(l layout.Layout) *Demand {
	p, err := l.Places()
	if err != nil {
		return &Demand{err: err}
	}
	d := NewDemand(slices.DeleteFunc(slices.Clone(l.Devices), func(d *ggml.Device) bool { return d.Type() == ggml.CPU })...)
	d.layout = &p
	return d
}

// IsCPU reports whether it is asked about the CPU alone.
func (d *Demand) IsCPU() bool { return d != nil && d.layout != nil && d.layout.Layout.IsCPU() }

// Engine makes an engine for building the demand's graphs, of models that lie in a layout on the CPU: by the ops of the
// layout in question or, if that is unknown, by the ops that all devices have. It must not compute.
func (d *Demand) Engine(l layout.Layout) (*Engine, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	asked := layout.Layout{Devices: d.devices}
	if d.layout != nil {
		asked = d.layout.Layout
	}
	if d.IsCPU() {
		return New(Options{Layout: l, Threads: 1})
	}
	there, err := New(Options{Layout: asked, Threads: 1})
	if err != nil {
		return nil, err
	}
	e, err := New(Options{Layout: l, Threads: 1})
	if err != nil {
		there.Close()
		return nil, err
	}
	e.there, e.planned = there, there.Lowerings
	if d.layout == nil {
		e.planned = there.everywhere
	}
	return e, nil
}

// Check returns an error for a nil demand, or the error of what was added to it.
func (d *Demand) Check() error {
	if d == nil {
		return errors.New("the demand is nil")
	}
	return cmp.Or(d.access.Err(), d.err)
}

// Part names what is added from now on, for [Demand.Parts].
func (d *Demand) Part(name string) {
	if d != nil && d.access.Try("Demand.Part", "Demand") {
		d.part = name
		d.access.Release()
	}
}

// Hold adds tensors that are of a kind of weight, or belong to it, as [layout.Memory.Add] does.
func (d *Demand) Hold(layer int, kind string, tensors ...*ggml.Tensor) {
	if d.Check() != nil || !d.access.Try("Demand.Hold", "Demand") {
		return
	}
	defer d.access.Release()
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
		d.held = append(d.held, held{d.part, layer, kind, aligned(t.NumBytes())})
	}
}

// Compute adds the results of graphs, which run one after the other and share memory. The results of several calls
// exist side by side.
func (d *Demand) Compute(graphs ...*ggml.Graph) {
	if d.Check() != nil || !d.access.Try("Demand.Compute", "Demand") {
		return
	}
	defer d.access.Release()
	w := work{part: d.part}
	for _, g := range graphs {
		if g == nil {
			d.err = errors.New("a graph of the demand is nil")
			return
		}
		w.graphs = append(w.graphs, d.livenessOf(g))
		d.findLacks(g)
	}
	d.works = append(d.works, w)
}

// findLacks finds what the devices lack of the ops of a graph.
func (d *Demand) findLacks(g *ggml.Graph) {
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

// In estimates the bytes on each device of a layout, the CPU last: the sum of [Demand.Parts], with an eighth added to
// results for the memory that drivers use.
func (d *Demand) In(l layout.Layout) (layout.Sizes, error) {
	parts, results, err := d.in(l)
	if err != nil {
		return nil, err
	}
	sum := slices.Clone(results)
	for i, n := range results {
		sum[i] = n / 8
	}
	for _, sizes := range parts {
		sum = sum.Plus(sizes)
	}
	return sum, nil
}

// Parts returns the memory that a layout needs on each of its devices, the CPU last, for each part of the
// demand.
func (d *Demand) Parts(l layout.Layout) (map[string]layout.Sizes, error) {
	parts, _, err := d.in(l)
	return parts, err
}

// in returns what a layout needs, by parts, and the part of results.
func (d *Demand) in(l layout.Layout) (parts map[string]layout.Sizes, results layout.Sizes, err error) {
	if err := d.Check(); err != nil {
		return nil, nil, err
	}
	if err := d.access.Acquire("Demand.Parts", "Demand"); err != nil {
		return nil, nil, err
	}
	defer d.access.Release()
	p, err := l.Places()
	if err != nil {
		return nil, nil, err
	}
	parts, results = map[string]layout.Sizes{}, make(layout.Sizes, len(p.Devices))
	of := func(part string) layout.Sizes {
		if parts[part] == nil {
			parts[part] = make(layout.Sizes, len(p.Devices))
		}
		return parts[part]
	}
	at := make([]int, len(d.held))
	for i, h := range d.held {
		if at[i], err = p.Index(h.layer, h.kind); err != nil {
			return nil, nil, err
		}
		of(h.part)[at[i]] += h.size
	}
	for _, w := range d.works {
		most := make(layout.Sizes, len(p.Devices))
		for _, g := range w.graphs {
			for i, n := range g.peaks(at, len(p.Devices)) {
				most[i] = max(most[i], n)
			}
		}
		parts[w.part] = of(w.part).Plus(most)
		results = results.Plus(most)
	}
	return parts, results, nil
}

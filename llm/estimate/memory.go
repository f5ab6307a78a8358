package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// A Memory estimates the memory of a run on devices, in any layout: tensors that stay, and the
// results of its graphs. It is made from a model on the CPU, by the ops that all devices have, and
// stays valid when the model is closed. The zero value is empty. It is used by one goroutine.
type Memory struct {
	devices []*ggml.Device
	layout  *layout.Places    // of NewIn
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

// New makes one that has nothing yet. Of the devices it finds out which ops they lack.
func New(devices ...*ggml.Device) *Memory {
	m := &Memory{}
	for _, of := range devices {
		if of == nil {
			m.err = errors.New("a device of the memory estimate is nil")
			continue
		}
		m.devices, m.lacks = append(m.devices, of), append(m.lacks, map[string]bool{})
	}
	return m
}

// NewIn makes one for a layout: its graphs are of the ops by which that is computed, and say nothing of another.
func NewIn(l layout.Layout) *Memory {
	p, err := l.Places()
	if err != nil {
		return &Memory{err: err}
	}
	m := New(slices.DeleteFunc(slices.Clone(l.Devices), func(d *ggml.Device) bool { return d.Type() == ggml.CPU })...)
	m.layout = &p
	return m
}

// IsCPU reports whether it is asked about the CPU alone.
func (m *Memory) IsCPU() bool { return m != nil && m.layout != nil && m.layout.Layout.IsCPU() }

// Engine makes an engine for building the graphs of the estimate, of models that lie in a layout on the CPU: by the ops of
// the layout in question or, if that is unknown, by the ops that all devices have. It must not compute.
func (m *Memory) Engine(l layout.Layout) (*device.Engine, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	switch {
	case m.IsCPU():
		return device.New(device.Options{Layout: l, Threads: 1})
	case m.layout != nil:
		return device.NewPlanning(l, m.layout.Layout, true)
	}
	return device.NewPlanning(l, layout.Layout{Devices: m.devices}, false)
}

// Check returns an error for a nil estimate, or the error of what was added to it.
func (m *Memory) Check() error {
	if m == nil {
		return errors.New("the memory estimate is nil")
	}
	return cmp.Or(m.access.Err(), m.err)
}

// Part names what is added from now on, for [Memory.Parts].
func (m *Memory) Part(name string) {
	if m != nil && m.access.Try("Memory.Part", "Memory") {
		m.part = name
		m.access.Release()
	}
}

// Hold adds tensors that are of a kind of weight, or belong to it, as [layout.Memory.Add] does.
func (m *Memory) Hold(layer int, kind string, tensors ...*ggml.Tensor) {
	if m.Check() != nil || !m.access.Try("Memory.Hold", "Memory") {
		return
	}
	defer m.access.Release()
	if m.owners == nil {
		m.owners = map[ggml.TensorKey]int{}
	}
	for _, t := range tensors {
		if t == nil {
			m.err = fmt.Errorf("a tensor of %s is nil", kind)
			return
		}
		if _, known := m.owners[t.Key()]; known {
			continue
		}
		m.owners[t.Key()] = len(m.held)
		m.held = append(m.held, held{m.part, layer, kind, aligned(t.NumBytes())})
	}
}

// Compute adds the results of graphs, which run one after the other and share memory. The results of several calls
// exist side by side.
func (m *Memory) Compute(graphs ...*ggml.Graph) {
	if m.Check() != nil || !m.access.Try("Memory.Compute", "Memory") {
		return
	}
	defer m.access.Release()
	w := work{part: m.part}
	for _, g := range graphs {
		if g == nil {
			m.err = errors.New("a graph of the memory estimate is nil")
			return
		}
		w.graphs = append(w.graphs, m.livenessOf(g))
		m.findLacks(g)
	}
	m.works = append(m.works, w)
}

// findLacks finds what the devices lack of the ops of a graph.
func (m *Memory) findLacks(g *ggml.Graph) {
	for node := range g.Nodes() {
		for i, of := range m.devices {
			if op := node.Op(); !node.IsView() && !m.lacks[i][op] && !of.SupportsOp(node) {
				m.lacks[i][op] = true
			}
		}
	}
}

// Lacks lists the ops that a device does not have, which the CPU computes for it.
func (m *Memory) Lacks(of *ggml.Device) []string {
	var ops []string
	if m == nil || of == nil {
		return nil
	}
	for i, other := range m.devices {
		if *other == *of {
			for op := range m.lacks[i] {
				ops = append(ops, op)
			}
		}
	}
	slices.Sort(ops)
	return ops
}

// In estimates the bytes on each device of a layout, the CPU last: the sum of [Memory.Parts], with an eighth added to
// results for the memory that drivers use.
func (m *Memory) In(l layout.Layout) (layout.Sizes, error) {
	parts, results, err := m.in(l)
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
// estimate.
func (m *Memory) Parts(l layout.Layout) (map[string]layout.Sizes, error) {
	parts, _, err := m.in(l)
	return parts, err
}

// in returns what a layout needs, by parts, and the part of results.
func (m *Memory) in(l layout.Layout) (parts map[string]layout.Sizes, results layout.Sizes, err error) {
	if err := m.Check(); err != nil {
		return nil, nil, err
	}
	if err := m.access.Acquire("Memory.Parts", "Memory"); err != nil {
		return nil, nil, err
	}
	defer m.access.Release()
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
	at := make([]int, len(m.held))
	for i, h := range m.held {
		if at[i], err = p.Index(h.layer, h.kind); err != nil {
			return nil, nil, err
		}
		of(h.part)[at[i]] += h.size
	}
	for _, w := range m.works {
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

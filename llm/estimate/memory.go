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

// A Memory estimates the memory of a run in any layout: persistent tensors and the results of graphs.
// It is made from a model on the CPU, and stays valid when the model is closed. [New] uses ops that
// all devices support, [NewIn] the ops of one layout. The zero value is empty. It is used by one
// goroutine.
type Memory struct {
	devices []*ggml.Device
	layout  *layout.Places    // set by NewIn
	lacks   []map[string]bool // ops that each device lacks
	part    string            // current part
	held    []held
	owners  map[ggml.TensorKey]int // index in held
	works   []work
	err     error // of an earlier Hold, Compute or New
	access  exclusive.Access
}

// held is a persistent tensor: a weight, or one that belongs to a weight.
type held struct {
	part  string
	layer int
	kind  layout.Kind
	size  int64
}

// A work is a list of graphs that run one after another and share memory.
type work struct {
	part   string
	graphs []*liveness
}

// New returns an empty estimate, and records which ops the devices lack.
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

// NewIn returns an empty estimate for one layout. Its graphs use that layout's ops, so it estimates no
// other layout.
func NewIn(l layout.Layout) *Memory {
	p, err := l.Places()
	if err != nil {
		return &Memory{err: err}
	}
	m := New(slices.DeleteFunc(slices.Clone(l.Devices), func(d *ggml.Device) bool { return d.Type() == ggml.CPU })...)
	m.layout = &p
	return m
}

// IsCPU reports whether the estimate is for the CPU alone.
func (m *Memory) IsCPU() bool { return m != nil && m.layout != nil && m.layout.Layout.IsCPU() }

// Engine returns an engine that builds the graphs of the estimate, for models in layout l on the CPU.
// It uses the ops of the estimated layout or, if that is unknown, ops that all devices support. It
// must not compute.
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

// Check returns an error if the estimate is nil, or the first error of what was added.
func (m *Memory) Check() error {
	if m == nil {
		return errors.New("the memory estimate is nil")
	}
	return cmp.Or(m.access.Err(), m.err)
}

// Part names the part that is added next, for [Memory.Parts].
func (m *Memory) Part(name string) {
	if m != nil && m.access.Try("Memory.Part", "Memory") {
		m.part = name
		m.access.Release()
	}
}

// Hold adds persistent tensors of a kind of weight, or belonging to such a weight, as
// [layout.Memory.Add] does.
func (m *Memory) Hold(layer int, kind layout.Kind, tensors ...*ggml.Tensor) {
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

// Compute adds the results of graphs that run one after another and share memory. Results of separate
// calls exist side by side.
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

// findLacks records which ops of a graph each device lacks.
func (m *Memory) findLacks(g *ggml.Graph) {
	for node := range g.Nodes() {
		for i, of := range m.devices {
			if op := node.Op(); !node.IsView() && !m.lacks[i][op] && !of.SupportsOp(node) {
				m.lacks[i][op] = true
			}
		}
	}
}

// Lacks lists the ops that a device lacks; the CPU computes them.
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

// In estimates the bytes on each device of a layout, the CPU last: the sum of [Memory.Parts], with
// results increased by an eighth for the memory of drivers.
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

// in returns the memory that a layout needs, by part, and the memory of results.
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

package layout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
)

// A Planner assigns whole layers to devices, contiguous ranges in order. The embedding is on the
// device of the first layer, the output on the device of the last. What does not fit on the devices
// goes to the CPU: first the embedding, then experts of layers, then whole layers.
type Planner struct {
	// Devices get layers in this order. The CPU may be included, first or last, and gets what does not fit elsewhere.
	// If it is not included, it gets the first layers, so that the output, the largest product, is on a device.
	Devices []*ggml.Device
	Layers  int  // number of layers of the model
	Tied    bool // the output is tied to the embedding and shares its device
	// Experts lists, per layer, the kinds of weights that are experts, as the architecture of a mixture does; nil if
	// there are none.
	Experts map[int][]Kind
	// Split gives the proportions of layers per device. nil means in proportion to their free memory, with the rest on
	// the CPU.
	Split []float64
	// DeviceLayers is the number of layers on devices other than the CPU; nil means as many as fit.
	DeviceLayers *int
	// Need returns the memory that a layout needs on each of its devices, see package estimate.
	Need func(Layout) (Sizes, error)
	// Free is the available memory of the devices except the CPU, in order; nil means what they report.
	Free Sizes
}

// A Plan is a layout that assigns whole layers.
type Plan struct {
	Layout
	OnDevices  int   // layers not on the CPU
	Experts    int   // number of these layers whose experts are on the CPU
	Need, Free Sizes // of the devices other than the CPU

	layers int
	text   string
}

// IsWhole reports whether all layers, with their experts, are on devices other than the CPU.
func (p *Plan) IsWhole() bool { return p.OnDevices == p.layers && p.Experts == 0 }

// A ShortageError reports that a device has too little memory for a plan.
type ShortageError struct {
	Device         string
	Layers         int   // planned layers on devices
	WithoutExperts bool  // whether the experts are on the CPU
	Need, Free     int64 // on the device, in bytes
	Fit            int   // number of layers that would fit
}

// Error states the memory needed, and what fits.
func (e *ShortageError) Error() string {
	layers, their, need := counted.Of(e.Layers, "layer"), "them", "need"
	if e.Layers == 1 {
		layers, their, need = "a layer", "it", "needs"
	}
	but, fits := "", ""
	if e.WithoutExperts {
		but = " but experts"
	}
	if e.Fit > 0 {
		fits = fmt.Sprintf("; there is room for %d", e.Fit)
	}
	return fmt.Sprintf("%s with all that belongs to %s%s %s %s of %s, which has %s free%s", layers, their, but, need, Bytes(e.Need), e.Device, Bytes(e.Free), fits)
}

// Bytes formats a size in GiB, MiB or KiB.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// Plan returns the fitting layout with the most layers on devices. If the requested layers do not fit, or a device has
// no room for a single layer, the error is a *ShortageError.
func (p Planner) Plan() (*Plan, error) {
	s, err := p.search()
	if err != nil {
		return nil, err
	}
	found, err := s.run()
	if err != nil {
		return nil, err
	}
	plan := &Plan{layers: p.Layers, Layout: s.layout(found.spread), OnDevices: s.beside(found.counts), Experts: len(found.experts), Need: s.ofDevices(found.need), Free: s.ofDevices(s.free)}
	if plan.OnDevices == 0 {
		plan.Layout = Layout{}
	}
	var names []string
	for _, d := range s.devices {
		name := d.Name()
		if !isNotCPU(d) {
			name = "the CPU"
		}
		names = append(names, name)
	}
	plan.text = found.describe(p.Layers, p.Tied, s.cpu, names)
	return plan, nil
}

// String describes which layers are where, such as "the embedding and layers 0-3 on the CPU, layers 4-15 and the output
// on Vulkan0".
func (p *Plan) String() string { return p.text }

// A planSearch is a search whose places are numbered in the order of layers.
type planSearch struct {
	search
	devices []*ggml.Device // by place
	experts map[int][]Kind
}

func (p Planner) search() (*planSearch, error) {
	devices := slices.Clone(p.Devices)
	cpu := slices.IndexFunc(devices, func(d *ggml.Device) bool { return d != nil && !isNotCPU(d) })
	named := cpu >= 0
	if !named {
		d, err := ggml.DeviceByType(ggml.CPU)
		if err != nil {
			return nil, err
		}
		devices, cpu = slices.Insert(devices, 0, d), 0
	}
	others := slices.Delete(slices.Clone(devices), cpu, cpu+1)
	if _, err := (Layout{Devices: others}).Places(); err != nil {
		return nil, err
	}
	switch {
	case p.Need == nil:
		return nil, errors.New("Planner.Need is nil; set it to the function that returns the memory of a layout")
	case p.Layers < 1:
		return nil, fmt.Errorf("a model of %s cannot be divided among devices", counted.Of(p.Layers, "layer"))
	case cpu > 0 && cpu < len(devices)-1:
		return nil, errors.New("the CPU can hold only the first or the last layers; list it first or last")
	case p.Split != nil && len(p.Split) != len(p.Devices):
		return nil, fmt.Errorf("the split has %s for %s", counted.Of(len(p.Split), "part"), counted.Of(len(p.Devices), "device"))
	case p.DeviceLayers != nil && *p.DeviceLayers < 0:
		return nil, fmt.Errorf("the number of layers is %d; it must not be negative", *p.DeviceLayers)
	case p.Free != nil && len(p.Free) != len(others):
		return nil, fmt.Errorf("the free memory is given for %s instead of %s", counted.Of(len(p.Free), "device"), counted.Of(len(others), "device"))
	}
	free := slices.Clone(p.Free)
	if free == nil {
		free = freeMemory(others)
	}
	s := &planSearch{devices: devices, experts: p.Experts}
	s.search = search{
		places: len(devices), cpu: cpu, layers: p.Layers, tied: p.Tied, free: slices.Insert(free, cpu, 0), want: p.DeviceLayers,
		name: func(place int) string { return devices[place].Name() }, mixtures: slices.Sorted(maps.Keys(p.Experts)),
	}
	if p.Split != nil {
		s.split = p.Split
		if !named {
			s.split = slices.Insert(slices.Clone(p.Split), 0, 0)
		}
		s.splitsAll = named
	}
	s.need = func(sp spread) ([]int64, error) {
		sizes, err := p.Need(s.layout(sp))
		if err != nil || len(sizes) != len(devices) {
			return nil, cmp.Or(err, fmt.Errorf("the function Need returned the memory of %s; the layout has %s", counted.Of(len(sizes), "device"), counted.Of(len(devices), "device")))
		}
		// In a layout, the CPU is last.
		last := len(sizes) - 1
		return slices.Insert(slices.Clone(sizes[:last]), cpu, sizes[last]), nil
	}
	return s, nil
}

// ofDevices omits the CPU.
func (s *planSearch) ofDevices(ofPlaces []int64) Sizes {
	return Sizes(slices.Delete(slices.Clone(ofPlaces), s.cpu, s.cpu+1))
}

// layout returns the layout of a spread.
func (s *planSearch) layout(sp spread) Layout {
	devices := slices.Delete(slices.Clone(s.devices), s.cpu, s.cpu+1)
	number := func(place int) int {
		switch {
		case place == s.cpu:
			return len(devices)
		case place > s.cpu:
			return place - 1
		}
		return place
	}
	tied := s.tied
	return Layout{Devices: devices, Of: func(layer int, kind Kind) int {
		switch {
		case slices.Contains(sp.experts, layer) && slices.Contains(s.experts[layer], kind):
			return number(s.cpu)
		case layer >= 0:
			return number(sp.of(layer))
		case kind == TokenEmbd && tied || !slices.Contains(inputKinds, kind):
			return number(sp.output)
		}
		return number(sp.embedding)
	}}
}

// inputKinds are the kinds of weights before the layers; other weights outside of layers belong to the output.
var inputKinds = []Kind{TokenEmbd, "token_embd_norm", "position_embd", "per_layer_token_embd", "per_layer_model_proj", "per_layer_proj_norm", "altup_proj"}

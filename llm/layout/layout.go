package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A Layout assigns weights of a model to devices. A weight's adapter, gradient and moments are on the weight's device.
// The zero value is the CPU; [On] is a single device.
type Layout struct {
	// Devices hold the weights. The CPU is the last one, whether listed or not.
	Devices []*ggml.Device
	// Of returns the index of the device that holds weights of a kind in a layer, counted from 0, or −1 outside of
	// layers. nil assigns everything to the first device.
	Of func(layer int, kind Kind) int
}

// On returns the layout of a single device; nil means the CPU.
func On(d *ggml.Device) Layout {
	if d == nil {
		return Layout{}
	}
	return Layout{Devices: []*ggml.Device{d}}
}

// String lists the names of the devices.
func (l Layout) String() string {
	if len(l.Devices) == 0 {
		return "CPU"
	}
	return names(l.Devices)
}

// IsCPU reports whether the CPU holds everything.
func (l Layout) IsCPU() bool { return !slices.ContainsFunc(l.Devices, isNotCPU) }

// Servers names the devices on RPC servers, or returns "". Messages name them because a server, like the model, can
// cause wrong numbers.
func (l Layout) Servers() string {
	return names(slices.DeleteFunc(slices.Clone(l.Devices), func(d *ggml.Device) bool {
		return d == nil || !strings.HasPrefix(d.Registry().Name(), "RPC")
	}))
}

// BlameServers adds to an error about non-finite numbers that an RPC server may have produced them.
func (l Layout) BlameServers(err error) error {
	if servers := l.Servers(); servers != "" {
		return fmt.Errorf("%w, or the server of %s computes wrong results", err, servers)
	}
	return err
}

func isNotCPU(d *ggml.Device) bool { return d.Type() != ggml.CPU }

func names(devices []*ggml.Device) string {
	var list []string
	for _, d := range devices {
		list = append(list, d.Name())
	}
	return strings.Join(list, ", ")
}

// Places are the validated devices of a layout, with the CPU last.
type Places struct {
	Layout  Layout
	Devices []*ggml.Device
}

// Places validates the devices.
func (l Layout) Places() (Places, error) {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return Places{}, err
	}
	p := Places{l, slices.Clone(l.Devices)}
	for i, d := range p.Devices {
		switch {
		case d == nil || *d == ggml.Device{}:
			return Places{}, fmt.Errorf("device %d of the layout is nil", i)
		case slices.ContainsFunc(p.Devices[:i], func(other *ggml.Device) bool { return *other == *d }):
			return Places{}, fmt.Errorf("the layout has %s twice; list each device once", d.Name())
		case d.Type() == ggml.Accelerator:
			return Places{}, fmt.Errorf("%s assists the CPU and cannot hold weights; leave it out of the layout", d.Name())
		case d.Type() == ggml.CPU && i < len(p.Devices)-1:
			return Places{}, errors.New("the CPU is not the last device of the layout; put it there, or leave it out")
		}
	}
	if n := len(p.Devices); n == 0 || isNotCPU(p.Devices[n-1]) {
		p.Devices = append(p.Devices, cpu)
	}
	return p, nil
}

// Index returns the index of the device that holds weights of this kind, see [Layout.Of].
func (p Places) Index(layer int, kind Kind) (int, error) {
	if p.Layout.Of == nil {
		return 0, nil
	}
	i := p.Layout.Of(layer, kind)
	if i >= 0 && i < len(p.Devices) {
		return i, nil
	}
	what := string(kind)
	if layer >= 0 {
		what = fmt.Sprintf("%s of layer %d", kind, layer)
	}
	return 0, fmt.Errorf("the layout puts %s on device %d, which it does not have; its devices, counted from 0, are %s", what, i, names(p.Devices))
}

// Sizes are sizes of memory in bytes, one per device of a layout, the CPU last.
type Sizes []int64

// Total returns the sum.
func (s Sizes) Total() int64 {
	var n int64
	for _, size := range s {
		n += size
	}
	return n
}

// Plus returns the sums of sizes on equal devices; nil means none.
func (s Sizes) Plus(other Sizes) Sizes {
	sum := make(Sizes, max(len(s), len(other)))
	copy(sum, s)
	for i, size := range other {
		sum[i] += size
	}
	return sum
}

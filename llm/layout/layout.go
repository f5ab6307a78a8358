package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A Layout says which device holds which weight of a model, and with it all that belongs to the
// weight: adapter, gradient and moments. The zero value is the CPU; [On] is one device.
type Layout struct {
	// Devices hold weights. The CPU is the last one, whether it is listed or not.
	Devices []*ggml.Device
	// Of is the index of the device that holds a kind of weight of a layer, which is counted
	// from 0, and −1 outside of layers. Kinds are called as in GGUF files, "attn_q" or
	// "token_embd", and a layer's keys and values [KVCache]. nil is the first device for all.
	Of func(layer int, kind string) int
}

// Kinds that name a place for what is no weight. Output and Most are also kinds of weights, beside which it lies.
const (
	KVCache = "kv cache"    // of a layer: the keys and values that a session keeps
	Most    = "attn_output" // of a layer: most of what it computes
	Output  = "output"      // outside of layers: the output, the losses, and what else is computed there
)

// On is the layout of one device, nil for the CPU.
func On(d *ggml.Device) Layout {
	if d == nil {
		return Layout{}
	}
	return Layout{Devices: []*ggml.Device{d}}
}

// String lists the devices by name.
func (l Layout) String() string {
	if len(l.Devices) == 0 {
		return "CPU"
	}
	return names(l.Devices)
}

// IsCPU reports whether the CPU holds all.
func (l Layout) IsCPU() bool { return !slices.ContainsFunc(l.Devices, isNotCPU) }

// Servers names the devices of RPC servers, which messages blame for wrong numbers as well as the model; "" if there
// are none.
func (l Layout) Servers() string {
	return names(slices.DeleteFunc(slices.Clone(l.Devices), func(d *ggml.Device) bool {
		return d == nil || !strings.HasPrefix(d.Registry().Name(), "RPC")
	}))
}

// BlameServers adds to an error of numbers that are not finite that an RPC server may have made them.
func (l Layout) BlameServers(err error) error {
	if servers := l.Servers(); servers != "" {
		return fmt.Errorf("%w, or the server of %s computes wrongly", err, servers)
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

// Places are the devices of a layout, checked, with the CPU as the last.
type Places struct {
	Layout  Layout
	Devices []*ggml.Device
}

// Places checks the devices.
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
			return Places{}, fmt.Errorf("%s works beside the CPU and holds no weights; leave it out of the layout", d.Name())
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
func (p Places) Index(layer int, kind string) (int, error) {
	if p.Layout.Of == nil {
		return 0, nil
	}
	i := p.Layout.Of(layer, kind)
	if i >= 0 && i < len(p.Devices) {
		return i, nil
	}
	if layer >= 0 {
		kind = fmt.Sprintf("%s of layer %d", kind, layer)
	}
	return 0, fmt.Errorf("the layout puts %s on device %d; its devices, counted from 0, are %s", kind, i, names(p.Devices))
}

// Sizes are sizes of memory in bytes, of each device of a layout in its order, and of the CPU
// as the last.
type Sizes []int64

// Total is the sum.
func (s Sizes) Total() int64 {
	var n int64
	for _, size := range s {
		n += size
	}
	return n
}

// Plus adds sizes of the same devices; nil means none.
func (s Sizes) Plus(other Sizes) Sizes {
	sum := make(Sizes, max(len(s), len(other)))
	copy(sum, s)
	for i, size := range other {
		sum[i] += size
	}
	return sum
}

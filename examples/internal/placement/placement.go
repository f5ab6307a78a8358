// Package placement decides where programs compute: the flags that name devices, and the layout of a model over
// them.
package placement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/parallel"
)

// DeviceFlags select the devices of a model, for kong.
type DeviceFlags struct {
	Device    []string `name:"device" basic:"" placeholder:"NAME,…" help:"Devices that hold and compute the layers of the model, in order, such as CUDA0 or Vulkan0; the CPU takes what does not fit; auto for the GPUs, or the CPU if no GPU has all ops. By default the devices of --rpc, or else the CPU. Processes of one machine that train together share them. An unknown name lists the devices of this machine." group:"Computing"`
	GPULayers int      `name:"n-gpu-layers" aliases:"gpu-layers,ngl" range:"[-1,)" default:"-1" unset:"-1" placeholder:"N" help:"Layers on devices other than the CPU, counted from the last, and the output with them: by default, and with -1, as many as fit. More than 0 means --device auto if no device is named." group:"Computing"`
	Split     []string `name:"split" aliases:"tensor-split" placeholder:"N,…" help:"Proportions of the layers on the devices of --device, such as 3,1; by default their free memory." group:"Computing"`
	RPC       []string `name:"rpc" placeholder:"HOST:PORT" help:"Server whose devices take part (rpc-server, or llama.cpp's), as RPC0 and so on. Can be given several times, or with commas; processes that train together share the servers." group:"Computing"`
}

// auto stands for all GPUs.
const auto = "auto"

// A Choice is the devices that flags select.
type Choice struct {
	flags   *DeviceFlags
	devices []*ggml.Device // of this process; nil for the CPU alone
	split   []float64      // shares of the devices; nil if not given
	isAuto  bool           // the program chose them
	local   []string       // devices of this machine, which its processes share
	most    int64          // limit in bytes for each device, see Limit; 0 for none
}

// Choose finds the devices. Processes of a group share servers, and the devices of their machine.
func (f *DeviceFlags) Choose(group *parallel.World) (*Choice, error) {
	remote, err := connect(own(f.RPC, group.Processes(), group))
	if err != nil {
		return nil, err
	}
	c := &Choice{flags: f}
	switch {
	case len(f.Device) == 1 && strings.EqualFold(f.Device[0], auto), len(f.Device) == 0 && f.GPULayers > 0:
		c.isAuto = len(f.Device) > 0
		c.devices, err = gpus()
		if err == nil && c.devices == nil && !c.isAuto {
			err = errors.New("--n-gpu-layers: no plugin of ggml finds a GPU; leave the flag out to compute on the CPU")
		}
	case len(f.Device) == 0:
		if c.devices = remote; remote == nil && f.GPULayers < 0 {
			hintUnusedGPU()
		}
	default:
		c.devices, err = named(f.Device)
	}
	if err != nil {
		return nil, err
	}
	if f.GPULayers == 0 {
		c.devices = nil
	}
	c.share(remote, group)
	return c, c.check()
}

// connect connects to RPC servers and returns their devices.
func connect(endpoints []string) (devices []*ggml.Device, err error) {
	for _, endpoint := range endpoints {
		server, err := ggml.AddRPCServer(endpoint)
		if err != nil {
			return nil, fmt.Errorf("--rpc %s: %w", endpoint, err)
		}
		devices = append(devices, server.Devices()...)
	}
	return devices, nil
}

// gpus lists all GPUs. GPUs that share the CPU's memory count only if there are no others.
func gpus() (list []*ggml.Device, err error) {
	devices, err := ggml.Devices()
	for _, kind := range []ggml.DeviceType{ggml.GPU, ggml.IntegratedGPU} {
		for _, d := range devices {
			if d.Type() == kind {
				list = append(list, d)
			}
		}
		if list != nil {
			break
		}
	}
	return list, err
}

// named finds devices by name that can hold layers.
func named(names []string) (list []*ggml.Device, err error) {
	for i, name := range names {
		name = strings.TrimSpace(name)
		d, err := Find(name)
		switch {
		case strings.EqualFold(name, auto):
			return nil, fmt.Errorf("--device %s: auto cannot be combined with other devices", strings.Join(names, ","))
		case err != nil:
			return nil, err
		case slices.ContainsFunc(list, func(other *ggml.Device) bool { return other.Name() == d.Name() }):
			return nil, fmt.Errorf("--device %s: %s is named twice", strings.Join(names, ","), d.Name())
		case d.Type() == ggml.CPU && i > 0 && i < len(names)-1:
			return nil, fmt.Errorf("--device %s: the CPU can hold only the first or the last layers; name it first or last", strings.Join(names, ","))
		}
		list = append(list, d)
	}
	return list, nil
}

// Find finds a device that can hold layers by the name that --device takes. Accelerators cannot hold layers:
// they compute some products for the CPU, as BLAS does.
func Find(name string) (*ggml.Device, error) {
	devices, err := ggml.Devices()
	if err != nil {
		return nil, err
	}
	fault := "there is no device of this name"
	var known []string
	for _, d := range devices {
		named, accelerator := strings.EqualFold(d.Name(), name), d.Type() == ggml.Accelerator
		switch {
		case named && !accelerator:
			return d, nil
		case named:
			fault = "it assists the CPU and cannot hold a model"
		case !accelerator:
			known = append(known, d.Name())
		}
	}
	slices.Sort(known)
	return nil, fmt.Errorf("--device %s: %s; the devices of this machine are %s", name, fault, strings.Join(known, ", "))
}

// check rejects flags that would have no effect.
func (c *Choice) check() error {
	f := c.flags
	split := strings.Join(f.Split, ",")
	for _, text := range f.Split {
		part, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return fmt.Errorf("--split %s: expected numbers, such as 3,1", split)
		}
		c.split = append(c.split, part)
	}
	switch {
	case len(f.Split) == 0:
	case len(c.devices) == 0:
		return errors.New("--split: the whole model is on the CPU; name devices with --device, or leave --split out")
	case len(f.Split) != len(c.devices):
		return fmt.Errorf("--split %s has %s for %s (%s); give one for each", split, cli.Count(len(f.Split), "part"), cli.Count(len(c.devices), "device"), strings.Join(names(c.devices), ", "))
	}
	return nil
}

func names(devices []*ggml.Device) (list []string) {
	for _, d := range devices {
		list = append(list, d.Name())
	}
	return list
}

// IsCPU reports whether the whole model is on the CPU, so no layout is needed.
func (c *Choice) IsCPU() bool {
	return !slices.ContainsFunc(c.devices, func(d *ggml.Device) bool { return d.Type() != ggml.CPU })
}

// Devices returns the devices other than the CPU; memory estimates check their ops.
func (c *Choice) Devices() []*ggml.Device {
	return slices.DeleteFunc(slices.Clone(c.devices), func(d *ggml.Device) bool { return d.Type() == ggml.CPU })
}

package placement

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// Lay finds the layout of a model over the devices and reports it. Several demands are alternative ways to
// compute; Lay takes the first with which all layers lie whole on devices, otherwise the last.
func (c *Choice) Lay(w io.Writer, m *model.Model, demands ...func(*estimate.Memory) error) (layout.Layout, error) {
	if c.IsCPU() {
		return layout.Layout{}, nil
	}
	var found *finding
	var err error
	for _, add := range demands {
		needs := estimate.New(c.Devices()...)
		if err := add(needs); err != nil {
			return layout.Layout{}, err
		}
		if found, err = c.find(m, needs); err == nil && (found.plan == nil || found.plan.IsWhole()) {
			break
		}
	}
	if err != nil {
		return layout.Layout{}, err
	}
	for _, line := range found.notes {
		fmt.Fprintln(w, line)
	}
	if found.plan == nil {
		return layout.Layout{}, nil
	}
	fmt.Fprintf(w, "devices: %v\n", found.plan)
	return found.plan.Layout, nil
}

// Plan finds the layout without reporting it, and returns whether all layers lie whole on devices.
func (c *Choice) Plan(m *model.Model, add func(*estimate.Memory) error) (layout.Layout, bool, error) {
	if c.IsCPU() {
		return layout.Layout{}, true, nil
	}
	needs := estimate.New(c.Devices()...)
	if err := add(needs); err != nil {
		return layout.Layout{}, false, err
	}
	found, err := c.find(m, needs)
	if err != nil || found.plan == nil {
		return layout.Layout{}, false, err
	}
	return found.plan.Layout, found.plan.IsWhole(), nil
}

// Limit limits the memory that layers may use on each device, in bytes.
func (c *Choice) Limit(bytes int64) { c.most = bytes }

// free returns the memory of devices that layers may use; nil stands for the memory that the devices report.
func (c *Choice) free(devices []*ggml.Device) (sizes layout.Sizes) {
	if c.most == 0 {
		return nil
	}
	for _, d := range devices {
		if d.Type() != ggml.CPU {
			sizes = append(sizes, min(c.most, layout.FreeMemory(d)))
		}
	}
	return sizes
}

// A finding is a plan with remarks; the plan is nil for the CPU alone.
type finding struct {
	plan  *layout.Plan
	notes []string
}

func (c *Choice) find(m *model.Model, needs *estimate.Memory) (*finding, error) {
	planner := layout.Planner{
		Devices: c.devices, Layers: m.Config().Layers, Tied: m.Config().Tied, Split: c.split, Experts: m.Architecture().Experts(),
		DeviceLayers: cli.Optional(c.flags.GPULayers), Need: needs.In, Free: c.free(c.devices),
	}
	found := &finding{}
	missing := c.Missing(needs)
	found.notes = missing.lines()
	able := slices.DeleteFunc(c.Devices(), func(d *ggml.Device) bool { return missing.of(d) != nil })
	if !c.isAuto {
		var err error
		found.plan, err = planner.Plan()
		return found, c.nameFlags(err)
	}
	return found, c.choose(found, planner, able)
}

// choose takes the first capable device on which all layers fit whole, otherwise all of them, otherwise the
// CPU.
func (c *Choice) choose(found *finding, planner layout.Planner, able []*ggml.Device) error {
	if len(able) == 0 {
		return nil
	}
	all := len(able)
	if planner.Split != nil && all != len(c.devices) {
		return fmt.Errorf("--split: %s; name the devices that it divides with --device", strings.Join(found.notes, "; "))
	}
	for _, n := range slices.Compact([]int{1, all}) {
		planner.Devices, planner.Free = able[:n], c.free(able[:n])
		if planner.Split != nil && n < all {
			continue
		}
		plan, err := planner.Plan()
		var short *layout.ShortageError
		switch {
		case errors.As(err, &short) && c.flags.GPULayers < 0 && n == all:
			found.notes = append(found.notes, fmt.Sprintf("the whole model is on the CPU: %v", err))
		case err != nil && n == all:
			return c.nameFlags(err)
		case err == nil && (n == all || plan.IsWhole()):
			found.plan = plan
			return nil
		}
	}
	return nil
}

// nameFlags names the flags that demand more memory than there is.
func (c *Choice) nameFlags(err error) error {
	f := c.flags
	var short *layout.ShortageError
	switch {
	case err == nil:
		return nil
	case c.split != nil:
		return fmt.Errorf("--split: %w", err)
	case f.GPULayers > 0:
		return fmt.Errorf("--n-gpu-layers %d: %w", f.GPULayers, err)
	case errors.As(err, &short):
		return fmt.Errorf("--device: %w; fewer or shorter samples at a time need less memory; or use --device CPU", err)
	}
	return err
}

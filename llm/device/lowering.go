package device

import (
	"cmp"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/layout"
)

// A Use is the purpose of a graph, which selects its lowering.
type Use struct {
	Phase Phase
	// Compute is the type of products with frozen weights in training, see [nn.CPU] and [nn.StockTraining]. Products
	// without gradients may round, and are as fast as the device permits.
	Compute ggml.Type
	// Fuse returns a session's row for products with the weights that it repacks, see [Repacks]. Tables that take it
	// call Fuse; nil: no row.
	Fuse func() (nn.Row, error)
}

// A Phase is the kind of a use.
type Phase int

// Phases. Evaluation uses the training phase, with or without gradients, so that losses are comparable.
const (
	Training Phase = iota
	Prefill        // many tokens per sequence
	Decode         // one token per sequence
)

// Lowerings returns, for a use, the lowering of each weight's device.
func (e *Engine) Lowerings(u Use) (nn.Lowerings, error) {
	if err := e.CheckOpen(); err != nil {
		return nil, err
	}
	if e.there != nil {
		return e.planned(u)
	}
	devices, err := e.ofDevices(u)
	if err != nil {
		return nil, err
	}
	type place struct{ layer, device int }
	replaced := map[place]*nn.Lowering{}
	return func(layer int, kind layout.Kind) *nn.Lowering {
		at := place{layer, e.place(layer, kind)}
		of := devices[at.device]
		if e.layers == nil {
			return of
		}
		if replaced[at] == nil {
			replaced[at] = cmp.Or(e.layers(layer, u, of), of)
		}
		return replaced[at]
	}, nil
}

// place returns the index of the device that holds weights of a kind; "" means most of a layer's results, or of the
// results outside of layers.
func (e *Engine) place(layer int, kind layout.Kind) int {
	switch {
	case kind == "" && layer == nn.NoLayer:
		kind = layout.Output
	case kind == "":
		kind = layout.Most
	}
	i, err := e.places.Index(layer, kind)
	if err != nil { // reported when objects are created with the layout
		i = len(e.places.Devices) - 1
	}
	return i
}

// ofDevices returns the lowerings of the devices that hold weights: all devices, or the first one if the layout assigns
// everything to it.
func (e *Engine) ofDevices(u Use) ([]*nn.Lowering, error) {
	list := make([]*nn.Lowering, len(e.places.Devices))
	if e.places.Layout.Of == nil {
		list = list[:1]
	}
	for i := range list {
		var err error
		if list[i], err = e.opSet(i).lowering(e, u, i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// everywhere returns a lowering with ops that all devices support.
func (e *Engine) everywhere(u Use) (nn.Lowerings, error) {
	of, has := nn.Stock(), nn.AllOptionalOps
	others := e.places.Devices[:len(e.places.Devices)-1]
	if len(others) == 0 {
		has = nil
	}
	for i := range others {
		some, err := e.optionalOps(i)
		if err != nil {
			return nil, err
		}
		has = has.And(some)
	}
	if u.Phase == Training {
		var err error
		if of, err = nn.StockTraining(u.Compute, has); err != nil {
			return nil, err
		}
	}
	of.Supports = func(op *ggml.Tensor) bool {
		return !slices.ContainsFunc(others, func(d *ggml.Device) bool { return !d.SupportsOp(op) })
	}
	return func(int, layout.Kind) *nn.Lowering { return of }, nil
}

// Repacks reports whether sessions repack a kind of weight in a layout; otherwise they use it unchanged.
func Repacks(of layout.Layout, layer int, kind layout.Kind) bool {
	p, err := of.Places()
	if err != nil {
		return false
	}
	i, err := p.Index(layer, kind)
	return err == nil && opSetOf(p.Devices[i]).repacks
}

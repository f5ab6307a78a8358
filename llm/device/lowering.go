package device

import (
	"cmp"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/layout"
)

// A Use is the purpose of graphs, by which their lowering differs.
type Use struct {
	Phase Phase
	// Compute is the type of products with frozen weights in training, see [nn.CPU] and
	// [nn.StockTraining]. Without gradients they are as fast as the device can, and may round.
	Compute ggml.Type
}

// A Phase is a kind of use.
type Phase int

// The phases. What is compared with training is of its kind, with gradients or without.
const (
	Training Phase = iota
	Prefill        // many tokens of each sequence
	Decode         // one
)

// Lowerings gives for a use the lowering of the device that holds a weight, for what is computed with it.
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
	return func(layer int, kind string) *nn.Lowering {
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

// place is the index of the device that holds a kind of weight; "" is most of a layer, or of what lies
// outside of them.
func (e *Engine) place(layer int, kind string) int {
	switch {
	case kind == "" && layer == nn.NoLayer:
		kind = layout.Output
	case kind == "":
		kind = layout.Most
	}
	i, err := e.places.Index(layer, kind)
	if err != nil { // which what is made with the layout returns
		i = len(e.places.Devices) - 1
	}
	return i
}

// ofDevices are the lowerings of the devices that hold weights: of all, or where the layout puts nothing elsewhere of
// the first.
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

// everywhere is a lowering by ops that all devices have.
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
	return func(int, string) *nn.Lowering { return of }, nil
}

// RepackingOf are the ops by which sessions prepare a kind of weight of a layout; nil if they take it
// as it is.
func RepackingOf(of layout.Layout, layer int, kind string) nn.RepackingOps {
	p, err := of.Places()
	if err != nil {
		return nil
	}
	i, err := p.Index(layer, kind)
	if err != nil {
		return nil
	}
	return opSetOf(p.Devices[i]).repacking
}

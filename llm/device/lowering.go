package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
)

// An OpSet names the ops of which graphs are made, see [nn.Lowering].
type OpSet string

// The op sets.
const (
	Kernels OpSet = "cpu"   // this project's kernels; of the CPU
	Stock   OpSet = "stock" // ops that every device of ggml has
)

// checkOpSet validates the op set for the layout.
func (o Options) checkOpSet() error {
	switch {
	case o.OpSet == Kernels && !o.Layout.IsCPU():
		return fmt.Errorf("the op set %q is of the CPU, and not of %s; leave it out, or use %q", Kernels, o.Layout, Stock)
	case o.OpSet != "" && o.OpSet != Kernels && o.OpSet != Stock:
		return fmt.Errorf("there is no op set %q; they are %q and %q", o.OpSet, Kernels, Stock)
	}
	return nil
}

// opSetOf chooses by the device. Nothing else asks which it is.
func opSetOf(d *ggml.Device) OpSet {
	if isNotCPU(d) {
		return Stock
	}
	return Kernels
}

// opSet returns the op set of a device of the engine.
func (e *Engine) opSet(i int) OpSet { return cmp.Or(e.ops, opSetOf(e.places.devices[i])) }

// usesStock reports whether a device computes by stock's ops: any that is not the CPU does.
func (e *Engine) usesStock() bool {
	if e.there != nil {
		return e.there.usesStock()
	}
	return len(e.places.devices) > 0 && e.opSet(0) == Stock
}

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
		kind = "output"
	case kind == "":
		kind = "attn_output"
	}
	i, err := e.places.index(layer, kind)
	if err != nil { // which what is made with the layout returns
		i = len(e.places.devices) - 1
	}
	return i
}

// ofDevices are the lowerings of the devices that hold weights: of all, or where the layout puts nothing elsewhere of
// the first.
func (e *Engine) ofDevices(u Use) ([]*nn.Lowering, error) {
	list := make([]*nn.Lowering, len(e.places.devices))
	if e.places.Of == nil {
		list = list[:1]
	}
	for i := range list {
		of := e.stock
		if e.opSet(i) == Kernels {
			of = e.kernels
		}
		var err error
		if list[i], err = of(u, i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// stock is the lowering of a device by stock's ops.
func (e *Engine) stock(u Use, i int) (*nn.Lowering, error) {
	of := nn.Stock()
	if u.Phase == Training {
		has, err := e.optionalOps(i)
		if err != nil {
			return nil, err
		}
		if of, err = nn.StockTraining(u.Compute, has); err != nil {
			return nil, err
		}
	}
	if d := e.places.devices[i]; isNotCPU(d) {
		of.Supports = d.SupportsOp
	}
	return of, nil
}

// everywhere is a lowering by ops that all devices have.
func (e *Engine) everywhere(u Use) (nn.Lowerings, error) {
	of, has := nn.Stock(), nn.AllOptionalOps
	others := e.places.devices[:len(e.places.devices)-1]
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

// kernels is the lowering of the CPU by kernels. Beside devices it multiplies in F32 where it lacks their type, which
// rounds less; and checkpoints compress nothing, because the scheduler restores an input by the device whose layer comes
// before in the backward pass, in memory of that, which is scarcer.
func (e *Engine) kernels(u Use, _ int) (*nn.Lowering, error) {
	alone := len(e.places.devices) == 1
	if u.Phase == Training {
		if !alone && u.Compute == ggml.BF16 && !kernels.HasBF16() {
			u.Compute = ggml.F32
		}
		cpu, err := nn.CPU(u.Compute)
		if err == nil && !alone && u.Compute != ggml.BF16 {
			cpu = cpu.With(nn.KeepExact)
		}
		return cpu, err
	}
	if _, err := kernels.GEMMLibrary(); err != nil {
		return nil, err
	}
	cpu, err := nn.CPU(kernels.FastestType())
	if err != nil {
		return nil, err
	}
	cpu.Repacking = Kernels.repacking()
	return cpu.With(nn.GroupedGEMV()), nil
}

// optionalOps returns the optional ops of a device, which is asked once. The CPU is not asked: it has
// them all, and multiplies faster without.
func (e *Engine) optionalOps(i int) (nn.OptionalOps, error) {
	if i == len(e.places.devices)-1 {
		return nil, nil
	}
	if has, known := e.optional[i]; known {
		return has, nil
	}
	d, b := e.places.devices[i], e.backends[i]
	has, err := nn.FindOptionalOps(b.BufferType(), d.SupportsOp, func(g *ggml.Graph) error { return b.Compute(context.Background(), g) })
	if err != nil {
		return nil, fmt.Errorf("the ops of %s: %w", d.Name(), err)
	}
	ggml.Logger().Debug("ops that not every device has", slog.String("device", d.Name()), slog.String("ops", has.String()))
	e.optional[i] = has
	return has, nil
}

// repacking are the ops that prepare sessions' weights, nil where these are taken as they are.
func (l OpSet) repacking() nn.RepackingOps {
	if l == Kernels {
		return fused.Ops{}
	}
	return nil
}

// RepackingOf are the ops by which sessions prepare a kind of weight of a layout; nil if they take it
// as it is.
func RepackingOf(of Layout, layer int, kind string) nn.RepackingOps {
	p, err := of.places()
	if err != nil {
		return nil
	}
	i, err := p.index(layer, kind)
	if err != nil {
		return nil
	}
	return opSetOf(p.devices[i]).repacking()
}

// ComputeType is the type of products with frozen weights in which the engine trains fastest: on
// devices BF16 where all of them multiply it.
func (e *Engine) ComputeType() ggml.Type {
	if !e.usesStock() {
		return kernels.FastestType()
	}
	typ := ggml.F32
	for _, d := range e.places.devices {
		switch {
		case !isNotCPU(d):
		case !multipliesBF16(d):
			return ggml.F32
		default:
			typ = ggml.BF16
		}
	}
	return typ
}

// multipliesBF16 reports whether a device rounds to BF16 and multiplies that.
func multipliesBF16(d *ggml.Device) bool {
	c := ggml.NewContext()
	defer c.Close()
	x := c.Cast(c.NewTensor(ggml.F32, 256, 64), ggml.BF16)
	return d.SupportsOp(x) && d.SupportsOp(c.MulMat(c.NewTensor(ggml.BF16, 256, 128), x))
}

// TakesCopies reports whether training is faster with copies of weights in the compute type, kept
// on the device: the CPU's kernels convert as they multiply.
func (e *Engine) TakesCopies() bool { return e.usesStock() }

// ScalesLoss reports whether training scales the loss up: some devices multiply F32 within the range of
// F16, in which small gradients become 0. The CPU's kernels do not.
func (e *Engine) ScalesLoss() bool { return e.usesStock() }

// CheckComputeType returns an error if the engine cannot train with products in a type.
func (e *Engine) CheckComputeType(t ggml.Type) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	switch cpu := !e.usesStock(); {
	case t == ggml.F16 && !cpu:
		return fmt.Errorf("it is of the CPU, and not of %v; use f32 or bf16", e.Layout())
	case t == ggml.F16 && !kernels.HasF16Accumulation():
		return errors.New("it needs oneMKL, which GOGGML_BLAS must name, and a processor with AVX512-FP16; leave it out")
	case t == ggml.BF16 && cpu && !kernels.HasBF16():
		return errors.New("it needs oneDNN and a processor with AVX512-BF16 or AMX; leave it out")
	}
	_, err := e.ofDevices(Use{Compute: t})
	return err
}

// Multiplier names what computes large products of a model with these sizes of weights on each device: devices and,
// on the CPU, a GEMM library.
func (e *Engine) Multiplier(weights Sizes) (string, error) {
	if err := e.CheckOpen(); err != nil {
		return "", err
	}
	var names []string
	for i, d := range e.places.devices {
		switch {
		case i < len(weights) && weights[i] == 0:
		case e.opSet(i) == Stock:
			names = append(names, d.Name())
		default:
			library, err := kernels.GEMMLibrary()
			if err != nil {
				return "", err
			}
			library = cmp.Or(library, "ggml itself, which is slow: neither oneDNN nor OpenBLAS was found")
			if len(names) > 0 {
				library = "on the CPU by " + library
			}
			names = append(names, library)
		}
	}
	return strings.Join(names, ", "), nil
}

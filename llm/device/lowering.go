package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
)

// An OpSet names the ops of which graphs are made, see [nn.Lowering].
type OpSet string

// The op sets.
const (
	Kernels OpSet = "cpu"   // this project's kernels; on the CPU alone
	Stock   OpSet = "stock" // ops that every device of ggml has
)

// opSet chooses by the devices. Nothing else asks which they are.
func (o Options) opSet() (OpSet, error) {
	onCPU := o.Layout.IsCPU()
	switch {
	case o.OpSet == "" && onCPU:
		return Kernels, nil
	case o.OpSet == "":
		return Stock, nil
	case o.OpSet == Kernels && !onCPU:
		return "", fmt.Errorf("the op set %q is of the CPU, and not of %s; leave it out, or use %q", Kernels, o.Layout, Stock)
	case o.OpSet != Kernels && o.OpSet != Stock:
		return "", fmt.Errorf("there is no op set %q; they are %q and %q", o.OpSet, Kernels, Stock)
	}
	return o.OpSet, nil
}

// A Use is what graphs are for, by which their lowering differs.
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

// Lowerings gives the lowering of each layer for a use.
func (e *Engine) Lowerings(u Use) (nn.Lowerings, error) {
	if err := e.CheckOpen(); err != nil {
		return nil, err
	}
	devices, err := e.lowering.of(u, e)
	if err != nil {
		return nil, err
	}
	layers := map[int]*nn.Lowering{}
	return func(layer int) *nn.Lowering {
		of := devices[e.place(layer)]
		if e.layers == nil {
			return of
		}
		if layers[layer] == nil {
			layers[layer] = cmp.Or(e.layers(layer, u, of), of)
		}
		return layers[layer]
	}, nil
}

// place is the index of the device that computes a layer, but for what the layout has elsewhere: its
// experts, say.
func (e *Engine) place(layer int) int {
	kind := "attn_output"
	if layer == nn.NoLayer {
		kind = "output"
	}
	i, err := e.places.index(layer, kind)
	if err != nil { // which what is made with the layout returns
		i = len(e.places.devices) - 1
	}
	return i
}

// of are the lowerings of the devices that a name means.
func (l OpSet) of(u Use, e *Engine) ([]*nn.Lowering, error) {
	list := make([]*nn.Lowering, len(e.places.devices))
	if l == Kernels {
		cpu, err := l.kernels(u)
		list[0] = cpu
		return list, err
	}
	for i := range list {
		of, err := nn.Stock(), error(nil)
		if u.Phase == Training {
			var has nn.OptionalOps
			if has, err = e.optionalOps(i); err == nil {
				of, err = nn.StockTraining(u.Compute, has)
			}
		}
		if err != nil {
			return nil, err
		}
		if d := e.places.devices[i]; isNotCPU(d) {
			of.Supports = d.SupportsOp
		}
		list[i] = of
	}
	return list, nil
}

// everywhere is a lowering by ops that all devices have.
func (e *Engine) everywhere(u Use) (nn.Lowerings, error) {
	of, has := nn.Stock(), nn.NoOptionalOps
	others := e.places.devices[:len(e.places.devices)-1]
	if len(others) > 0 {
		has = nn.AllOptionalOps
	}
	for i := range others {
		some, err := e.optionalOps(i)
		if err != nil {
			return nil, err
		}
		has &= some
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
	return func(int) *nn.Lowering { return of }, nil
}

// kernels is the lowering of the CPU alone.
func (l OpSet) kernels(u Use) (*nn.Lowering, error) {
	if u.Phase == Training {
		return nn.CPU(u.Compute)
	}
	if _, err := kernels.GEMMLibrary(); err != nil {
		return nil, err
	}
	cpu, err := nn.CPU(kernels.FastestType())
	if err == nil {
		cpu.Repacking, cpu.ExpertOps = l.repacking(), nn.CPUExperts(kernels.FastestType())
	}
	return cpu, err
}

// optionalOps are those of a device, which is asked once. The CPU is not: it has them all, and multiplies
// faster without.
func (e *Engine) optionalOps(i int) (nn.OptionalOps, error) {
	if i == len(e.places.devices)-1 {
		return nn.NoOptionalOps, nil
	}
	if has, known := e.optional[i]; known {
		return has, nil
	}
	d, b := e.places.devices[i], e.backends[i]
	has, err := nn.FindOptionalOps(b.BufferType(), d.SupportsOp, func(g *ggml.Graph) error { return b.Compute(context.Background(), g) })
	if err != nil {
		return 0, fmt.Errorf("the ops of %s: %w", d.Name(), err)
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

// RepackingOf are the ops by which sessions prepare the weights of a layout; nil if they take them
// as they are.
func RepackingOf(of Layout) nn.RepackingOps {
	l, _ := Options{Layout: of}.opSet() // which a layout alone cannot get wrong
	return l.repacking()
}

// ComputeType is the type of products with frozen weights in which the engine trains fastest: on
// devices BF16 where all of them multiply it.
func (e *Engine) ComputeType() ggml.Type {
	if e.lowering == Kernels {
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
func (e *Engine) TakesCopies() bool { return e.lowering == Stock }

// ScalesLoss reports whether training computes the gradients of a loss that is scaled up: some
// devices multiply F32 with the range of F16, in which small gradients are 0. The CPU's kernels do not.
func (e *Engine) ScalesLoss() bool { return e.lowering == Stock }

// CheckComputeType says what the engine lacks to train with products in a type.
func (e *Engine) CheckComputeType(t ggml.Type) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	switch cpu := e.lowering == Kernels; {
	case t == ggml.F16 && !cpu:
		return fmt.Errorf("it is of the CPU, and not of %v; use f32 or bf16", e.Layout())
	case t == ggml.F16 && !kernels.HasF16Accumulation():
		return errors.New("it needs oneMKL, which GOGGML_BLAS must name, and a processor with AVX512-FP16; leave it out")
	case t == ggml.BF16 && cpu && !kernels.HasBF16():
		return errors.New("it needs oneDNN and a processor with AVX512-BF16 or AMX; leave it out")
	}
	_, err := e.lowering.of(Use{Compute: t}, e)
	return err
}

// Multiplier names what computes large products: a GEMM library, or the device.
func (e *Engine) Multiplier() (string, error) {
	if err := e.CheckOpen(); err != nil {
		return "", err
	}
	if e.lowering == Stock {
		return e.Layout().String(), nil
	}
	library, err := kernels.GEMMLibrary()
	return cmp.Or(library, "ggml itself, which is slow: neither oneDNN nor OpenBLAS was found"), err
}

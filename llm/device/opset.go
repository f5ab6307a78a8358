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
	"github.com/goggml/ggml/llm/layout"
)

// An OpSet names the ops of which graphs are made, see [nn.Lowering].
type OpSet string

// The op sets.
const (
	Kernels OpSet = "cpu"   // this project's kernels; of the CPU
	Stock   OpSet = "stock" // ops that every device of ggml has
)

// An opSet is what engines know of the tables of some devices.
type opSet struct {
	name      OpSet
	takes     func(d *ggml.Device) bool
	lowering  func(e *Engine, u Use, i int) (*nn.Lowering, error) // the table of device i
	repacking nn.RepackingOps                                     // prepares weights of sessions; nil prepares nothing
	// In training:
	copies      bool // products with copies of weights in the compute type are faster
	narrow      bool // products in F32 may have the range of F16, in which small gradients are 0
	computeType func(d *ggml.Device) ggml.Type
	check       func(l layout.Layout, t ggml.Type) error // of compute types
	multiplier  func(d *ggml.Device) (string, error)     // names what computes large products
}

// opSets has them in order: a device has the first that takes it. Nothing else asks which device it is.
var opSets = []*opSet{{
	name: Kernels, takes: func(d *ggml.Device) bool { return d.Type() == ggml.CPU }, lowering: (*Engine).kernels, repacking: fused.Ops{},
	computeType: func(*ggml.Device) ggml.Type { return kernels.FastestType() }, check: checkKernels,
	multiplier: func(*ggml.Device) (string, error) {
		library, err := kernels.GEMMLibrary()
		return cmp.Or(library, "ggml itself, which is slow: neither oneDNN nor OpenBLAS was found"), err
	},
}, {
	name: Stock, takes: func(*ggml.Device) bool { return true }, lowering: (*Engine).stock, copies: true, narrow: true,
	computeType: func(d *ggml.Device) ggml.Type {
		if d.Type() != ggml.CPU && multipliesBF16(d) {
			return ggml.BF16
		}
		return ggml.F32
	},
	check: func(l layout.Layout, t ggml.Type) error {
		if t == ggml.F16 {
			return fmt.Errorf("it is of the CPU, and not of %v; use f32 or bf16", l)
		}
		return nil
	},
	multiplier: func(d *ggml.Device) (string, error) { return d.Name(), nil },
}}

// opSetOf chooses by the device.
func opSetOf(d *ggml.Device) *opSet {
	return opSets[slices.IndexFunc(opSets, func(s *opSet) bool { return s.takes(d) })]
}

// opSet is the one that options ask for; nil is that of each device.
func (o Options) opSet() (*opSet, error) {
	if o.OpSet == "" {
		return nil, nil
	}
	i := slices.IndexFunc(opSets, func(s *opSet) bool { return s.name == o.OpSet })
	if i < 0 {
		return nil, fmt.Errorf("there is no op set %q; they are %q and %q", o.OpSet, Kernels, Stock)
	}
	if slices.ContainsFunc(o.Layout.Devices, func(d *ggml.Device) bool { return !opSets[i].takes(d) }) {
		return nil, fmt.Errorf("the op set %q is of the CPU, and not of %s; leave it out, or use %q", o.OpSet, o.Layout, Stock)
	}
	return opSets[i], nil
}

// opSet returns the op set of a device of the engine.
func (e *Engine) opSet(i int) *opSet { return cmp.Or(e.ops, opSetOf(e.places.Devices[i])) }

// main calls f for the devices that a layout is for, with their op sets: all but the CPU, or the CPU alone.
func (e *Engine) main(f func(i int, d *ggml.Device, s *opSet)) {
	if e.there != nil {
		e = e.there
	}
	for i, d := range e.places.Devices {
		if i == 0 || i < len(e.places.Devices)-1 {
			f(i, d, e.opSet(i))
		}
	}
}

// ComputeType is the type of products with frozen weights in which the engine trains fastest: on
// devices BF16 where all of them multiply it.
func (e *Engine) ComputeType() ggml.Type {
	typ := kernels.FastestType()
	e.main(func(i int, d *ggml.Device, s *opSet) {
		if t := s.computeType(d); i == 0 || t == ggml.F32 {
			typ = t
		}
	})
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
func (e *Engine) TakesCopies() (takes bool) {
	e.main(func(_ int, _ *ggml.Device, s *opSet) { takes = takes || s.copies })
	return takes
}

// ScalesLoss reports whether training scales the loss up: some devices multiply F32 within the range of
// F16, in which small gradients become 0. The CPU's kernels do not.
func (e *Engine) ScalesLoss() (scales bool) {
	e.main(func(_ int, _ *ggml.Device, s *opSet) { scales = scales || s.narrow })
	return scales
}

// CheckComputeType returns an error if the engine cannot train with products in a type.
func (e *Engine) CheckComputeType(t ggml.Type) error {
	err := e.CheckOpen()
	if err != nil {
		return err
	}
	e.main(func(_ int, _ *ggml.Device, s *opSet) { err = cmp.Or(err, s.check(e.Layout(), t)) })
	if err == nil {
		_, err = e.ofDevices(Use{Compute: t})
	}
	return err
}

// checkKernels says what the CPU lacks.
func checkKernels(_ layout.Layout, t ggml.Type) error {
	switch {
	case t == ggml.F16 && !kernels.HasF16Accumulation():
		return errors.New("it needs oneMKL, which GOGGML_BLAS must name, and a processor with AVX512-FP16; leave it out")
	case t == ggml.BF16 && !kernels.HasBF16():
		return errors.New("it needs oneDNN and a processor with AVX512-BF16 or AMX; leave it out")
	}
	return nil
}

// Multiplier names what computes large products of a model with these sizes of weights on each device: devices and,
// on the CPU, a GEMM library.
func (e *Engine) Multiplier(weights layout.Sizes) (string, error) {
	if err := e.CheckOpen(); err != nil {
		return "", err
	}
	var names []string
	for i, d := range e.places.Devices {
		if i < len(weights) && weights[i] == 0 {
			continue
		}
		name, err := e.opSet(i).multiplier(d)
		if err != nil {
			return "", err
		}
		if name != d.Name() && len(names) > 0 {
			name = "on the CPU by " + name
		}
		names = append(names, name)
	}
	return strings.Join(names, ", "), nil
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
	if d := e.places.Devices[i]; d.Type() != ggml.CPU {
		of.Supports = d.SupportsOp
	}
	return of, nil
}

// kernels is the lowering of the CPU by kernels. Beside devices it multiplies in F32 where it lacks their type, which
// rounds less; and checkpoints compress nothing, because the scheduler restores an input by the device whose layer comes
// before in the backward pass, in memory of that, which is scarcer.
func (e *Engine) kernels(u Use, _ int) (*nn.Lowering, error) {
	alone := len(e.places.Devices) == 1
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
	cpu.Repacking = fused.Ops{}
	return cpu.With(nn.GroupedGEMV()), nil
}

// optionalOps returns the optional ops of a device, which is asked once. The CPU is not asked: it has
// them all, and multiplies faster without.
func (e *Engine) optionalOps(i int) (nn.OptionalOps, error) {
	if i == len(e.places.Devices)-1 {
		return nil, nil
	}
	if has, known := e.optional[i]; known {
		return has, nil
	}
	d, b := e.places.Devices[i], e.backends[i]
	has, err := nn.FindOptionalOps(b.BufferType(), d.SupportsOp, func(g *ggml.Graph) error { return b.Compute(context.Background(), g) })
	if err != nil {
		return nil, fmt.Errorf("the ops of %s: %w", d.Name(), err)
	}
	ggml.Logger().Debug("ops that not every device has", slog.String("device", d.Name()), slog.String("ops", has.String()))
	e.optional[i] = has
	return has, nil
}

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
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/layout"
)

// An OpSet names a set of ops for graphs, see [nn.Lowering].
type OpSet string

// Op sets.
const (
	Kernels OpSet = "cpu"   // this project's kernels, for the CPU
	Stock   OpSet = "stock" // ops that every ggml device supports

	remote OpSet = "remote" // kernels in training, for the CPU of a server that has them; stock ops in sessions
)

// An opSet is what engines know about the tables of some devices.
type opSet struct {
	name     OpSet
	takes    func(d *ggml.Device) bool
	lowering func(e *Engine, u Use, i int) (*nn.Lowering, error) // table of device i
	repacks  bool                                                // sessions repack weights
	// In training:
	copies      bool // copies of weights in the compute type speed up products
	narrow      bool // F32 products may have the range of F16, where small gradients vanish
	computeType func(d *ggml.Device) ggml.Type
	check       func(l layout.Layout, t ggml.Type) error          // validates compute types
	multiplier  func(d *ggml.Device, t ggml.Type) (string, error) // names what computes large products in a compute type
}

// opSets lists the op sets in order: a device uses the first that accepts it. No other code distinguishes devices.
var opSets = []*opSet{{
	name: Kernels, takes: func(d *ggml.Device) bool { return d.Type() == ggml.CPU }, lowering: (*Engine).kernels, repacks: true,
	computeType: func(*ggml.Device) ggml.Type { return nn.FastestType() }, check: checkKernels,
	multiplier: func(_ *ggml.Device, t ggml.Type) (string, error) {
		library, err := kernels.GEMMLibrary()
		library = cmp.Or(library, "ggml itself, which is slow: neither oneDNN nor OpenBLAS was found")
		if isInteger(t) {
			library = integerMultiplier(library, t)
		}
		return library, err
	},
}, {
	name: remote, takes: func(d *ggml.Device) bool { return kernels.HasTrainingOps(d, ggml.F32) }, lowering: (*Engine).remote,
	computeType: func(d *ggml.Device) ggml.Type {
		if kernels.FastestType() == ggml.BF16 && kernels.HasTrainingOps(d, ggml.BF16) {
			return ggml.BF16
		}
		return ggml.F32
	},
	check: checkDevices, multiplier: func(d *ggml.Device, t ggml.Type) (string, error) {
		name := d.Name() + " with this project's kernels"
		if remoteType(d, t) != t {
			name += ", which multiply in F32 because the server has no BF16"
		}
		return name, nil
	},
}, {
	name: Stock, takes: func(*ggml.Device) bool { return true }, lowering: (*Engine).stock, copies: true, narrow: true,
	computeType: func(d *ggml.Device) ggml.Type {
		if d.Type() != ggml.CPU && multipliesBF16(d) {
			return ggml.BF16
		}
		return ggml.F32
	},
	check: checkDevices, multiplier: func(d *ggml.Device, _ ggml.Type) (string, error) { return d.Name(), nil },
}}

// opSetOf returns the op set of a device.
func opSetOf(d *ggml.Device) *opSet {
	return opSets[slices.IndexFunc(opSets, func(s *opSet) bool { return s.takes(d) })]
}

// opSet returns the op set that the options request; nil means each device's own.
func (o Options) opSet() (*opSet, error) {
	if o.OpSet == "" {
		return nil, nil
	}
	i := slices.IndexFunc(opSets, func(s *opSet) bool { return s.name == o.OpSet })
	if i < 0 {
		return nil, fmt.Errorf("there is no op set %q; choose %q or %q", o.OpSet, Kernels, Stock)
	}
	if slices.ContainsFunc(o.Layout.Devices, func(d *ggml.Device) bool { return !opSets[i].takes(d) }) {
		return nil, fmt.Errorf("only the CPU has the op set %q, not %s; leave it out, or use %q", o.OpSet, o.Layout, Stock)
	}
	return opSets[i], nil
}

// opSet returns the op set of device i. Kernels are on servers only if all devices but the CPU have them: ggml's scheduler
// divides the nodes among devices, and believes that each server computes all.
func (e *Engine) opSet(i int) *opSet {
	s := cmp.Or(e.ops, opSetOf(e.places.Devices[i]))
	if s.name == remote && slices.ContainsFunc(e.places.Devices, func(d *ggml.Device) bool { return opSetOf(d).name == Stock }) {
		return opSets[len(opSets)-1]
	}
	return s
}

// main calls f for the main devices of the layout with their op sets: all except the CPU, or the CPU if it is the only
// one.
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

// ComputeType returns the type of products with frozen weights in which the engine trains fastest, with gradients as good
// as F32's: BF16 on devices that all multiply it; on the CPU alone BF16 or F16 where that is fast, else I16.
func (e *Engine) ComputeType() ggml.Type {
	typ := kernels.FastestType()
	e.main(func(i int, d *ggml.Device, s *opSet) {
		if t := s.computeType(d); i == 0 || t == ggml.F32 {
			typ = t
		}
	})
	return typ
}

// multipliesBF16 reports whether a device converts to BF16 and multiplies BF16.
func multipliesBF16(d *ggml.Device) bool {
	c := ggml.NewContext()
	defer c.Close()
	x := c.Cast(c.NewTensor(ggml.F32, 256, 64), ggml.BF16)
	return d.SupportsOp(x) && d.SupportsOp(c.MulMat(c.NewTensor(ggml.BF16, 256, 128), x))
}

// TakesCopies reports whether cached weight copies in the compute type on the device speed up training. The CPU's
// kernels need none: they convert while multiplying.
func (e *Engine) TakesCopies() (takes bool) {
	e.main(func(_ int, _ *ggml.Device, s *opSet) { takes = takes || s.copies })
	return takes
}

// ScalesLoss reports whether training must scale the loss up: some devices multiply F32 within the range of F16, where
// small gradients underflow to 0. The CPU's kernels do not.
func (e *Engine) ScalesLoss() (scales bool) {
	e.main(func(_ int, _ *ggml.Device, s *opSet) { scales = scales || s.narrow })
	return scales
}

// CheckComputeType returns an error if the engine cannot train with compute type t.
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

// checkKernels returns an error if the CPU does not support the type.
func checkKernels(_ layout.Layout, t ggml.Type) error {
	switch {
	case t == ggml.F16 && !kernels.HasF16Accumulation():
		return errors.New("it needs oneMKL, named by GOGGML_BLAS, and a processor with AVX512-FP16; leave it out")
	case t == ggml.BF16 && !kernels.HasBF16():
		return errors.New("it needs oneDNN and a processor with AVX512-BF16 or AMX; leave it out")
	case isInteger(t) && !kernels.HasIntegers():
		return errors.New("it needs a processor with AVX2; leave it out")
	}
	return nil
}

// checkDevices returns an error if only the CPU here supports the type.
func checkDevices(l layout.Layout, t ggml.Type) error {
	if t == ggml.F16 || isInteger(t) {
		return fmt.Errorf("only the CPU has it, not %v; use f32 or bf16", l)
	}
	return nil
}

// Multiplier names what computes large products on each device that holds weights of a model with these sizes: devices
// and, on the CPU, a GEMM library. For compute types I16 and I8 the CPU's name includes the type of other products and the
// instructions that multiply integers.
func (e *Engine) Multiplier(weights layout.Sizes, compute ggml.Type) (string, error) {
	if err := e.CheckOpen(); err != nil {
		return "", err
	}
	var names []string
	for i, d := range e.places.Devices {
		if i < len(weights) && weights[i] == 0 {
			continue
		}
		name, err := e.opSet(i).multiplier(d, compute)
		if err != nil {
			return "", err
		}
		switch {
		case d.Type() == ggml.CPU && name != d.Name() && len(names) > 0:
			name = "on the CPU by " + name
		case e.backends[i].IsRPC() && name == d.Name():
			name += " with ggml's ops"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", "), nil
}

// isInteger reports whether a compute type multiplies in integers.
func isInteger(t ggml.Type) bool { return t == ggml.I16 || t == ggml.I8 }

// integerMultiplier names what computes products in a compute type of integers.
func integerMultiplier(library string, t ggml.Type) string {
	forward, back := "16-bit integers", "16-bit integers"
	if t == ggml.I8 && kernels.FastestType() == ggml.BF16 {
		forward = ggml.BF16.String()
	}
	if t == ggml.I8 && kernels.HasI8() {
		back = "8-bit integers"
	}
	return fmt.Sprintf("%s, forward in %s, gradients of inputs in %s, with %s", library, forward, back, kernels.IntegerInstructions())
}

// stock returns the lowering of device i with stock ops.
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

// remote returns the lowering of device i, the CPU of a server that has the kernels of training.
func (e *Engine) remote(u Use, i int) (*nn.Lowering, error) {
	d := e.places.Devices[i]
	if u.Phase != Training {
		return e.stock(u, i)
	}
	of, err := nn.CPU(remoteType(d, u.Compute))
	if err == nil {
		of.Supports = d.SupportsOp
	}
	return of, err
}

// remoteType returns the type in which a server with the kernels of training multiplies: F32 if it has no BF16.
func remoteType(d *ggml.Device, compute ggml.Type) ggml.Type {
	if compute == ggml.BF16 && !kernels.HasTrainingOps(d, ggml.BF16) {
		return ggml.F32
	}
	return compute
}

// kernels returns the CPU's lowering with kernels. In mixed layouts it multiplies in F32, which rounds less, if it does
// not support the devices' compute type.
func (e *Engine) kernels(u Use, _ int) (*nn.Lowering, error) {
	alone := len(e.places.Devices) == 1
	if u.Phase == Training {
		if !alone && u.Compute == ggml.BF16 && !kernels.HasBF16() {
			u.Compute = ggml.F32
		}
		return nn.CPU(u.Compute)
	}
	if _, err := kernels.GEMMLibrary(); err != nil {
		return nil, err
	}
	cpu, err := nn.CPU(kernels.FastestType())
	if err != nil {
		return nil, err
	}
	cpu = cpu.With(nn.SessionExperts()...)
	if u.Fuse == nil {
		return cpu, nil
	}
	row, err := u.Fuse()
	return cpu.With(row), err
}

// optionalOps returns the optional ops that a device supports, queried once. The CPU is not queried: it supports all of
// them, but multiplies faster without.
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
	ggml.Logger().Debug("ops that only some devices have", slog.String("device", d.Name()), slog.String("ops", has.String()))
	e.optional[i] = has
	return has, nil
}

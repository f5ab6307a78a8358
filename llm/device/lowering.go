package device

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/kernels"
)

// A Lowering names the ops of which graphs are made, see [nn.Lowering].
type Lowering string

// The lowerings.
const (
	Kernels Lowering = "cpu"   // this project's kernels; on the CPU alone
	Stock   Lowering = "stock" // ops that every device of ggml has
)

// lowering chooses by the devices. Nothing else asks which they are.
func (o Options) lowering() (Lowering, error) {
	onCPU := o.Layout.IsCPU()
	switch {
	case o.Lowering == "" && onCPU:
		return Kernels, nil
	case o.Lowering == "":
		return Stock, nil
	case o.Lowering == Kernels && !onCPU:
		return "", fmt.Errorf("the lowering %q is of the CPU, and not of %s; leave it out, or use %q", Kernels, o.Layout, Stock)
	case o.Lowering != Kernels && o.Lowering != Stock:
		return "", fmt.Errorf("there is no lowering %q; they are %q and %q", o.Lowering, Kernels, Stock)
	}
	return o.Lowering, nil
}

// HasKernels reports whether graphs can have ops of [kernels].
func (e *Engine) HasKernels() bool { return e.lowering == Kernels }

// Training is the lowering of graphs with gradients, and of those that are compared with
// them. Products with frozen weights are computed in the type: see [nn.CPU] and
// [nn.StockTraining].
func (e *Engine) Training(compute ggml.Type) (*nn.Lowering, error) {
	if err := e.CheckOpen(); err != nil {
		return nil, err
	}
	if e.HasKernels() {
		return nn.CPU(compute)
	}
	return nn.StockTraining(compute)
}

// Decoding is the lowering of graphs without gradients. Products are as fast as the device
// can, and may round.
func (e *Engine) Decoding() (*nn.Lowering, error) {
	if err := e.CheckOpen(); err != nil {
		return nil, err
	}
	if !e.HasKernels() {
		return nn.Stock(), nil
	}
	if _, err := kernels.GEMMLibrary(); err != nil {
		return nil, err
	}
	return nn.CPU(kernels.FastestType())
}

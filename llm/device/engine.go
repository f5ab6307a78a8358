package device

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/layout"
)

// Options are the settings of an [Engine]; the zero value computes on the CPU.
type Options struct {
	Layout  layout.Layout // layout of the models
	Threads int           // of the CPU; 0 means [ggml.DefaultThreads]
	OpSet   OpSet         // "" means each device's own
	// Layers may replace the device's lowering for a layer or [nn.NoLayer]. If it is nil or returns nil, the device's
	// lowering is used.
	Layers func(layer int, u Use, device *nn.Lowering) *nn.Lowering
}

// An Engine computes graphs on the devices of a layout: each op on the device of its weights, or on the CPU if the
// device does not support it. The caller closes it. It is used by one goroutine.
type Engine struct {
	places   layout.Places
	ops      *opSet // selected by Options
	layers   func(layer int, u Use, device *nn.Lowering) *nn.Lowering
	backends []*ggml.Backend // of the devices
	optional map[int]nn.OptionalOps
	shared   *Workspace
	there    *Engine                           // the target engine, whose ops graphs use; see [NewPlanning]
	planned  func(u Use) (nn.Lowerings, error) // lowerings of the target layout
	closed   bool
	access   exclusive.Access
}

// New opens an engine.
func New(o Options) (*Engine, error) {
	places, err := o.Layout.Places()
	if err != nil {
		return nil, err
	}
	ops, err := o.opSet()
	if err != nil {
		return nil, err
	}
	e := &Engine{places: places, ops: ops, layers: o.Layers, optional: map[int]nn.OptionalOps{}}
	if err := e.open(o.Threads); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// NewCPU opens a CPU engine with a number of threads; 0 means [ggml.DefaultThreads].
func NewCPU(threads int) (*Engine, error) { return New(Options{Threads: threads}) }

// NewPlanning opens an engine that builds graphs of models in one layout with the ops of another, the target, to
// estimate the memory needed there. It must not compute. If decided is false, the target's assignment of weights is
// still open, and graphs use only ops that all of its devices support.
func NewPlanning(models, target layout.Layout, decided bool) (*Engine, error) {
	there, err := New(Options{Layout: target, Threads: 1})
	if err != nil {
		return nil, err
	}
	e, err := New(Options{Layout: models, Threads: 1})
	if err != nil {
		there.Close()
		return nil, err
	}
	e.there, e.planned = there, there.Lowerings
	if !decided {
		e.planned = there.everywhere
	}
	return e, nil
}

func (e *Engine) open(threads int) error {
	for _, d := range e.places.Devices[:len(e.places.Devices)-1] {
		b, err := d.NewBackend()
		if err != nil {
			return err
		}
		e.backends = append(e.backends, b)
	}
	cpu, err := ggml.NewCPUBackend(threads)
	if err != nil {
		return err
	}
	e.backends = append(e.backends, cpu)
	e.shared, err = e.NewWorkspace()
	return err
}

// CheckOpen returns an error if the engine is nil, a zero value or closed.
func (e *Engine) CheckOpen() error {
	switch {
	case e == nil:
		return errors.New("the engine is nil")
	case len(e.places.Devices) == 0:
		return fmt.Errorf("the engine is a zero value; New makes one: %w", ggml.ErrZeroValue)
	case e.closed:
		return fmt.Errorf("engine: %w", ggml.ErrClosed)
	}
	return nil
}

// Layout returns the layout of the weights.
func (e *Engine) Layout() layout.Layout { return e.places.Layout }

// Devices returns the devices of the layout, the CPU last.
func (e *Engine) Devices() []*ggml.Device { return slices.Clone(e.places.Devices) }

// Place returns the index in Devices of the device that holds weights of a kind, see [layout.Layout.Of].
func (e *Engine) Place(layer int, kind layout.Kind) (int, error) {
	if err := e.CheckOpen(); err != nil {
		return 0, err
	}
	return e.places.Index(layer, kind)
}

// AvailableMemory returns the memory that the devices can still provide, see [layout.Places.Available].
func (e *Engine) AvailableMemory() layout.Sizes { return e.places.Available() }

// Check checks that tensors of a kind, or belonging to a weight of that kind, are on the device that the layout
// assigns, see [layout.Layout.Of]. ggml would copy others for each computation, and lose what is written to the copy.
func (e *Engine) Check(layer int, kind layout.Kind, tensors ...*ggml.Tensor) error {
	i, err := e.Place(layer, kind)
	if err != nil {
		return err
	}
	d := e.places.Devices[i]
	for _, t := range tensors {
		if bt := t.BufferType(); bt != nil && !d.SupportsBufferType(bt) {
			return fmt.Errorf("%v is in memory of %s, but the layout of the engine puts it on %s; load the model with this layout, and make its adapters for that model", t, bt.Name(), d.Name())
		}
	}
	return nil
}

// Reserve allocates enough graph memory for g, see [Workspace.Reserve].
func (e *Engine) Reserve(g *ggml.Graph) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	return e.shared.Reserve(g)
}

// Allocate gives g the memory of the previous graph, unless g is still allocated.
func (e *Engine) Allocate(g *ggml.Graph) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	return e.shared.Allocate(g)
}

// Compute computes the graph allocated last.
func (e *Engine) Compute(ctx context.Context, g *ggml.Graph) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	return e.shared.Compute(ctx, g)
}

// Memory returns the sizes of the graph memory on each device.
func (e *Engine) Memory() layout.Sizes {
	if e == nil || e.shared == nil {
		return nil
	}
	return e.shared.Sizes()
}

// Close frees the engine. It fails only while another call uses it.
func (e *Engine) Close() error {
	if e == nil {
		return nil
	}
	if err := e.shared.Close(); err != nil {
		return err
	}
	e.closed = true
	e.there.Close()
	for _, b := range e.backends {
		b.Close()
	}
	return nil
}

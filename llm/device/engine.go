// Package device opens what models are computed on: a device of ggml, the memory for
// results, and the [nn.Lowering] that suits both.
package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
)

// Options are the settings of an [Engine]; the zero value is the CPU.
type Options struct {
	Device   *ggml.Device // nil is the CPU
	Threads  int          // of the CPU; 0 stands for [ggml.DefaultThreads]
	Lowering Lowering     // "" is that of the device
}

// An Engine computes graphs on a device. What a device has no op for, the CPU computes.
// Close it after use. It is used by one goroutine.
type Engine struct {
	device   *ggml.Device
	lowering Lowering
	backends []*ggml.Backend // the CPU is the last
	shared   *Workspace
	closed   bool
}

// New opens an engine.
func New(o Options) (*Engine, error) {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return nil, err
	}
	if o.Device == nil {
		o.Device = cpu
	}
	e := &Engine{device: o.Device}
	if e.lowering, err = o.lowering(); err != nil {
		return nil, err
	}
	if err := e.open(o.Threads); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// NewCPU opens a CPU engine with that many threads; 0 stands for
// [ggml.DefaultThreads].
func NewCPU(threads int) (*Engine, error) { return New(Options{Threads: threads}) }

func (e *Engine) open(threads int) error {
	if e.device.Type() != ggml.CPU {
		b, err := e.device.NewBackend()
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

// CheckOpen says what is wrong with an engine that is nil, a zero value or closed.
func (e *Engine) CheckOpen() error {
	switch {
	case e == nil:
		return errors.New("the engine is nil")
	case e.device == nil:
		return fmt.Errorf("the engine is a zero value; New makes one: %w", ggml.ErrZeroValue)
	case e.closed:
		return fmt.Errorf("engine: %w", ggml.ErrClosed)
	}
	return nil
}

// Device is what the engine computes on.
func (e *Engine) Device() *ggml.Device { return e.device }

// BufferType is the memory of the device, where weights and all else that stays belong.
func (e *Engine) BufferType() *ggml.BufferType { return e.backends[0].BufferType() }

// Check demands tensors that lie in memory of the device: others would be copied for each
// computation, and what is written to a copy is lost.
func (e *Engine) Check(tensors ...*ggml.Tensor) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	for _, t := range tensors {
		bt := t.BufferType()
		if bt == nil || e.device.SupportsBufferType(bt) {
			continue
		}
		return fmt.Errorf("%v lies in memory of %s, and the engine computes on %s; load the model, and make its adapters, on the engine's device", t, bt.Name(), e.device.Name())
	}
	return nil
}

// Allocate gives memory to the graph, if it was not the last one to get it: that of the
// graph before.
func (e *Engine) Allocate(g *ggml.Graph) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	return e.shared.Allocate(g)
}

// Compute runs the graph that was allocated last.
func (e *Engine) Compute(ctx context.Context, g *ggml.Graph) error {
	if err := e.CheckOpen(); err != nil {
		return err
	}
	return e.shared.Compute(ctx, g)
}

// Close frees the engine. It never fails.
func (e *Engine) Close() error {
	if e == nil {
		return nil
	}
	e.closed = true
	e.shared.Close()
	for _, b := range e.backends {
		b.Close()
	}
	return nil
}

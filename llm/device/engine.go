// Package device opens what models are computed on: a backend of ggml with the memory for
// results.
package device

import (
	"fmt"

	"github.com/goggml/ggml"
)

// An Engine computes graphs: a backend, and the memory for their results.
// Close it after use. It is used by one goroutine.
type Engine struct {
	Backend   *ggml.Backend
	Allocator *ggml.GraphAllocator
	allocated *ggml.Graph
	closed    bool
}

// CheckOpen says what is wrong with an engine that is closed.
func (e *Engine) CheckOpen() error {
	if e.closed {
		return fmt.Errorf("engine: %w", ggml.ErrClosed)
	}
	return nil
}

// NewCPU opens a CPU engine with that many threads; 0 stands for
// [ggml.DefaultThreads].
func NewCPU(threads int) (*Engine, error) {
	b, err := ggml.NewCPUBackend(threads)
	if err != nil {
		return nil, err
	}
	a, err := ggml.NewGraphAllocator(b.BufferType())
	if err != nil {
		b.Close()
		return nil, err
	}
	return &Engine{Backend: b, Allocator: a}, nil
}

// Allocate gives memory to the graph, if it was not the last one to get it.
func (e *Engine) Allocate(g *ggml.Graph) error {
	if e.allocated == g {
		return nil
	}
	e.allocated = nil
	if err := e.Allocator.Alloc(g); err != nil {
		return err
	}
	e.allocated = g
	return nil
}

// Close frees the engine. It never fails.
func (e *Engine) Close() error {
	if e == nil {
		return nil
	}
	e.closed = true
	e.Allocator.Close()
	return e.Backend.Close()
}

package device

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/layout"
)

// A Workspace is memory for the results of one graph at a time, and computes that graph. Close it before its engine. It
// is used by one goroutine, together with the engine.
type Workspace struct {
	backends  []*ggml.Backend
	allocator *ggml.GraphAllocator // for the CPU alone, which needs no scheduler
	scheduler *ggml.Scheduler      // for devices and the CPU
	size      int                  // size of the largest graph that the scheduler supports
	allocated *ggml.Graph
	access    *exclusive.Access // the engine's
}

// NewWorkspace returns a workspace beside the shared graph memory.
func (e *Engine) NewWorkspace() (*Workspace, error) {
	if err := e.CheckOpen(); err != nil {
		return nil, err
	}
	w := &Workspace{backends: e.backends, access: &e.access}
	if len(e.backends) > 1 {
		return w, nil
	}
	var err error
	w.allocator, err = ggml.NewGraphAllocator(e.backends[0].BufferType())
	return w, err
}

func (w *Workspace) checkMade() error {
	switch {
	case w == nil:
		return errors.New("the workspace is nil")
	case len(w.backends) == 0:
		return fmt.Errorf("the workspace is a zero value; NewWorkspace makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// acquire reserves the workspace's engine for a call.
func (w *Workspace) acquire(method string) error {
	if err := w.checkMade(); err != nil {
		return err
	}
	return w.access.Acquire(method, "Engine")
}

// Allocate allocates the graph, unless it was allocated last.
func (w *Workspace) Allocate(g *ggml.Graph) error {
	if err := w.acquire("Workspace.Allocate"); err != nil {
		return err
	}
	defer w.access.Release()
	if w.allocated == g {
		return nil
	}
	w.allocated = nil
	if err := w.allocate(g); err != nil {
		return err
	}
	w.allocated = g
	return nil
}

func (w *Workspace) allocate(g *ggml.Graph) error {
	if w.allocator != nil {
		return w.allocator.Allocate(g)
	}
	if err := w.makeRoom(g); err != nil {
		return err
	}
	if testhook.Allocating != nil {
		testhook.Allocating(g)
	}
	return w.scheduler.Allocate(g)
}

// Reserve allocates enough memory for g, so that smaller graphs need no more later. The previous graph is no longer
// allocated.
func (w *Workspace) Reserve(g *ggml.Graph) error {
	if err := w.acquire("Workspace.Reserve"); err != nil {
		return err
	}
	defer w.access.Release()
	w.allocated = nil
	if w.allocator != nil {
		return w.allocator.Reserve(g)
	}
	if err := w.makeRoom(g); err != nil {
		return err
	}
	return w.scheduler.Reserve(g)
}

// Measure returns the Sizes that Allocate would result in, without allocating. The previous graph is no longer
// allocated.
func (w *Workspace) Measure(g *ggml.Graph) (layout.Sizes, error) {
	if err := w.acquire("Workspace.Measure"); err != nil {
		return nil, err
	}
	defer w.access.Release()
	w.allocated = nil
	if w.allocator != nil {
		return w.allocator.SizesFor(g, ggml.Placement{})
	}
	if err := w.makeRoom(g); err != nil {
		return nil, err
	}
	return w.scheduler.Measure(g)
}

// makeRoom replaces the scheduler if the graph is too large for it.
func (w *Workspace) makeRoom(g *ggml.Graph) error {
	const usual = 8192
	need := g.NumNodes() + len(slices.Collect(g.Leaves()))
	if w.scheduler != nil && need <= w.size {
		return nil
	}
	w.scheduler.Close()
	w.size = max(usual, 2*w.size, need)
	var err error
	w.scheduler, err = ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: w.size}, w.backends...)
	return err
}

// Compute computes the graph allocated last.
func (w *Workspace) Compute(ctx context.Context, g *ggml.Graph) error {
	if err := w.acquire("Workspace.Compute"); err != nil {
		return err
	}
	defer w.access.Release()
	return w.compute(ctx, g)
}

func (w *Workspace) compute(ctx context.Context, g *ggml.Graph) error {
	defer submitting(g)()
	if w.scheduler != nil {
		scheduled(w, g)
		return w.scheduler.Compute(ctx, g)
	}
	return w.backends[0].Compute(ctx, g)
}

// submitting reports a computation to tests; done reports its end.
func submitting(graphs ...any) (done func()) {
	testhook.Submissions.Add(1)
	if testhook.Submitting != nil {
		testhook.Submitting(graphs...)
	}
	return func() {
		if testhook.Computed != nil {
			testhook.Computed()
		}
	}
}

// scheduled shows tests a graph that a scheduler is about to compute.
func scheduled(w *Workspace, g *ggml.Graph) {
	if testhook.Scheduled != nil {
		testhook.Scheduled(w.scheduler, g)
	}
}

// A Work is a graph to compute and the workspace that has allocated it.
type Work struct {
	Workspace *Workspace
	Graph     *ggml.Graph
}

// ComputeThen computes g like Compute and then further graphs in the same submission. Each begins when the previous one
// has ended, without waiting or reading in between. If ctx is cancelled before the second begins, it does not begin.
// Once it has begun, all run to the end, so that they can make changes that must not stay half done. Each graph must
// belong to a different workspace of the same engine.
func (w *Workspace) ComputeThen(ctx context.Context, g *ggml.Graph, then ...Work) error {
	if err := w.acquire("Workspace.ComputeThen"); err != nil {
		return err
	}
	defer w.access.Release()
	for i, next := range then {
		if err := next.Workspace.checkMade(); err != nil {
			return err
		}
		isSame := func(before Work) bool { return before.Workspace == next.Workspace }
		if isSame(Work{Workspace: w}) || slices.ContainsFunc(then[:i], isSame) || !slices.Equal(w.backends, next.Workspace.backends) {
			return fmt.Errorf("graph %d must have a workspace of its own, of the same engine", i+2)
		}
	}
	if len(then) == 0 {
		return w.compute(ctx, g)
	}
	graphs := []any{g}
	for _, next := range then {
		graphs = append(graphs, next.Graph)
	}
	defer submitting(graphs...)()
	if w.scheduler == nil {
		err := w.backends[0].ComputeThen(ctx, g, then[0].Graph)
		for _, next := range then[1:] {
			if err == nil {
				err = w.backends[0].Compute(context.WithoutCancel(ctx), next.Graph)
			}
		}
		return err
	}
	scheduled(w, g)
	if slices.ContainsFunc(w.backends, (*ggml.Backend).IsRPC) { // cancelled ComputeAsync would wait for them
		err := w.scheduler.Compute(ctx, g)
		for _, next := range then {
			if err == nil {
				scheduled(next.Workspace, next.Graph)
				err = next.Workspace.scheduler.Compute(context.WithoutCancel(ctx), next.Graph)
			}
		}
		return err
	}
	err := w.scheduler.ComputeAsync(ctx, g)
	if err == nil {
		err = context.Cause(ctx)
	}
	for _, next := range then {
		if err == nil {
			scheduled(next.Workspace, next.Graph)
			err = next.Workspace.scheduler.ComputeAsync(context.WithoutCancel(ctx), next.Graph)
		}
	}
	// Synchronize each, last first, although all share the same devices.
	for _, next := range slices.Backward(then) {
		err = errors.Join(err, next.Workspace.scheduler.Synchronize())
	}
	return errors.Join(err, w.scheduler.Synchronize())
}

// Sizes returns the sizes of the results on each device.
func (w *Workspace) Sizes() layout.Sizes {
	switch {
	case w == nil:
		return nil
	case w.allocator != nil:
		return w.allocator.Sizes()
	}
	sizes := make(layout.Sizes, len(w.backends))
	for i, b := range w.backends {
		sizes[i] = w.scheduler.BufferSize(b)
	}
	return sizes
}

// Close frees the memory. It fails only while another call uses the engine.
func (w *Workspace) Close() error {
	if w == nil || len(w.backends) == 0 {
		return nil
	}
	if err := w.acquire("Workspace.Close"); err != nil {
		return err
	}
	defer w.access.Release()
	w.allocator.Close()
	return w.scheduler.Close()
}

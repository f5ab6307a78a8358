package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"unsafe"
)

// A GraphPlan is a graph prepared for many computations on a backend. Only the CPU has plans; they
// save the planning and the scratch memory of each computation. It computes the nodes that the
// graph had when the plan was made. It is safe for concurrent use. C: ggml_backend_graph_plan_t.
type GraphPlan struct {
	h       *handle
	p       C.ggml_backend_graph_plan_t
	backend *Backend
	graph   *Graph
	version graphVersion
	pool    *ThreadPool // pool when the plan was made; the plan has its address
}

// NewPlan prepares a graph whose tensors are allocated. Between computations of the plan, the
// tensors may be reallocated or closed. C: ggml_backend_graph_plan_create, of the CPU
// ggml_graph_plan.
func (b *Backend) NewPlan(g *Graph) (*GraphPlan, error) {
	b = made(b)
	release, err := g.check([]*Device{b.device}, checkReady)
	if err != nil {
		return nil, err
	}
	defer release()
	unlock, err := lockBackends([]*Backend{b})
	if err != nil {
		return nil, during(err, g.operand())
	}
	defer unlock()
	r := C.goggml_plan_new(b.b, g.g)
	if err := guardError(r.error); err != nil {
		return nil, g.errorf(nil, "backend %s makes no plans (%v); call Compute", b.Name(), err)
	}
	if r.value == nil {
		return nil, g.errorf(ErrOutOfMemory, "there is no memory for a plan")
	}
	p := &GraphPlan{p: C.ggml_backend_graph_plan_t(r.value), backend: b, graph: g, version: g.version(), pool: b.pool.pool}
	cb, plan := b.b, p.p
	parents := []*handle{b.h, g.ctx.h}
	if p.pool != nil {
		parents = append(parents, p.pool.h)
	}
	p.h, err = newHandle("graph plan", func() { released(C.goggml_plan_free(cb, plan)) }, parents...)
	if err != nil {
		return nil, err
	}
	closeOnCollect(p, p.h)
	return p, nil
}

// WorkBytes returns the scratch memory in bytes that the CPU needs to compute a graph, besides its
// tensors; 0 on other devices, and if the plugin does not report it. The tensors must be allocated.
// C: work_size of struct ggml_cplan.
func (b *Backend) WorkBytes(g *Graph) (int64, error) {
	b = made(b)
	release, err := g.check([]*Device{b.device}, checkReady)
	if err != nil {
		return 0, err
	}
	defer release()
	unlock, err := lockBackends([]*Backend{b})
	if err != nil {
		return 0, during(err, g.operand())
	}
	defer unlock()
	if b.device.Type() != CPU {
		return 0, nil
	}
	r := C.goggml_cpu_work_size(b.b, g.g, C.int(b.threads))
	if err := guardError(r.error); err != nil {
		return 0, g.errorf(nil, "%v", err)
	}
	return int64(r.value), nil
}

// Close frees the plan when its last computation has ended. It never fails. C:
// ggml_backend_graph_plan_free.
func (p *GraphPlan) Close() error {
	if p != nil {
		p.h.close()
	}
	return nil
}

// Compute is [Backend.Compute] by the plan. It fails if the graph's nodes or the backend's thread
// pool have changed since the plan was made. C: ggml_backend_graph_plan_compute, of the CPU
// ggml_graph_compute.
func (p *GraphPlan) Compute(ctx context.Context) error {
	p = made(p)
	if err := p.h.acquire(); err != nil {
		return during(err, p.graph.operand())
	}
	defer p.h.release()
	release, err := p.graph.check([]*Device{p.backend.device}, checkReady)
	if err != nil {
		return err
	}
	defer release()
	var stale error
	err = p.graph.compute(ctx, &computation{backends: []*Backend{p.backend}}, func() (int64, error) {
		if stale = p.stale(); stale != nil {
			return C.GGML_STATUS_SUCCESS, nil
		}
		return runOn([]*Backend{p.backend}, C.goggml_plan_compute, unsafe.Pointer(p.backend.b), unsafe.Pointer(p.p))
	})
	if stale != nil {
		return p.graph.errorf(nil, "%v; make another plan", stale)
	}
	return err
}

// stale returns why the plan is no longer valid, or nil. The caller has locked backend and graph.
func (p *GraphPlan) stale() error {
	switch now := p.graph.version(); {
	case now.replaced != p.version.replaced:
		return errors.New("the graph was cleared, or became a copy, since it was planned")
	case now != p.version:
		return fmt.Errorf("the graph had %d nodes when it was planned; it now has %d", p.version.nodes, now.nodes)
	}
	if p.backend.pool.pool != p.pool {
		return fmt.Errorf("the backend has another thread pool than when it was planned")
	}
	return nil
}

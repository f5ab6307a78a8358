package ggml

// #include "csrc/goggml.h"
import "C"

import "slices"

// Prepare sets the graph for the next Allocate of an optimizer without a static graph: inputs are
// samples, and the loss is computed from outputs. Call it before each Allocate. The graphs may
// differ in the number of samples, but not in the parameters nor in the number and order of nodes.
//
// Allocate allocates the leaves marked by [Tensor.SetInput]; other leaves, such as parameters, must
// be allocated already. C: ggml_opt_prepare_alloc.
func (o *Optimizer) Prepare(g *Graph, inputs, outputs *Tensor) error {
	o = made(o)
	leave, err := o.enter()
	if err != nil {
		return err
	}
	defer leave()
	switch {
	case o.IsStatic():
		return optError(nil, "the optimizer has a static graph")
	case o.ready:
		return optError(nil, "a graph is allocated; call Eval first")
	}
	for _, t := range []*Tensor{inputs, outputs} {
		if err := t.missing(); err != nil {
			return err
		}
	}
	release, err := g.check(o.devices(), checkBuilt)
	if err != nil {
		return err
	}
	release()
	inputs.SetInput()
	outputs.SetOutput()
	if release, err = g.check(nil, checkBuilt); err != nil {
		return err
	}
	defer release()
	if contexts := g.ctx.withDependencies(); !containsContext(contexts, inputs.ctx) || !containsContext(contexts, outputs.ctx) {
		return outputs.errorf(nil, "inputs and outputs must be tensors of the graph; call Expand")
	}
	if err := o.checkGraph(g, inputs, outputs); err != nil {
		return err
	}
	params := paramsOf(g)
	if o.params != nil && !slices.Equal(o.params, params) {
		return g.errorf(nil, "the graph differs from the first one of this optimizer in its parameters, or in the number or order of its nodes")
	}
	o.graph, o.prepared = g, true
	o.tensors.inputs, o.tensors.outputs = inputs, outputs
	return nil
}

// An optParam is a parameter and its index among the nodes of a graph, by which ggml finds its
// moments. The last entry of a list marks the end.
type optParam struct {
	node   int
	tensor *C.struct_ggml_tensor
}

func paramsOf(g *Graph) []optParam {
	n := int(C.ggml_graph_n_nodes(g.g))
	var params []optParam
	for i := range n {
		if node := C.ggml_graph_node(g.g, C.int(i)); node.flags&C.GGML_TENSOR_FLAG_PARAM != 0 {
			params = append(params, optParam{i, node})
		}
	}
	return append(params, optParam{node: n})
}

// Allocate prepares an evaluation, which trains if backward is true and is only a forward pass
// otherwise. Call Eval once after each Allocate.
//
// A forward pass cannot interrupt a period of backward passes, whose gradients belong together. C:
// ggml_opt_alloc.
func (o *Optimizer) Allocate(backward bool) error {
	o = made(o)
	leave, err := o.enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := o.allocatable(backward); err != nil {
		return err
	}
	if o.ready {
		return nil
	}
	if o.IsStatic() && backward && !o.accumulating {
		if err := o.align(); err != nil {
			return err
		}
	}
	return o.alloc(backward)
}

func (o *Optimizer) allocatable(backward bool) error {
	misaligned := o.phase != 0 && !o.accumulating
	switch {
	case backward && o.options.Build != BuildOptimizer:
		return optError(nil, "the optimizer is only for evaluation; make one with BuildOptimizer")
	case o.ready && (backward != o.backward || !o.IsStatic()):
		return optError(nil, "a graph is allocated; call Eval first")
	case !backward && o.accumulating:
		return optError(nil, "a forward pass would end the accumulation of gradients: %d of %d backward passes are done", o.phase, o.options.Period)
	case !o.IsStatic() && !o.prepared:
		return optError(nil, "there is no graph; call Prepare before each Allocate")
	case !o.IsStatic() && backward && misaligned:
		return optError(nil, "ggml counts forward passes too: do %d more of them, to a multiple of the period", o.options.Period-o.phase)
	}
	return nil
}

// align runs forward passes up to the next period only to advance ggml's counter: otherwise ggml
// would make a step after an incomplete period.
func (o *Optimizer) align() error {
	for o.phase != 0 {
		if err := o.alloc(false); err != nil {
			return err
		}
		if err := o.eval(nil); err != nil {
			return err
		}
	}
	return nil
}

func (o *Optimizer) alloc(backward bool) error {
	first := C.bool(o.phase == 0 && (o.options.Period > 1 || !o.kept()))
	o.backward = backward
	var err error
	if o.kept() {
		err = o.allocStatic(first)
	} else {
		err = o.current.allocate(o.graph, forCompute, o.devices(), o.h, o, func() C.goggml_int { return o.allocDynamic(first) })
		if err == nil {
			o.frame.addAllocation(o.current.memory, o)
		}
	}
	if err != nil {
		return err
	}
	o.ready = true
	o.measure()
	return nil
}

// measure records the memory that the optimizer holds, for [MemoryReport]: the graph's memory on
// each backend, and other buffers such as the moments.
func (o *Optimizer) measure() {
	if len(o.own) == 0 && (o.kept() || o.ready && o.hasStep()) {
		r := C.goggml_opt_buffer(o.o, o.graph.g)
		if b := C.ggml_backend_buffer_t(r.value); guardError(r.error) == nil && b != nil {
			o.own = []memoryUse{bufferUse(b)}
		}
	}
	uses := append([]memoryUse(nil), o.own...)
	for _, b := range o.backends {
		device := deviceOf(C.ggml_backend_get_default_buffer_type(b.b))
		uses = append(uses, memoryUse{device, UsageCompute, int64(C.ggml_backend_sched_get_buffer_size(o.o.sched, b.b))})
	}
	o.current.uses.Store(&uses)
}

func (o *Optimizer) allocStatic(first C.bool) error {
	release, err := o.graph.check(nil, checkBuilt)
	if err != nil {
		return err
	}
	defer release()
	r := C.goggml_opt_alloc(o.o, C.bool(o.backward), first)
	switch err := guardError(r.error); {
	case err != nil:
		o.fault = err
		return o.graph.errorf(ErrBroken, "%v", err)
	case r.value == 0:
		o.fault = ErrOutOfMemory
		return o.graph.errorf(ErrOutOfMemory, "out of memory; use a smaller batch")
	}
	return nil
}

// allocDynamic gives the tensors that ggml adds to the graph a context of their own, which the next
// call replaces.
func (o *Optimizer) allocDynamic(first C.bool) C.goggml_int {
	if o.frame != nil {
		o.frame.Close()
	}
	frame, err := contextFor("optimizer graph", func() {}, o.h)
	if err != nil {
		return C.goggml_int{}
	}
	closeOnCollect(frame, frame.h)
	o.frame = frame
	t := &o.tensors
	o.fault = errUnfinished
	if e := C.goggml_opt_prepare(o.o, frame.arena, o.graph.g, t.inputs.t, t.outputs.t); e != nil {
		return C.goggml_int{error: e}
	}
	r := C.goggml_opt_alloc(o.o, C.bool(o.backward), first)
	if r.error != nil || r.value == 0 {
		return r
	}
	if o.clearMoments && bool(o.backward) {
		if e := C.goggml_opt_reset(o.o, true); e != nil {
			return C.goggml_int{error: e}
		}
		o.clearMoments = false
	}
	if o.params == nil {
		o.params = paramsOf(o.graph)
	}
	o.tensors = o.findTensors(frame, t.inputs, t.outputs)
	o.fault = nil
	return r
}

// Reset clears the gradients; with optimizer also AdamW's moments and the iteration count. With
// dynamic graphs, accumulated gradients are cleared automatically, and the moments cannot be
// cleared if the period is above 1. C: ggml_opt_reset.
func (o *Optimizer) Reset(optimizer bool) error {
	o = made(o)
	leave, err := o.enter()
	if err != nil {
		return err
	}
	defer leave()
	switch {
	case o.options.Build != BuildOptimizer:
		return optError(nil, "the optimizer is only for evaluation; there is nothing to reset")
	case o.kept():
		return o.reset(optimizer)
	case optimizer && o.options.Period > 1:
		return optError(nil, "with a period of %d the moments of dynamic graphs, and of a static one of more than %d nodes, cannot be reset; make another optimizer", o.options.Period, C.GGML_DEFAULT_GRAPH_SIZE)
	case optimizer && o.ready:
		return optError(nil, "a graph is allocated; call Reset after Eval")
	case optimizer:
		o.clearMoments, o.iteration = true, 0
	}
	return nil
}

func (o *Optimizer) reset(optimizer bool) error {
	if optimizer {
		o.iteration = 0
	}
	release, err := o.graph.check(nil, checkBuilt)
	if err != nil {
		return err
	}
	defer release()
	return guardError(C.goggml_opt_reset(o.o, C.bool(optimizer)))
}

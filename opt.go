package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"slices"
	"sync"
)

// A BuildType selects what an [Optimizer] can do. C: enum ggml_opt_build_type.
type BuildType int

// The zero BuildType means BuildOptimizer.
const (
	BuildForward   BuildType = C.GGML_OPT_BUILD_TYPE_FORWARD // only evaluate
	BuildGradients BuildType = C.GGML_OPT_BUILD_TYPE_GRAD    // gradients without steps; ggml (0.27) refuses it
	BuildOptimizer BuildType = C.GGML_OPT_BUILD_TYPE_OPT     // evaluate and train
)

// OptimizerOptions are the settings of an optimizer. The zero value is AdamW on the mean of the
// outputs of dynamic graphs. C: struct ggml_opt_params.
type OptimizerOptions struct {
	Loss      LossType
	Build     BuildType
	Optimizer OptimizerType

	// Period is the number of backward passes whose gradients are accumulated for a step; 0 means
	// 1. Gradients are averaged, except for LossSum, which adds them.
	Period int

	// Params returns the settings, such as the learning rate, of each step; iteration counts from
	// 1. nil means DefaultOptimizerParams.
	Params func(iteration int64) OptimizerParams

	// Inputs and Outputs, if given, select a static graph: it is built once, and is the fastest.
	// All its leaves must be allocated, see [Context.Allocate]. Without them each evaluation takes
	// another graph, see [Optimizer.Prepare].
	//
	// ggml keeps static graphs of up to 2048 nodes, including gradients and steps. A larger graph
	// is allocated again for each evaluation: call Labels, Loss and similar methods after each
	// Allocate, as for dynamic graphs.
	Inputs, Outputs *Tensor

	// GraphSize is the maximum number of nodes and leaves of dynamic graphs, gradients included; 0
	// means 8192. Static graphs determine it themselves.
	GraphSize int
}

// An Optimizer trains the parameters (see [Tensor.SetParam]) of a graph. Each evaluation consists
// of Allocate, writing the inputs and labels, for example by [Dataset.CopyBatch], and Eval;
// [Optimizer.Epoch] and [Fit] do this for a data set. Evaluations with Allocate(true) train.
//
// The second dimension of inputs and outputs counts samples. Write inputs and labels between
// Allocate and Eval; read results after Eval. A graph of fixed shape is static, see
// [OptimizerOptions]; otherwise see Prepare.
//
// It is safe for concurrent use, but Allocate and Eval of two goroutines would mix: use one
// optimizer per goroutine. C: ggml_opt_context_t.
type Optimizer struct {
	h        *handle
	ctx      *Context // context of the tensors that ggml makes
	o        *C.goggml_optimizer
	options  OptimizerOptions
	backends []*Backend
	large    bool       // the static graph is larger than ggml keeps
	epoch    sync.Mutex // held by Epoch
	current  *allocatorState

	mu           sync.Mutex
	fault        error // why the optimizer is unusable
	tensors      optTensors
	graph        *Graph   // static: graph of the outputs; dynamic: the prepared graph
	frame        *Context // dynamic: context of the tensors that ggml adds to the graph
	prepared     bool
	params       []optParam  // dynamic: parameters of the first graph
	ready        bool        // between Allocate and Eval
	backward     bool        // argument of Allocate
	phase        int         // number of evaluations in this period
	accumulating bool        // gradients are accumulated in this period
	clearMoments bool        // dynamic: at the next Allocate
	own          []memoryUse // the buffer of the moments, once known
	iteration    int64
}

// NewOptimizer makes an optimizer that computes on the backends, as a [Scheduler] does: the last
// one is a CPU backend. AdamW keeps its moments in memory of the first backend, and the parameters
// must lie there too.
//
// A static graph and its memory stay until the optimizer is closed. C: ggml_opt_default_params,
// ggml_opt_init.
func NewOptimizer(options OptimizerOptions, backends ...*Backend) (*Optimizer, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	if err := checkBackends(backends); err != nil {
		return nil, err
	}
	var parents []*handle
	for _, b := range backends {
		parents = append(parents, b.h)
	}
	o := &Optimizer{options: options, backends: slices.Clone(backends), current: &allocatorState{}}
	current := o.current
	var co *C.goggml_optimizer
	ctx, err := contextFor("optimizer", func() {
		current.free()
		if co != nil {
			C.goggml_opt_free(co)
		}
	}, parents...)
	if err != nil {
		return nil, during(err)
	}
	o.h, o.ctx = ctx.h, ctx
	if err := o.init(); err != nil {
		o.h.close()
		return nil, err
	}
	co = o.o
	o.measure()
	memory.track(o.h, current.measured)
	closeOnCollect(o, o.h)
	return o, nil
}

var errUnfinished = errors.New("a graph could not be allocated")

// check validates the options and fills in defaults.
func (o *OptimizerOptions) check() error {
	if o.Build == 0 {
		o.Build = BuildOptimizer
	}
	if o.Period == 0 {
		o.Period = 1
	}
	if o.GraphSize == 0 {
		o.GraphSize = 8192
	}
	switch {
	case lossNames[o.Loss] == "":
		return optError(nil, "there is no loss %d", int(o.Loss))
	case o.Build == BuildGradients:
		return optError(nil, "ggml %s cannot build gradients without steps; use BuildOptimizer, or Graph.Backward", Version())
	case o.Build != BuildForward && o.Build != BuildOptimizer:
		return optError(nil, "the build type is %d; it must be BuildForward or BuildOptimizer", int(o.Build))
	case o.Optimizer != OptimizerAdamW && o.Optimizer != OptimizerSGD:
		return optError(nil, "there is no optimizer %d", int(o.Optimizer))
	case o.Period < 1 || o.Period > 1<<30:
		return optError(nil, "the period is %d; it must be positive", o.Period)
	case o.GraphSize < 1 || o.GraphSize > maxGraph:
		return optError(nil, "the graph size is %d; it must be 1 to %d", o.GraphSize, maxGraph)
	case (o.Inputs == nil) != (o.Outputs == nil):
		return optError(nil, "one of inputs and outputs is nil; a static graph needs both, dynamic graphs neither")
	}
	return nil
}

func (o *Optimizer) init() error {
	list := make([]C.ggml_backend_t, len(o.backends))
	for i, b := range o.backends {
		list[i] = b.b
	}
	options := C.goggml_opt_options{
		loss: C.enum_ggml_opt_loss_type(o.options.Loss), build: C.enum_ggml_opt_build_type(o.options.Build),
		optimizer: C.enum_ggml_opt_optimizer_type(o.options.Optimizer), period: C.int32_t(o.options.Period),
		graph_size: C.size_t(max(o.options.GraphSize, 2*C.GGML_DEFAULT_GRAPH_SIZE)),
	}
	if o.options.Outputs != nil {
		release, err := o.buildStatic()
		if err != nil {
			return err
		}
		defer release()
		size, err := o.graphSize()
		if err != nil {
			return err
		}
		if o.large = max(size.nodes, size.leaves) > C.GGML_DEFAULT_GRAPH_SIZE; o.large {
			o.options.GraphSize = max(o.options.GraphSize, int(size.nodes+size.leaves))
			options.graph_size = C.size_t(2 * o.options.GraphSize)
		} else {
			options.arena, options.inputs, options.outputs = o.ctx.arena, o.options.Inputs.t, o.options.Outputs.t
			options.n_nodes = C.int64_t(C.ggml_graph_n_nodes(o.graph.g))
		}
	}
	if err := checkGraphSize(o.options.GraphSize, options.graph_size); err != nil {
		return optError(err, "%v", err)
	}
	r := C.goggml_opt_new(&list[0], C.int(len(list)), options)
	if err := guardError(r.error); err != nil {
		return optError(nil, "%v", err)
	}
	o.o = (*C.goggml_optimizer)(r.value)
	switch {
	case o.kept():
		o.tensors = o.findTensors(o.ctx, o.options.Inputs, o.options.Outputs)
	case o.large:
		o.tensors = optTensors{inputs: o.options.Inputs, outputs: o.options.Outputs}
	}
	return nil
}

// graphSize returns the number of nodes of the static graph with its additions.
func (o *Optimizer) graphSize() (C.goggml_opt_size, error) {
	scratch := C.goggml_arena_new()
	if scratch == nil {
		return C.goggml_opt_size{}, optError(ErrOutOfMemory, "out of memory")
	}
	defer C.goggml_arena_free(scratch)
	size := C.goggml_opt_measure(scratch, o.graph.g, o.options.Outputs.t, C.bool(o.options.Build == BuildOptimizer))
	if err := guardError(size.error); err != nil {
		return size, o.graph.errorf(nil, "%v", err)
	}
	return size, nil
}

// buildStatic checks the graph of the outputs, and retains its memory.
func (o *Optimizer) buildStatic() (release func(), err error) {
	inputs, outputs := o.options.Inputs, o.options.Outputs
	for _, t := range []*Tensor{inputs, outputs} {
		if err := t.missing(); err != nil {
			return nil, err
		}
	}
	inputs.SetInput()
	o.graph = o.ctx.NewTrainingGraph(outputs)
	release, err = o.graph.check(o.devices(), checkBuilt)
	if err != nil {
		return nil, err
	}
	if err = o.checkGraph(o.graph, inputs, outputs); err == nil {
		err = o.keep(o.graph.ctx.withDependencies())
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// keep retains contexts and the buffers of their tensors until the optimizer is freed: ggml stores
// their addresses.
func (o *Optimizer) keep(contexts []*Context) error {
	var refs references
	for _, c := range contexts {
		if c == o.ctx {
			continue
		}
		if err := refs.addContext(c); err != nil {
			refs.release()
			return err
		}
	}
	for _, m := range refs.memory {
		m.release() // leaves in the memory of a graph are refused earlier
	}
	o.h.parents = append(o.h.parents, refs.handles...)
	return nil
}

func (o *Optimizer) devices() []*Device {
	var devices []*Device
	for _, b := range o.backends {
		devices = append(devices, b.device)
	}
	return devices
}

// Close frees the optimizer when its last use has ended; the parameters stay. It never fails. C:
// ggml_opt_free.
func (o *Optimizer) Close() error {
	if o == nil || !o.h.close() {
		return nil
	}
	end := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.frame.Close()
	}
	if calling().waitsFor(&o.mu) {
		go end()
		return nil
	}
	end()
	return nil
}

// IsStatic reports whether the graph is static. C: ggml_opt_static_graphs.
func (o *Optimizer) IsStatic() bool {
	o = made(o)
	return o.options.Outputs != nil
}

// kept reports whether the graph is static and small enough for ggml to keep it.
func (o *Optimizer) kept() bool { return o.IsStatic() && !o.large }

// Type returns the kind of optimizer. C: ggml_opt_context_optimizer_type.
func (o *Optimizer) Type() OptimizerType {
	o = made(o)
	return o.options.Optimizer
}

// Iteration returns the number of steps so far.
func (o *Optimizer) Iteration() int64 {
	o = made(o)
	if lock(&o.mu) != nil {
		return 0
	}
	defer o.mu.Unlock()
	return o.iteration
}

// usable returns why the optimizer cannot be used, or nil. The caller holds the lock.
func (o *Optimizer) usable() error {
	if o.fault != nil {
		return optError(ErrBroken, "the optimizer is broken by an earlier failure: %v", o.fault)
	}
	return nil
}

// enter retains and locks the optimizer until leave. It fails if the optimizer is closed or broken.
func (o *Optimizer) enter() (leave func(), err error) {
	if leave, err = enter(o.h, &o.mu); err != nil {
		return nil, during(err)
	}
	if err := o.usable(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

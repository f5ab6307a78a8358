package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
)

// A LossType is what an [Optimizer] makes small, in terms of the outputs
// [ne0, k] for k samples. C: enum ggml_opt_loss_type.
type LossType int

// The losses. Others are built from ops, and given to LossSum or LossMean as
// the outputs.
const (
	LossMean             LossType = C.GGML_OPT_LOSS_TYPE_MEAN               // the mean of the outputs
	LossSum              LossType = C.GGML_OPT_LOSS_TYPE_SUM                // the sum of the outputs
	LossCrossEntropy     LossType = C.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY      // see [Context.CrossEntropyLoss]; labels are probabilities
	LossMeanSquaredError LossType = C.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR // the mean of (outputs − labels)²
)

var lossNames = map[LossType]string{
	LossMean: "mean", LossSum: "sum", LossCrossEntropy: "cross entropy", LossMeanSquaredError: "mean squared error",
}

// String names the loss.
func (l LossType) String() string {
	if name, ok := lossNames[l]; ok {
		return name
	}
	return fmt.Sprintf("loss(%d)", int(l))
}

func (l LossType) hasLabels() bool { return l == LossCrossEntropy || l == LossMeanSquaredError }

// A BuildType says what an [Optimizer] can do. C: enum ggml_opt_build_type.
type BuildType int

// The zero BuildType stands for BuildOptimizer.
const (
	BuildForward   BuildType = C.GGML_OPT_BUILD_TYPE_FORWARD // only evaluate
	BuildGradients BuildType = C.GGML_OPT_BUILD_TYPE_GRAD    // gradients without steps; ggml (0.27) refuses it
	BuildOptimizer BuildType = C.GGML_OPT_BUILD_TYPE_OPT     // evaluate and train
)

// OptimizerOptions are the settings of an optimizer. The zero value is AdamW
// on the mean of the outputs of dynamic graphs. C: struct ggml_opt_params.
type OptimizerOptions struct {
	Loss      LossType
	Build     BuildType
	Optimizer OptimizerType

	// Period is the number of backward passes whose gradients are accumulated
	// for a step; 0 stands for 1. The gradients are averaged, for LossSum added.
	Period int

	// Params gives the learning rate and its like for each step; iteration is
	// 1 for the first. nil stands for DefaultOptimizerParams.
	Params func(iteration int64) OptimizerParams

	// Inputs and Outputs, where given, make a static graph: it is built once,
	// and is the fastest. All its leaves have memory, see [Context.Allocate].
	// Without them each evaluation takes another graph, see [Optimizer.Prepare].
	//
	// The library keeps static graphs of up to 2048 nodes, gradients and steps
	// included. A larger one is allocated anew for each evaluation: ask for
	// Labels, Loss and the like after each Alloc, as for dynamic graphs.
	Inputs, Outputs *Tensor

	// GraphSize bounds the number of nodes and leaves of dynamic graphs,
	// gradients included; 0 stands for 8192. For static graphs it is known.
	GraphSize int
}

// An Optimizer trains the parameters (see [Tensor.SetParam]) that a graph
// depends on. Each evaluation is Alloc, then writing the inputs and labels,
// for example by [Dataset.CopyBatch], then Eval; [Optimizer.Epoch] and [Fit] do
// that for a data set. Evaluations with Alloc(true) train.
//
// The second dimension of inputs and outputs counts samples. Inputs and labels
// are written between Alloc and Eval, the results are read after Eval. A graph
// of fixed shape is static, see [OptimizerOptions]; else see Prepare.
//
// It is safe for concurrent use, but Alloc and Eval of two goroutines would
// mix: use an optimizer a goroutine. C: ggml_opt_context_t.
type Optimizer struct {
	h        *handle
	ctx      *Context // of the tensors that ggml makes
	o        *C.goggml_optimizer
	options  OptimizerOptions
	backends []*Backend
	large    bool       // the static graph is more than ggml keeps
	epoch    sync.Mutex // held by Epoch
	current  *allocatorState

	mu           sync.Mutex
	fault        error // why it can be used no more
	tensors      optTensors
	graph        *Graph   // static: of the outputs; dynamic: as prepared
	frame        *Context // dynamic: of what ggml adds to the graph
	prepared     bool
	params       []optParam  // dynamic: of the first graph
	ready        bool        // Alloc was called, Eval not yet
	backward     bool        // what Alloc was for
	phase        int         // evaluations since a period began
	accumulating bool        // gradients are, in this period
	clearMoments bool        // dynamic: at the next Alloc
	own          []memoryUse // the buffer of the moments, once it is known
	iteration    int64
}

// optTensors are the tensors of the present graph; labels, pred and ncorrect
// are nil where the loss has none.
type optTensors struct {
	inputs, outputs, labels, loss, pred, ncorrect *Tensor
}

// NewOptimizer makes an optimizer that computes on the backends, as a
// [Scheduler] does: the last one is a CPU backend. AdamW keeps its moments in
// memory of the first backend, and the parameters must lie there too.
//
// A static graph, with its memory, stays until the optimizer is closed.
// C: ggml_opt_default_params, ggml_opt_init.
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
		return nil, during(err, optInit)
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

const optInit = "opt_init"

var errUnfinished = errors.New("a graph could not be allocated")

// check fills in defaults.
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
		return optError(optInit, nil, "there is no loss %d", int(o.Loss))
	case o.Build == BuildGradients:
		return optError(optInit, nil, "ggml %s cannot build gradients without steps; use BuildOptimizer, or Graph.Backward", Version())
	case o.Build != BuildForward && o.Build != BuildOptimizer:
		return optError(optInit, nil, "the build type is %d; it must be BuildForward or BuildOptimizer", int(o.Build))
	case o.Optimizer != AdamW && o.Optimizer != SGD:
		return optError(optInit, nil, "there is no optimizer %d", int(o.Optimizer))
	case o.Period < 1 || o.Period > 1<<30:
		return optError(optInit, nil, "the period is %d; it must be positive", o.Period)
	case o.GraphSize < 1 || o.GraphSize > maxGraph:
		return optError(optInit, nil, "the graph size is %d; it must be 1 to %d", o.GraphSize, maxGraph)
	case (o.Inputs == nil) != (o.Outputs == nil):
		return optError(optInit, nil, "of inputs and outputs one is nil; a static graph needs both, dynamic graphs neither")
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
		return optError(optInit, err, "%v", err)
	}
	r := C.goggml_opt_new(&list[0], C.int(len(list)), options)
	if err := guardError(r.error); err != nil {
		return optError(optInit, nil, "%v", err)
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

// graphSize counts the nodes of the static graph with all that is added to it.
func (o *Optimizer) graphSize() (C.goggml_opt_size, error) {
	scratch := C.goggml_arena_new()
	if scratch == nil {
		return C.goggml_opt_size{}, optError(optInit, ErrOutOfMemory, "out of memory")
	}
	defer C.goggml_arena_free(scratch)
	size := C.goggml_opt_measure(scratch, o.graph.g, o.options.Outputs.t, C.bool(o.options.Build == BuildOptimizer))
	if err := guardError(size.error); err != nil {
		return size, o.graph.errorf(optInit, nil, "%v", err)
	}
	return size, nil
}

// buildStatic checks the graph of the outputs, and keeps all its memory.
func (o *Optimizer) buildStatic() (release func(), err error) {
	inputs, outputs := o.options.Inputs, o.options.Outputs
	for _, t := range []*Tensor{inputs, outputs} {
		if err := t.missing(optInit); err != nil {
			return nil, err
		}
	}
	inputs.SetInput()
	o.graph = o.ctx.NewTrainingGraph(outputs)
	release, err = o.graph.check(optInit, o.devices(), checkBuilt)
	if err != nil {
		return nil, err
	}
	if err = o.checkGraph(optInit, o.graph, inputs, outputs); err == nil {
		err = o.keep(o.graph.ctx.withDependencies())
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// keep retains contexts and the buffers of their tensors until the optimizer is
// freed: ggml copies the addresses.
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
		m.release() // leaves in the memory of a graph were refused
	}
	o.h.parents = append(o.h.parents, refs.handles...)
	return nil
}

// checkGraph reports why the optimizer cannot use a graph, which is retained.
func (o *Optimizer) checkGraph(op string, g *Graph, inputs, outputs *Tensor) error {
	switch {
	case outputs.typ != F32:
		return outputs.errorf(op, nil, "the outputs must have type f32")
	case !bool(C.ggml_is_contiguous(outputs.t)):
		return outputs.errorf(op, nil, "the outputs must be contiguous; call Cont")
	case o.options.Loss == LossCrossEntropy && (outputs.ne[2] != 1 || outputs.ne[3] != 1):
		return outputs.errorf(op, nil, "the outputs must be [classes, samples] for the cross entropy; call Reshape")
	}
	dynamic := o.options.Outputs == nil
	c := C.goggml_opt_check_graph(g.g, inputs.t, outputs.t, o.backends[0].b, C.bool(dynamic))
	switch c.fault {
	case C.GOGGML_OPT_NO_MEMORY:
		return g.tensor(c.tensor).errorf(op, ErrNotAllocated, "this leaf has no memory that stays; call Allocate of its context")
	case C.GOGGML_OPT_NOT_IN_GRAPH:
		return outputs.errorf(op, nil, "the outputs are not computed by the graph; call Expand")
	case C.GOGGML_OPT_UNUSED:
		return inputs.errorf(op, nil, "the outputs do not depend on the inputs")
	}
	if o.options.Build == BuildForward {
		return nil
	}
	switch c.fault {
	case C.GOGGML_OPT_TYPE:
		return g.tensor(c.tensor).errorf(op, nil, "a parameter must be contiguous and of type f32")
	case C.GOGGML_OPT_BUFFER_UNREACHABLE:
		return g.tensor(c.tensor).errorf(op, nil, "the parameter must be in memory of the first backend, %s", o.backends[0].Name())
	}
	flags := C.goggml_graph_find_flags(g.g)
	switch {
	case flags.loss != nil:
		return g.tensor(flags.loss).errorf(op, nil, "the optimizer adds the loss; no tensor may be marked by SetLoss")
	case g.backward:
		return g.errorf(op, nil, "the graph has its gradients already; the optimizer adds them")
	case !bool(flags.params) && outputs.t.flags&C.GGML_TENSOR_FLAG_PARAM == 0:
		return g.errorf(op, nil, "no tensor of the graph is marked as a parameter; call SetParam")
	}
	if err := g.derivable(op); err != nil || dynamic || o.options.Period > 1 {
		return err
	}
	return o.checkGradients(op, g, outputs)
}

// checkGradients looks for gradients that an optimizer would read in the wrong
// order. Where they are accumulated, the sum is in the right one.
func (o *Optimizer) checkGradients(op string, g *Graph, outputs *Tensor) error {
	scratch := C.goggml_arena_new()
	if scratch == nil {
		return optError(op, ErrOutOfMemory, "out of memory")
	}
	defer C.goggml_arena_free(scratch)
	r := C.goggml_opt_noncontiguous_grad(scratch, g.g, outputs.t)
	if err := guardError(r.error); err != nil {
		return g.errorf(op, nil, "%v", err)
	}
	if r.value == nil {
		return nil
	}
	param := g.tensor((*C.struct_ggml_tensor)(r.value))
	return param.errorf(op, nil, "the gradient of this parameter is a transposed or permuted view, which the optimizer would read wrong; store the parameter in the other order")
}

// findTensors asks ggml for the tensors of the graph that it has built;
// those that it has made belong to c.
func (o *Optimizer) findTensors(c *Context, inputs, outputs *Tensor) optTensors {
	made := func(p *C.struct_ggml_tensor) *Tensor {
		if p == nil {
			return nil
		}
		return newTensor(c, p)
	}
	return optTensors{
		inputs: inputs, outputs: outputs,
		labels: made(C.ggml_opt_labels(o.o.opt)), loss: made(C.ggml_opt_loss(o.o.opt)),
		pred: made(C.ggml_opt_pred(o.o.opt)), ncorrect: made(C.ggml_opt_ncorrect(o.o.opt)),
	}
}

func (o *Optimizer) devices() []*Device {
	var devices []*Device
	for _, b := range o.backends {
		devices = append(devices, b.device)
	}
	return devices
}

// Close frees the optimizer once nothing uses it any more; the parameters
// stay. It never fails. C: ggml_opt_free.
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
func (o *Optimizer) IsStatic() bool { return o.options.Outputs != nil }

// kept reports whether ggml keeps the graph, which is static.
func (o *Optimizer) kept() bool { return o.IsStatic() && !o.large }

// Type returns the kind of optimizer. C: ggml_opt_context_optimizer_type.
func (o *Optimizer) Type() OptimizerType { return o.options.Optimizer }

// Iteration counts the steps of the optimizer so far.
func (o *Optimizer) Iteration() int64 {
	if lock(&o.mu) != nil {
		return 0
	}
	defer o.mu.Unlock()
	return o.iteration
}

func (o *Optimizer) present() optTensors {
	if lock(&o.mu) != nil {
		return optTensors{}
	}
	defer o.mu.Unlock()
	return o.tensors
}

// Inputs is the tensor of the samples. Like the following ones it is nil for
// dynamic graphs before the first Alloc, which replaces them all; so are those of
// a large static graph (see [OptimizerOptions]), but for inputs and outputs.
// C: ggml_opt_inputs.
func (o *Optimizer) Inputs() *Tensor { return o.present().inputs }

// Outputs is the result of the graph. That of a static graph cannot be read
// unless it was allocated like the leaves. C: ggml_opt_outputs.
func (o *Optimizer) Outputs() *Tensor { return o.present().outputs }

// Labels is the tensor of the labels, of the outputs' shape and F32; nil for
// losses without labels. C: ggml_opt_labels.
func (o *Optimizer) Labels() *Tensor { return o.present().labels }

// Loss is the loss of the last evaluation, a single F32. With a period above 1
// it is divided by that, except for [LossSum]: [OptResult.Loss] is not.
// C: ggml_opt_loss.
func (o *Optimizer) Loss() *Tensor { return o.present().loss }

// Pred is the index of the largest output for each sample, I32 [k]; nil for
// losses other than [LossCrossEntropy]. C: ggml_opt_pred.
func (o *Optimizer) Pred() *Tensor { return o.present().pred }

// NCorrect counts the predictions that are right, a single I64; nil for losses
// other than [LossCrossEntropy]. C: ggml_opt_ncorrect.
func (o *Optimizer) NCorrect() *Tensor { return o.present().ncorrect }

// GradAcc finds the tensor that accumulates the gradient of a parameter: a static
// graph of period 1 accumulates nothing. For a dynamic graph ask between Alloc and
// the Eval that makes a step. C: ggml_opt_grad_acc.
func (o *Optimizer) GradAcc(node *Tensor) (*Tensor, bool) {
	if node.ptr() == nil || o.h.acquire() != nil {
		return nil, false
	}
	defer o.h.release()
	if lock(&o.mu) != nil {
		return nil, false
	}
	defer o.mu.Unlock()
	if !o.hasStep() {
		return nil, false
	}
	r := C.goggml_opt_grad_acc(o.o, node.t)
	if guardError(r.error) != nil || r.value == nil {
		return nil, false
	}
	return newTensor(o.ctx, (*C.struct_ggml_tensor)(r.value)), true
}

// hasStep reports whether ggml has a graph with a step of the optimizer.
func (o *Optimizer) hasStep() bool {
	if o.options.Build != BuildOptimizer {
		return false
	}
	return o.kept() || o.ready && o.stepsNext()
}

// stepsNext reports whether the evaluation that is allocated makes a step.
func (o *Optimizer) stepsNext() bool {
	return o.backward && (o.phase+1)%o.options.Period == 0
}

// usable reports why the optimizer cannot be used. The caller holds the lock.
func (o *Optimizer) usable(op string) error {
	if o.fault != nil {
		return optError(op, ErrBroken, "the optimizer is broken by an earlier failure: %v", o.fault)
	}
	return nil
}

// enter holds and locks the optimizer for an op, until leave. It fails when the
// optimizer is closed or broken.
func (o *Optimizer) enter(op string) (leave func(), err error) {
	if err := o.h.acquire(); err != nil {
		return nil, during(err, op)
	}
	if err := lock(&o.mu); err != nil {
		o.h.release()
		return nil, during(err, op)
	}
	leave = func() {
		o.mu.Unlock()
		o.h.release()
	}
	if err := o.usable(op); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Reset clears the gradients; with optimizer also the moments of AdamW and the
// count of iterations. With dynamic graphs accumulated gradients are cleared
// by themselves, and with a period above 1 the moments cannot be.
// C: ggml_opt_reset.
func (o *Optimizer) Reset(optimizer bool) error {
	const op = "opt_reset"
	leave, err := o.enter(op)
	if err != nil {
		return err
	}
	defer leave()
	switch {
	case o.options.Build != BuildOptimizer:
		return optError(op, nil, "the optimizer is only for evaluation; there is nothing to reset")
	case o.kept():
		return o.reset(op, optimizer)
	case optimizer && o.options.Period > 1:
		return optError(op, nil, "with a period of %d the moments of dynamic graphs, and of a static one of more than %d nodes, cannot be reset; make another optimizer", o.options.Period, C.GGML_DEFAULT_GRAPH_SIZE)
	case optimizer && o.ready:
		return optError(op, nil, "a graph is allocated; call Reset after Eval")
	case optimizer:
		o.clearMoments, o.iteration = true, 0
	}
	return nil
}

func (o *Optimizer) reset(op string, optimizer bool) error {
	if optimizer {
		o.iteration = 0
	}
	release, err := o.graph.check(op, nil, checkBuilt)
	if err != nil {
		return err
	}
	defer release()
	return guardError(C.goggml_opt_reset(o.o, C.bool(optimizer)))
}

// Eval computes the graph that Alloc has allocated, adds loss and predictions
// to the result unless that is nil, and, when this completes a period of
// backward passes, changes the parameters. It cannot be cancelled: a step is
// done as a whole or not at all. C: ggml_opt_eval.
func (o *Optimizer) Eval(result *OptResult) error {
	const op = "opt_eval"
	if err := o.h.acquire(); err != nil {
		return during(err, op)
	}
	defer o.h.release()
	params, err := o.nextParams(op)
	if err != nil {
		return err
	}
	if err := lock(&o.mu); err != nil {
		return during(err, op)
	}
	defer o.mu.Unlock()
	if err := o.evaluable(op); err != nil {
		return err
	}
	if params.set {
		o.o.pars = params.c
	} else if o.stepsNext() {
		return optError(op, nil, "another goroutine uses the optimizer")
	}
	if result == nil {
		return o.eval(op, nil)
	}
	evalErr := error(nil)
	if err := result.with(func() { evalErr = o.evalInto(op, result) }); err != nil {
		return err
	}
	return evalErr
}

func (o *Optimizer) evaluable(op string) error {
	if err := o.usable(op); err != nil {
		return err
	}
	if !o.ready {
		return optError(op, ErrNotAllocated, "no graph is allocated; call Alloc before each Eval")
	}
	return nil
}

func (o *Optimizer) evalInto(op string, r *OptResult) error {
	kind := resultKind{loss: o.options.Loss, period: o.options.Period, batch: o.tensors.outputs.ne[1]}
	if r.n > 0 && kind != r.kind {
		return optError(op, nil, "the result holds evaluations of %v with period %d and batches of %d samples, not %v, %d and %d; call Reset, or use another result",
			r.kind.loss, r.kind.period, r.kind.batch, kind.loss, kind.period, kind.batch)
	}
	if err := o.eval(op, r); err != nil {
		return err
	}
	r.kind = kind
	r.n++
	return nil
}

// eval is Eval, after its checks of the arguments and with all locks.
func (o *Optimizer) eval(op string, r *OptResult) error {
	level := checkBuilt
	if !o.kept() {
		level = checkReady
	}
	release, err := o.graph.check(op, nil, level)
	if err != nil {
		return err
	}
	defer release()
	if c := C.goggml_graph_check(o.graph.g, nil, 0, false, true, &C.goggml_check_key{}, nil, 0); c.fault != C.GOGGML_FAULT_NONE {
		return during(o.graph.faultError(c, nil), op)
	}
	started := true
	c, result := &computation{backends: o.backends, locks: []*sync.Mutex{&o.mu}}, C.ggml_opt_result_t(nil)
	if r != nil {
		c.locks, result = append(c.locks, &r.mu), r.r
	}
	run := func() (int64, error) {
		status, err := runOn(o.backends, C.goggml_opt_eval, unsafe.Pointer(o.o), unsafe.Pointer(result))
		started = !errors.Is(err, computethread.ErrNotStarted)
		return status, err
	}
	if err := o.graph.compute(context.Background(), op, c, run); err != nil {
		if started {
			o.fault = err
		}
		return err
	}
	o.ready, o.prepared = false, false
	if o.stepsNext() {
		o.iteration++
	}
	o.phase = (o.phase + 1) % o.options.Period
	o.accumulating = o.backward && o.phase != 0
	return nil
}

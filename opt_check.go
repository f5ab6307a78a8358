package ggml

// #include "csrc/goggml.h"
import "C"

import "fmt"

// checkGraph returns why the optimizer cannot use a retained graph, or nil.
func (o *Optimizer) checkGraph(g *Graph, inputs, outputs *Tensor) error {
	switch {
	case outputs.typ != F32:
		return outputs.errorf(nil, "the outputs must have type f32")
	case !bool(C.ggml_is_contiguous(outputs.t)):
		return outputs.errorf(nil, "the outputs must be contiguous; call Cont")
	case o.options.Loss == LossCrossEntropy && (outputs.ne[2] != 1 || outputs.ne[3] != 1):
		return outputs.errorf(nil, "the outputs must be [classes, samples] for the cross entropy; call Reshape")
	}
	dynamic := o.options.Outputs == nil
	c := C.goggml_opt_check_graph(g.g, inputs.t, outputs.t, o.backends[0].b, C.bool(dynamic))
	switch c.fault {
	case C.GOGGML_OPT_NO_MEMORY:
		return g.tensor(c.tensor).errorf(ErrNotAllocated, "this leaf has no lasting memory; call Allocate of its context")
	case C.GOGGML_OPT_NOT_IN_GRAPH:
		return outputs.errorf(nil, "the outputs are not computed by the graph; call Expand")
	case C.GOGGML_OPT_UNUSED:
		return inputs.errorf(nil, "the outputs do not depend on the inputs")
	}
	if o.options.Build == BuildForward {
		return nil
	}
	switch c.fault {
	case C.GOGGML_OPT_TYPE:
		return g.tensor(c.tensor).errorf(nil, "a parameter must be contiguous and of type f32")
	case C.GOGGML_OPT_BUFFER_UNREACHABLE:
		return g.tensor(c.tensor).errorf(nil, "the parameter must be in memory of the first backend, %s", o.backends[0].Name())
	}
	flags := C.goggml_graph_find_flags(g.g)
	switch {
	case flags.loss != nil:
		return g.tensor(flags.loss).errorf(nil, "the optimizer adds the loss; no tensor may be marked with SetLoss")
	case g.backward:
		return g.errorf(nil, "the graph has its gradients already; the optimizer adds them")
	case !bool(flags.params) && outputs.t.flags&C.GGML_TENSOR_FLAG_PARAM == 0:
		return g.errorf(nil, "no tensor of the graph is marked as a parameter; call SetParam")
	}
	if err := g.derivable(); err != nil || dynamic || o.options.Period > 1 {
		return err
	}
	return o.checkGradients(g, outputs)
}

// checkGradients reports gradients that an optimizer would read in the wrong order. Accumulated
// gradients have the right one.
func (o *Optimizer) checkGradients(g *Graph, outputs *Tensor) error {
	scratch := C.goggml_arena_new()
	if scratch == nil {
		return optError(ErrOutOfMemory, "out of memory")
	}
	defer C.goggml_arena_free(scratch)
	r := C.goggml_opt_noncontiguous_grad(scratch, g.g, outputs.t)
	if err := guardError(r.error); err != nil {
		return g.errorf(nil, "%v", err)
	}
	if r.value == nil {
		return nil
	}
	param := g.tensor((*C.struct_ggml_tensor)(r.value))
	return param.errorf(nil, "the gradient of this parameter is a transposed or permuted view, which the optimizer would read wrong; store the parameter in the other order")
}

// A LossType is the loss that an [Optimizer] minimises, computed from outputs [ne0, k] for k
// samples. C: enum ggml_opt_loss_type.
type LossType int

// The losses. To use another loss, build it from ops and pass it as the outputs of LossSum or
// LossMean.
const (
	LossMean             LossType = C.GGML_OPT_LOSS_TYPE_MEAN               // the mean of the outputs
	LossSum              LossType = C.GGML_OPT_LOSS_TYPE_SUM                // the sum of the outputs
	LossCrossEntropy     LossType = C.GGML_OPT_LOSS_TYPE_CROSS_ENTROPY      // see [Context.CrossEntropyLoss]; labels are probabilities
	LossMeanSquaredError LossType = C.GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR // the mean of (outputs − labels)²
)

var lossNames = map[LossType]string{
	LossMean: "mean", LossSum: "sum", LossCrossEntropy: "cross entropy", LossMeanSquaredError: "mean squared error",
}

// String returns the name of the loss.
func (l LossType) String() string {
	if name, ok := lossNames[l]; ok {
		return name
	}
	return fmt.Sprintf("loss(%d)", int(l))
}

func (l LossType) hasLabels() bool { return l == LossCrossEntropy || l == LossMeanSquaredError }

package ggml

// #include "csrc/goggml.h"
import "C"

// optTensors are the tensors of the present graph; labels, pred and ncorrect
// are nil where the loss has none.
type optTensors struct {
	inputs, outputs, labels, loss, pred, ncorrect *Tensor
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

func (o *Optimizer) present() optTensors {
	if lock(&o.mu) != nil {
		return optTensors{}
	}
	defer o.mu.Unlock()
	return o.tensors
}

// Inputs is the tensor of the samples. Like the methods below it returns nil for dynamic graphs
// before the first Allocate, which replaces all of these tensors. For a large static graph (see
// [OptimizerOptions]) this holds for all but inputs and outputs.
// C: ggml_opt_inputs.
func (o *Optimizer) Inputs() *Tensor {
	o = made(o)
	return o.present().inputs
}

// Outputs is the result of the graph. In a static graph it cannot be read unless it was allocated
// like the leaves. C: ggml_opt_outputs.
func (o *Optimizer) Outputs() *Tensor {
	o = made(o)
	return o.present().outputs
}

// Labels is the tensor of the labels, of the outputs' shape and F32; nil for
// losses without labels. C: ggml_opt_labels.
func (o *Optimizer) Labels() *Tensor {
	o = made(o)
	return o.present().labels
}

// Loss is the loss of the last evaluation, a single F32. With a period above 1
// it is divided by that, except for [LossSum]: [OptResult.Loss] is not.
// C: ggml_opt_loss.
func (o *Optimizer) Loss() *Tensor {
	o = made(o)
	return o.present().loss
}

// Pred is the index of the largest output for each sample, I32 [k]; nil for
// losses other than [LossCrossEntropy]. C: ggml_opt_pred.
func (o *Optimizer) Pred() *Tensor {
	o = made(o)
	return o.present().pred
}

// NumCorrect counts the predictions that are right, a single I64; nil for losses
// other than [LossCrossEntropy]. C: ggml_opt_ncorrect.
func (o *Optimizer) NumCorrect() *Tensor {
	o = made(o)
	return o.present().ncorrect
}

// GradAcc finds the tensor that accumulates the gradient of a parameter: a static
// graph of period 1 accumulates nothing. For a dynamic graph ask between Allocate and
// the Eval that makes a step. C: ggml_opt_grad_acc.
func (o *Optimizer) GradAcc(node *Tensor) (*Tensor, bool) {
	o = made(o)
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

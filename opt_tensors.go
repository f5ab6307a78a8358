package ggml

// #include "csrc/goggml.h"
import "C"

// optTensors are the tensors of the current graph; labels, pred and ncorrect are nil if the loss
// has none.
type optTensors struct {
	inputs, outputs, labels, loss, pred, ncorrect *Tensor
}

// findTensors gets the tensors of the graph that ggml has built; tensors made by ggml belong to c.
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

// Inputs returns the tensor of the samples. For dynamic graphs, this method and the methods below
// return nil before the first Allocate, and each Allocate replaces the tensors. For a large static
// graph (see [OptimizerOptions]) the same holds except for inputs and outputs. C: ggml_opt_inputs.
func (o *Optimizer) Inputs() *Tensor {
	o = made(o)
	return o.present().inputs
}

// Outputs returns the result of the graph. In a static graph it can be read only if it was
// allocated like the leaves. C: ggml_opt_outputs.
func (o *Optimizer) Outputs() *Tensor {
	o = made(o)
	return o.present().outputs
}

// Labels returns the tensor of the labels, F32 of the outputs' shape; nil for losses without
// labels. C: ggml_opt_labels.
func (o *Optimizer) Labels() *Tensor {
	o = made(o)
	return o.present().labels
}

// Loss returns the loss of the last evaluation, one F32. With a period above 1 it is divided by the
// period, except for [LossSum]; [OptResult.Loss] is not. C: ggml_opt_loss.
func (o *Optimizer) Loss() *Tensor {
	o = made(o)
	return o.present().loss
}

// Pred returns the index of the largest output for each sample, I32 [k]; nil for losses other than
// [LossCrossEntropy]. C: ggml_opt_pred.
func (o *Optimizer) Pred() *Tensor {
	o = made(o)
	return o.present().pred
}

// NumCorrect returns the number of correct predictions, one I64; nil for losses other than
// [LossCrossEntropy]. C: ggml_opt_ncorrect.
func (o *Optimizer) NumCorrect() *Tensor {
	o = made(o)
	return o.present().ncorrect
}

// GradAcc returns the tensor that accumulates the gradient of a parameter. A static graph of period
// 1 accumulates nothing. For a dynamic graph, call it between Allocate and an Eval that makes a
// step. C: ggml_opt_grad_acc.
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

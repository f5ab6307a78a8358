package ggml

// #include "csrc/goggml.h"
import "C"

import "fmt"

// A LossType is the loss that an [Optimizer] minimises, in terms of the outputs [ne0, k] for k
// samples. C: enum ggml_opt_loss_type.
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

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"math"
	"sync"
	"unsafe"
)

// An OptResult accumulates evaluations of an [Optimizer]: their loss and, for [LossCrossEntropy],
// the predictions and the number of correct ones. All evaluations until Reset must have one loss,
// period and batch size.
//
// It is safe for concurrent use. C: ggml_opt_result_t.
type OptResult struct {
	h    *handle
	r    C.ggml_opt_result_t
	mu   sync.Mutex
	kind resultKind // kind of the evaluations so far
	n    int64      // their number
}

// resultKind is common to all evaluations in a result.
type resultKind struct {
	loss   LossType
	period int
	batch  int64
}

// NewOptResult makes an empty result. C: ggml_opt_result_init.
func NewOptResult() (*OptResult, error) {
	cr := C.ggml_opt_result_init()
	h, err := newHandle("optimizer result", func() { C.ggml_opt_result_free(cr) })
	if err != nil {
		return nil, err
	}
	r := &OptResult{h: h, r: cr}
	closeOnCollect(r, h)
	return r, nil
}

// Close frees the result. It never fails. C: ggml_opt_result_free.
func (r *OptResult) Close() error {
	if r != nil {
		r.h.close()
	}
	return nil
}

// with runs f unless the result is nil or closed.
func (r *OptResult) with(f func()) error {
	if r == nil {
		return optError(nil, "the result is nil")
	}
	leave, err := enter(r.h, &r.mu)
	if err != nil {
		return during(err)
	}
	defer leave()
	f()
	return nil
}

// Reset removes all evaluations. C: ggml_opt_result_reset.
func (r *OptResult) Reset() error {
	r = made(r)
	return r.with(func() {
		C.ggml_opt_result_reset(r.r)
		r.n = 0
	})
}

// NumSamples returns the number of evaluated samples; 0 if closed. C: ggml_opt_result_ndata.
func (r *OptResult) NumSamples() int64 {
	var n C.int64_t
	r.with(func() { C.ggml_opt_result_ndata(r.r, &n) })
	return int64(n)
}

// Loss returns the loss and its standard error: for [LossSum] the sum over all batches, else the
// mean. Gradient accumulation does not change it. Both are NaN if nothing was evaluated or the
// result is closed; the standard error is also NaN after one batch. C: ggml_opt_result_loss.
func (r *OptResult) Loss() (loss, unc float64) {
	loss, unc = math.NaN(), math.NaN()
	r.with(func() {
		if r.n == 0 {
			return
		}
		var l, u C.double
		C.ggml_opt_result_loss(r.r, &l, &u)
		loss, unc = float64(l), float64(u)
	})
	return loss, unc
}

// Accuracy returns the fraction of correct predictions, 0 to 1, and its standard error. Both are
// NaN for losses other than [LossCrossEntropy], and whenever [OptResult.Loss] returns NaN. C:
// ggml_opt_result_accuracy.
func (r *OptResult) Accuracy() (accuracy, unc float64) {
	accuracy, unc = math.NaN(), math.NaN()
	r.with(func() {
		if r.n == 0 {
			return
		}
		var a, u C.double
		C.ggml_opt_result_accuracy(r.r, &a, &u)
		accuracy, unc = float64(a), float64(u)
	})
	return accuracy, unc
}

// Pred returns the prediction for each sample in the order of evaluation: the
// index of the largest output. It is nil for losses other than
// [LossCrossEntropy]. C: ggml_opt_result_pred.
func (r *OptResult) Pred() []int32 {
	var pred []int32
	r.with(func() {
		if r.n == 0 || r.kind.loss != LossCrossEntropy {
			return
		}
		var n C.int64_t
		C.ggml_opt_result_ndata(r.r, &n)
		pred = make([]int32, n)
		C.ggml_opt_result_pred(r.r, (*C.int32_t)(unsafe.Pointer(&pred[0])))
	})
	return pred
}

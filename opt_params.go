package ggml

// #include "csrc/goggml.h"
import "C"

import "fmt"

// An OptimizerType is the rule by which an [Optimizer] updates parameters. C: enum
// ggml_opt_optimizer_type.
type OptimizerType int

// The rules. AdamW keeps two moments per parameter, SGD none.
const (
	OptimizerAdamW OptimizerType = C.GGML_OPT_OPTIMIZER_TYPE_ADAMW // see [Context.OptStepAdamW]
	OptimizerSGD   OptimizerType = C.GGML_OPT_OPTIMIZER_TYPE_SGD   // see [Context.OptStepSGD]
)

// String returns the name of the rule. C: ggml_opt_optimizer_name.
func (t OptimizerType) String() string {
	if t != OptimizerAdamW && t != OptimizerSGD {
		return fmt.Sprintf("optimizer(%d)", int(t))
	}
	return C.GoString(C.ggml_opt_optimizer_name(C.enum_ggml_opt_optimizer_type(t)))
}

// OptimizerParams are the settings of a step; settings of other rules are ignored. C: struct
// ggml_opt_optimizer_params.
type OptimizerParams struct {
	AdamW AdamWParams
	SGD   SGDParams
}

// AdamWParams are the settings of a step of [OptimizerAdamW].
type AdamWParams struct {
	LearningRate float32 // above 0
	Beta1, Beta2 float32 // decay rates of the moments, at least 0, below 1
	Epsilon      float32 // at least 0
	WeightDecay  float32 // 0 to 1; a step subtracts learning rate · weight decay · parameter
}

// SGDParams are the settings of a step of [OptimizerSGD].
type SGDParams struct {
	LearningRate float32 // above 0
	WeightDecay  float32 // 0 to 1
}

// DefaultOptimizerParams are a learning rate of 0.001 for both rules, β 0.9
// and 0.999, ε 1e-8, and no weight decay.
// C: ggml_opt_get_default_optimizer_params.
func DefaultOptimizerParams() OptimizerParams {
	c := C.ggml_opt_get_default_optimizer_params(nil)
	return OptimizerParams{
		AdamW: AdamWParams{
			LearningRate: float32(c.adamw.alpha), Beta1: float32(c.adamw.beta1), Beta2: float32(c.adamw.beta2),
			Epsilon: float32(c.adamw.eps), WeightDecay: float32(c.adamw.wd),
		},
		SGD: SGDParams{LearningRate: float32(c.sgd.alpha), WeightDecay: float32(c.sgd.wd)},
	}
}

// ConstantParams returns the same settings for each step, for [OptimizerOptions]. C:
// ggml_opt_get_constant_optimizer_params.
func ConstantParams(p OptimizerParams) func(iteration int64) OptimizerParams {
	return func(int64) OptimizerParams { return p }
}

// check returns why the settings are invalid, or nil. Comparisons are written so that NaN fails
// them.
func (p OptimizerParams) check(t OptimizerType) error {
	rate, decay := p.AdamW.LearningRate, p.AdamW.WeightDecay
	if t == OptimizerSGD {
		rate, decay = p.SGD.LearningRate, p.SGD.WeightDecay
	}
	switch {
	case !(rate > 0 && rate <= 1e30):
		return optError(nil, "the learning rate of %v is %v; it must be above 0", t, rate)
	case !(decay >= 0 && decay <= 1):
		return optError(nil, "the weight decay of %v is %v; it must be 0 to 1", t, decay)
	case t == OptimizerSGD:
		return nil
	case !(p.AdamW.Beta1 >= 0 && p.AdamW.Beta1 < 1) || !(p.AdamW.Beta2 >= 0 && p.AdamW.Beta2 < 1):
		return optError(nil, "β₁ is %v and β₂ %v; both must be at least 0 and below 1", p.AdamW.Beta1, p.AdamW.Beta2)
	case !(p.AdamW.Epsilon >= 0 && p.AdamW.Epsilon <= 1e30):
		return optError(nil, "ε is %v; it must be at least 0", p.AdamW.Epsilon)
	}
	return nil
}

// stepParams are the settings of the next step, if there is one.
type stepParams struct {
	set bool
	c   C.struct_ggml_opt_optimizer_params
}

// nextParams calls the caller's function for the settings without holding the lock: the function
// may use the optimizer.
func (o *Optimizer) nextParams() (stepParams, error) {
	if err := lock(&o.mu); err != nil {
		return stepParams{}, during(err)
	}
	err := o.evaluable()
	iteration, steps := o.iteration+1, o.stepsNext()
	o.mu.Unlock()
	if err != nil || !steps {
		return stepParams{}, err
	}
	p := DefaultOptimizerParams()
	if o.options.Params != nil {
		p = o.options.Params(iteration)
	}
	if err := p.check(o.options.Optimizer); err != nil {
		return stepParams{}, err
	}
	s := stepParams{set: true}
	s.c.adamw.alpha, s.c.adamw.wd = C.float(p.AdamW.LearningRate), C.float(p.AdamW.WeightDecay)
	s.c.adamw.beta1, s.c.adamw.beta2 = C.float(p.AdamW.Beta1), C.float(p.AdamW.Beta2)
	s.c.adamw.eps = C.float(p.AdamW.Epsilon)
	s.c.sgd.alpha, s.c.sgd.wd = C.float(p.SGD.LearningRate), C.float(p.SGD.WeightDecay)
	return s, nil
}

package ggml

// #include "csrc/goggml.h"
import "C"

// Reset clears the gradients; with optimizer also the moments of AdamW and the
// count of iterations. With dynamic graphs accumulated gradients are cleared
// by themselves, and with a period above 1 the moments cannot be.
// C: ggml_opt_reset.
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

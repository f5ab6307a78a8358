package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"sync"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
)

// Eval computes the graph allocated by Allocate and adds loss and predictions to the result unless
// it is nil. If it completes a period of backward passes, it also updates the parameters. It cannot
// be cancelled: a step is done completely or not at all. C: ggml_opt_eval.
func (o *Optimizer) Eval(result *OptResult) error {
	o = made(o)
	if err := o.h.acquire(); err != nil {
		return during(err)
	}
	defer o.h.release()
	params, err := o.nextParams()
	if err != nil {
		return err
	}
	if err := lock(&o.mu); err != nil {
		return during(err)
	}
	defer o.mu.Unlock()
	if err := o.evaluable(); err != nil {
		return err
	}
	if params.set {
		o.o.pars = params.c
	} else if o.stepsNext() {
		return optError(nil, "another goroutine uses the optimizer")
	}
	if result == nil {
		return o.eval(nil)
	}
	evalErr := error(nil)
	if err := result.with(func() { evalErr = o.evalInto(result) }); err != nil {
		return err
	}
	return evalErr
}

func (o *Optimizer) evaluable() error {
	if err := o.usable(); err != nil {
		return err
	}
	if !o.ready {
		return optError(ErrNotAllocated, "no graph is allocated; call Allocate before each Eval")
	}
	return nil
}

func (o *Optimizer) evalInto(r *OptResult) error {
	kind := resultKind{loss: o.options.Loss, period: o.options.Period, batch: o.tensors.outputs.ne[1]}
	if r.n > 0 && kind != r.kind {
		return optError(nil, "the result holds evaluations of %v with period %d and batches of %d samples, not %v, %d and %d; call Reset, or use another result",
			r.kind.loss, r.kind.period, r.kind.batch, kind.loss, kind.period, kind.batch)
	}
	if err := o.eval(r); err != nil {
		return err
	}
	r.kind = kind
	r.n++
	return nil
}

// eval is Eval after the checks of its arguments. The caller holds all locks.
func (o *Optimizer) eval(r *OptResult) error {
	level := checkBuilt
	if !o.kept() {
		level = checkReady
	}
	release, err := o.graph.check(nil, level)
	if err != nil {
		return err
	}
	defer release()
	if c := C.goggml_graph_check(o.graph.g, nil, 0, false, true, &C.goggml_check_key{}, nil, 0); c.fault != C.GOGGML_FAULT_NONE {
		return during(o.graph.faultError(c, nil))
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
	if err := o.graph.compute(context.Background(), c, run); err != nil {
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

// stepsNext reports whether the allocated evaluation makes a step.
func (o *Optimizer) stepsNext() bool {
	return o.backward && (o.phase+1)%o.options.Period == 0
}

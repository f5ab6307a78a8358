package nn

import "github.com/goggml/ggml"

// Watch returns x. The computation calls passed when x is computed, and back when its gradient is, and waits for both
// calls: others follow its progress by them.
func (t *Tape) Watch(x *Value, passed, back func()) *Value {
	t.Graph.Expand(t.notice(x.T, passed))
	y := &Value{T: x.T, needsGrad: x.needsGrad}
	t.record(y, func(dy *ggml.Tensor) {
		t.Graph.Expand(t.notice(dy, back))
		t.flow(x, func() *ggml.Tensor { return dy })
	})
	return y
}

// notice returns a node that calls f. It runs on the CPU and reads one element of x, so that a device copies no more.
func (t *Tape) notice(x *ggml.Tensor, f func()) *ggml.Tensor {
	call := func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error {
		f()
		return nil
	}
	return t.C.Custom(ggml.CustomOptions{Func: call, Threads: 1, Type: ggml.F32, Shape: []int64{1}}, t.C.View(x, []int64{1}, nil, 0))
}

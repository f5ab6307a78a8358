package nn

import "github.com/goggml/ggml"

// Seed is the gradient that a backward pass begins with.
func (x *Value) Seed(dy *ggml.Tensor) { x.grad = dy }

// Trained is a value of a tensor to which gradients flow.
func Trained(x *ggml.Tensor) *Value { return &Value{T: x, needsGrad: true} }

// Gradient returns the gradient that has flown to x.
func (x *Value) Gradient() *ggml.Tensor { return x.grad }

// QueryBlock is the number of queries whose scores exist at a time.
func QueryBlock(a AttentionOperands) int64 { return queryBlock(a) }

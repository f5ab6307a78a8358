package kernels

// CausalSoftMaxInPlace is part of causal attention where there is no GEMM library.
var CausalSoftMaxInPlace = causalSoftMaxInPlace

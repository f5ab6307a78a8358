// Package ggufcheck compares what the binding and package lora write and read
// with a reader of GGUF files that shares no code with ggml. It is in this
// module because that reader has many dependencies, which are no business of
// those who import the binding.
package ggufcheck

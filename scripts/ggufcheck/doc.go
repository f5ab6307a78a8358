// Package ggufcheck compares files of the binding and of package lora with a GGUF reader that shares no code
// with ggml. It is in this module because the reader has many dependencies, which importers of the binding do
// not need.
package ggufcheck

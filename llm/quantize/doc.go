// Package quantize chooses the type that llama-quantize gives each matrix of a model, and reads importance matrices;
// it is not for converting values, which package ggml does, nor for writing models, which package model does.
package quantize

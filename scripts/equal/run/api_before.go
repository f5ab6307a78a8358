//go:build before

package main

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// The API of commits in which all of these are weights, and a lowering is a name.

type opSet = device.Lowering

func newEngine(l opSet) *device.Engine {
	return must(device.New(device.Options{Threads: threads, Lowering: l}))
}

func scaled(a *lora.Adapter, scale float32) model.Adapters { return a.Weights(scale) }

func sampleOf(tokens []int32, weights []float32) data.Sample {
	return data.Sample{Tokens: tokens, Weights: weights}
}

func trainables(weights []*ggml.Tensor) train.Trainables { return train.Trainables{Weights: weights} }

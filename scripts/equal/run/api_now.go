//go:build !before

package main

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

type opSet = device.OpSet

func newEngine(l opSet) *device.Engine {
	return must(device.New(device.Options{Threads: threads, OpSet: l}))
}

func scaled(a *lora.Adapter, scale float32) model.Adapters { return a.WithScale(scale) }

func sampleOf(tokens []int32, weights []float32) data.Sample {
	return data.Sample{Tokens: tokens, LossWeights: weights}
}

func trainables(weights []*ggml.Tensor) train.Trainables {
	return train.Trainables{ModelWeights: weights}
}

func estimateMemory(m *model.Model, trained train.Trainables, d *data.Dataset, o train.Options, evaluated ...*data.Dataset) train.MemoryEstimate {
	return must(train.EstimateMemory(m.Layout(), m, trained, d, o, evaluated...))
}

func isTrainable(w *arch.Weight) bool { return w.IsTrainable() }

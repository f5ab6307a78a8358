package lossgraph_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// small has random weights and two layers.
func small() *model.Model {
	m := must(model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 256, FF: 256, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 128, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1))
	return m
}

// The loss of a batch of two rows. Trainers make such graphs with gradients.
func ExampleGraph() {
	m := small() // of random weights, to which all of its 64 tokens are about as likely
	defer m.Close()
	engine := must(device.NewCPU(0))
	defer engine.Close()
	graph := must(lossgraph.New(m, engine, lossgraph.Options{Length: 4, Batch: 2}))
	defer graph.Close()
	losses := must(graph.Compute(context.Background(), lossgraph.Batch{
		Tokens:      []int32{1, 2, 3, 4, 9, 8, 7, 6},
		Targets:     []int32{2, 3, 4, 5, 8, 7, 6, 5},
		LossWeights: []float32{1, 1, 1, 1, 0, 0, 1, 1},
	}))
	fmt.Println(len(losses), "losses:", math.Abs(float64(losses[0])-math.Log(64)) < 0.5)
	// Output: 8 losses: true
}

// A batch can be too large to be computed at a time; then a step takes several.
func ExampleBatchSizeError() {
	m := small()
	defer m.Close()
	engine := must(device.NewCPU(0))
	defer engine.Close()
	_, err := lossgraph.New(m, engine, lossgraph.Options{Length: 1 << 20, Batch: 1 << 10})
	var tooLarge *lossgraph.BatchSizeError
	fmt.Println(errors.As(err, &tooLarge), tooLarge.MaxTokens)
	// Output: true 16777216
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}

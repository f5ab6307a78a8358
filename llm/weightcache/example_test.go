package weightcache_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/weightcache"
)

// small has random weights and two layers.
func small() *model.Model {
	m := must(model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 256, FF: 256, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 128, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1))
	return m
}

// Devices multiply faster by matrices in the compute type, and keep such copies beside the file's
// matrices.
func ExampleCache() {
	m := small()
	defer m.Close()
	engine := must(device.New(device.Options{OpSet: device.Stock}))
	defer engine.Close()
	copies := must(weightcache.New(m, engine, ggml.BF16, []weightcache.Tier{weightcache.Matrix}))
	defer copies.Close()
	graph := must(lossgraph.New(m, engine, lossgraph.Options{Length: 4, Batch: 2, ComputeType: ggml.BF16, Copies: copies}))
	defer graph.Close()
	check(errors.Join(copies.Allocate(), copies.Fill(context.Background())))
	fmt.Println(copies)
	// Output: weights in bf16 on CPU: 1.5 MiB
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

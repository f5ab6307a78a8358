package main

import (
	"context"
	"fmt"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/llm/arch"
)

// shapes are the models by size; tiny is for tests of this program.
var shapes = map[string]arch.Config{
	"tiny": tiny(), "1.1B": benchmodel.Large(), "8B": benchmodel.Huge(),
}

func tiny() arch.Config {
	c := benchmodel.Small()
	c.Name, c.Vocab, c.Embd, c.FF, c.Layers, c.Heads, c.KVHeads, c.HeadSize, c.RoPE.Dims = "tiny", 512, 256, 512, 2, 4, 2, 64, 64
	return c
}

// parts returns the parts in order of importance.
func (o *options) parts() []part {
	list := []part{{name: "card", section: cardSection, limit: time.Minute, measure: measureCard}}
	add := func(p part) { list = append(list, p) }
	training := func(base string, long bool) {
		for _, size := range o.sizes {
			limit := time.Minute
			if shapes[size].NumParameters() > 4e9 {
				limit = 2 * time.Minute
			}
			if !o.short {
				limit *= 3
			}
			add(part{name: "train-" + size + "-" + base, section: trainSection, limit: limit, long: long, measure: func(ctx context.Context, o *options, emit func(row ...string)) error {
				d, err := o.gpu()
				if err != nil {
					return err
				}
				return o.measureTraining(ctx, d, size, base, emit)
			}})
		}
	}
	generation := func(base string, long bool) {
		for _, size := range o.sizes {
			add(part{name: "generate-" + size + "-" + base, section: generateSection, limit: 90 * time.Second, long: long, measure: func(ctx context.Context, o *options, emit func(row ...string)) error {
				return o.measureGeneration(ctx, size, base, emit)
			}})
		}
	}
	for i, base := range o.bases {
		if i < 2 {
			training(base, false)
		}
	}
	add(part{name: "losses", section: lossSection, limit: 90 * time.Second, measure: measureLosses})
	add(part{name: "ops", section: opsSection, limit: 5 * time.Minute, long: true, measure: measureOps})
	for i, base := range o.bases {
		generation(base, i != 1)
	}
	add(part{name: "torch", section: torchSection, limit: 5 * time.Minute, long: true, measure: measureTorch})
	for i, base := range o.bases {
		if i >= 2 {
			training(base, true)
		}
	}
	for i := range list {
		list[i].limit *= time.Duration(max(1, o.patience))
	}
	return list
}

func partNames() []string {
	o := &options{sizes: []string{"1.1B", "8B"}, bases: []string{"BF16", "Q4_K", "Q8_0"}}
	var names []string
	for _, p := range o.parts() {
		names = append(names, p.name)
	}
	return names
}

// file writes a model of random weights, which later parts use again.
func (o *options) file(size, base string) (string, error) {
	t, err := ggml.ParseType(base)
	if err != nil {
		return "", err
	}
	path, err := benchmodel.File(o.models, size, shapes[size], t)
	if err != nil {
		return "", fmt.Errorf("making the model: %w", err)
	}
	return path, nil
}

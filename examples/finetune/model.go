package main

import (
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// modelFlags select where the model is computed, and override its hyper-parameters.
type modelFlags struct {
	placement.DeviceFlags
	inference.Overrides
}

// A subject is the model with the adapter to train.
type subject struct {
	model   *model.Model
	adapter *lora.Adapter
}

func (s *subject) Close() {
	s.adapter.Close()
	s.model.Close()
}

// open loads the model in a layout, and creates or loads the adapter.
func (p *trainCommand) open(l layout.Layout) (*subject, error) {
	m, err := model.Load(p.ModelBase, model.LoadOptions{Layout: l, Override: p.Override})
	if err != nil {
		return nil, cli.ModelError("--model-base", p.ModelBase, err)
	}
	a, err := p.adapter(m, p.RandomSeed())
	if err != nil {
		m.Close()
		return nil, err
	}
	return &subject{m, a}, nil
}

// layout returns the layout over devices that the run needs for the model, which is on the CPU.
func (p *trainCommand) layout(devices *placement.Choice, s *subject, sets *training.Sets, o train.Options) (layout.Layout, error) {
	adapters := s.adapter.WithScale(1)
	return p.Lay(p.Log(), devices, s.model, train.Trainables{Adapters: adapters}, sets, o, func(to *estimate.Memory) error {
		sampler, err := p.newSampler(s.model, sets.IsChat)
		if err != nil {
			return err
		}
		return sampler.addEstimate(to, adapters)
	})
}

// spread opens the model and the adapter again in the layout over devices that the run needs, unless it is the
// CPU alone.
func (p *trainCommand) spread(devices *placement.Choice, s *subject, sets *training.Sets, o train.Options) (*subject, error) {
	l, err := p.layout(devices, s, sets, o)
	if err != nil || l.IsCPU() {
		return s, err
	}
	s.Close()
	again, err := p.open(l)
	if err != nil {
		return s, err
	}
	return again, nil
}

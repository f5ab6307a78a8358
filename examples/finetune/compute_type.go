package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// openEngine opens the engine of a trainer of the model, and completes the options by it.
func (p *trainCommand) openEngine(ctx context.Context, m *model.Model, options *train.Options) (*device.Engine, error) {
	e, err := device.New(device.Options{Layout: m.Layout(), Threads: p.ThreadCount()})
	if err != nil {
		return nil, err
	}
	options.Engine = e
	began, err := p.Group().Text(ctx, p.computeTypeOfCheckpoint())
	if err == nil {
		options.ComputeType, err = p.computeType(e, began)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// computeType returns the type that --compute-type selects: for auto the type with which the run began, if the engine
// has it, or the engine's fastest.
func (p *trainCommand) computeType(e *device.Engine, began string) (ggml.Type, error) {
	if p.isAutoType() {
		if t, err := parseComputeType(began); err == nil && e.CheckComputeType(t) == nil {
			return t, nil
		}
		return e.ComputeType(), nil
	}
	t, err := parseComputeType(p.ComputeType)
	if err == nil {
		err = e.CheckComputeType(t)
	}
	if err != nil {
		return 0, fmt.Errorf("--compute-type %s: %w", p.ComputeType, err)
	}
	return t, nil
}

func (p *trainCommand) isAutoType() bool { return p.ComputeType == "" || p.ComputeType == "auto" }

// computeTypeOfCheckpoint returns the compute type of the run that is continued; "" for a new run. A file that cannot be
// read is reported when the run continues.
func (p *trainCommand) computeTypeOfCheckpoint() string {
	if !p.isAutoType() || !cli.IsFile(p.CheckpointIn) {
		return ""
	}
	summary, err := train.Summarize(p.CheckpointIn)
	if err != nil {
		return ""
	}
	return summary.Settings[string(train.SettingComputeType)]
}

// integers names the compute type of 16-bit integers, ggml.I16.
const integers = "int16"

func parseComputeType(name string) (ggml.Type, error) {
	if name == integers {
		return ggml.I16, nil
	}
	return ggml.ParseType(name)
}

// computeTypeName is the name of a compute type in --compute-type.
func computeTypeName(t ggml.Type) string {
	if t == ggml.I16 {
		return integers
	}
	return strings.ToLower(t.String())
}

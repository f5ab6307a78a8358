package main

import (
	"fmt"

	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// A teacher opens the teacher's model when its scores are not in the cache.
type teacher struct {
	p         *trainCommand
	name      string // by which records choose it; "" if it has none
	path      string
	lora      []adapters.Arg
	sum       string // of the content of its files
	scores    *distill.Scores
	devices   *placement.Choice
	student   *model.Model
	longest   int                    // tokens of a sample
	alignment *distill.Alignment     // with another vocabulary; else nil
	aligned   float64                // with another vocabulary, the share of trained tokens that match its own
	own       *training.Counterparts // conversations in its own template; may be nil
	model     *model.Model
	adapters  adapters.Set
	engine    *device.Engine
	session   *infer.Session
	scorer    *distill.Scorer
}

// load loads the model with its adapters.
func (t *teacher) load(o model.LoadOptions) (err error) {
	if t.model, err = model.Load(t.path, o); err != nil {
		return cli.ModelError("--teacher", t.path, err)
	}
	t.adapters, err = adapters.Open(t.lora, t.model)
	return err
}

// asked returns the scorer, and opens it first if needed.
func (t *teacher) asked() (*distill.Scorer, error) {
	if t.scorer == nil {
		if err := t.open(); err != nil {
			return nil, err
		}
	}
	return t.scorer, nil
}

// open loads the model and makes a session of it.
func (t *teacher) open() (err error) {
	p, o := t.p, model.LoadOptions{Repack: !t.p.NoRepack}
	if !t.devices.IsCPU() {
		if o.Layout, err = t.lay(); err != nil {
			return err
		}
	}
	if err := t.load(o); err != nil {
		return err
	}
	if t.engine, err = device.New(device.Options{Layout: t.model.Layout(), Threads: p.ThreadCount()}); err != nil {
		return err
	}
	if t.session, err = infer.NewSession(t.model, infer.SessionOptions{Context: t.longest, Adapters: t.adapters.Weights(), Engine: t.engine}); err != nil {
		return fmt.Errorf("--teacher: %w", err)
	}
	t.scorer, err = distill.NewScorer(t.session, t.scorerOptions())
	if err != nil {
		return fmt.Errorf("--teacher-top-k: %w", err)
	}
	return nil
}

// lay returns the layout of the model with its session on the devices.
func (t *teacher) lay() (l layout.Layout, err error) {
	defer t.unload()
	if err := t.load(model.LoadOptions{}); err != nil {
		return l, err
	}
	l, err = t.devices.Lay(t.p.Log(), t.model, func(to *estimate.Memory) error {
		return infer.AddEstimate(to, t.model, infer.SessionOptions{Context: t.longest, Adapters: t.adapters.Weights()})
	})
	if err != nil {
		return l, fmt.Errorf("--teacher: %w", err)
	}
	return l, nil
}

// closeModel frees the memory of the teacher.
func (t *teacher) closeModel() {
	t.session.Close()
	if t.engine != nil {
		t.engine.Close()
	}
	t.unload()
	t.own.Close()
	t.session, t.engine, t.scorer, t.own = nil, nil, nil, nil
}

// unload closes the files of the model.
func (t *teacher) unload() {
	t.adapters.Close()
	if t.model != nil {
		t.model.Close()
	}
	t.adapters, t.model = nil, nil
}

func (t *teacher) close() {
	t.closeModel()
	t.scores.Close()
}

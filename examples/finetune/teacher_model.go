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
	own       *training.Counterparts // conversations in its own template; may be nil
	model     *model.Model
	adapters  adapters.Set
	engine    *device.Engine
	session   *infer.Session
	scorer    *distill.Scorer
}

// load loads the model with its adapters.
func (t *teacher) load(l layout.Layout) (err error) {
	if t.model, err = model.Load(t.path, model.LoadOptions{Layout: l}); err != nil {
		return cli.ModelError("--teacher", t.path, err)
	}
	t.adapters, err = adapters.Open(t.lora, t.model)
	return err
}

// asked returns the scorer, and opens the session first if needed.
func (t *teacher) asked() (*distill.Scorer, error) {
	if t.scorer == nil {
		if err := t.open(); err != nil {
			return nil, err
		}
	}
	return t.scorer, nil
}

// open makes a session of the model, which is loaded.
func (t *teacher) open() error {
	p := t.p
	if n := t.model.Config().Context; t.longest > n {
		fits := n
		if t.alignment != nil {
			fits = p.Ctx * n / t.longest
		}
		return fmt.Errorf("--teacher %s: a sample has %s of the teacher, which was trained on %d; shorten the samples with --ctx %d", t.path, cli.Count(t.longest, "token"), n, fits)
	}
	l, err := t.devices.Lay(p.Log(), t.model, func(to *estimate.Memory) error {
		return infer.AddEstimate(to, t.model, infer.SessionOptions{Context: t.longest, Adapters: t.adapters.Weights()})
	})
	if err != nil {
		return fmt.Errorf("--teacher: %w", err)
	}
	if !l.IsCPU() {
		t.adapters.Close()
		t.model.Close()
		if err := t.load(l); err != nil {
			return err
		}
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

// closeModel frees the memory of the teacher.
func (t *teacher) closeModel() {
	t.session.Close()
	if t.engine != nil {
		t.engine.Close()
	}
	t.adapters.Close()
	if t.model != nil {
		t.model.Close()
	}
	t.own.Close()
	t.session, t.engine, t.adapters, t.model, t.scorer, t.own = nil, nil, nil, nil, nil, nil
}

func (t *teacher) close() {
	t.closeModel()
	t.scores.Close()
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// onPolicyFlags let the student answer prompts of the data. The other names are from TRL's GKD trainer and from ms-swift.
type onPolicyFlags struct {
	OnPolicy       float64 `name:"on-policy" aliases:"lmbda" setting:"loss" range:"[0,1]" default:"0" help:"Share of the samples of each step that the model in training answers itself, by sampling; the teacher scores what it said instead of the answer in the data. So the model learns from its own mistakes (on-policy distillation). The teacher then stays in memory. With 1, the answers in the data are not used." group:"Teacher"`
	OnPolicyTokens int     `name:"on-policy-tokens" aliases:"max-new-tokens,max-completion-length" setting:"loss" range:"[1,)" default:"128" help:"Tokens of an answer of --on-policy, at most." group:"Teacher"`
}

// checkOnPolicy reports what --on-policy cannot go with.
func (p *trainCommand) checkOnPolicy() error {
	switch {
	case p.OnPolicy == 0:
		return unset("on-policy distillation; choose it with --on-policy", []flagState{{"on-policy-tokens", p.OnPolicyTokens != 0 && p.OnPolicyTokens != 128}})
	case p.Packing:
		return errors.New("--on-policy: answers of the model have other lengths than those in the data, and --packing lays out samples before; leave it out")
	case p.Group().Size() > 1:
		return errors.New("--on-policy: the model answers in one process; start it without mpirun")
	}
	return nil
}

// answerOptions returns the settings of answers by the student.
func (p *trainCommand) answerOptions() *distill.OnPolicyOptions {
	return &distill.OnPolicyOptions{Share: p.OnPolicy, MaxTokens: p.OnPolicyTokens, Sequences: min(8, max(1, p.Batch*p.GradAcc)), Seed: p.RandomSeed()}
}

// answerSession returns the settings of the session of answers; without --on-policy its context is 0.
func (p *trainCommand) answerSession() infer.SessionOptions {
	if p.OnPolicy == 0 {
		return infer.SessionOptions{}
	}
	return p.answerOptions().Session(p.longestAnswer)
}

// measureAnswers finds the number of tokens of the longest answer with its prompt.
func (p *trainCommand) measureAnswers(d *data.Dataset) (err error) {
	if p.OnPolicy > 0 {
		p.longestAnswer, err = p.answerOptions().Longest(d)
	}
	return err
}

// answerItself lets the student answer prompts of the data, by its adapter in training.
func (p *trainCommand) answerItself(s *subject, e *device.Engine, d *data.Dataset) (err error) {
	if p.OnPolicy == 0 {
		return nil
	}
	o := p.answerOptions()
	o.Adapters, o.Engine = s.adapter.WithScale(1), e
	o.Teachers = map[string]*distill.Scorer{}
	for _, t := range p.teachers {
		o.Teachers[t.name] = t.scorer
	}
	if p.answers, err = distill.NewOnPolicy(s.model, p.teachers[0].scorer, d, *o); err != nil {
		err = fmt.Errorf("--on-policy: %w", err)
	}
	return err
}

// generating returns what a step says about its answers: the time that they took.
func (p *trainCommand) generating() func() string {
	if p.answers == nil {
		return nil
	}
	_, _, before := p.answers.Generated()
	return func() string {
		_, _, took := p.answers.Generated()
		step := took - before
		before = took
		return fmt.Sprintf("answers %.2g s", step.Seconds())
	}
}

// describeAnswers says what the student has answered, and how long that took of the run.
func (p *trainCommand) describeAnswers(run time.Duration) {
	if answers, tokens, took := p.answers.Generated(); answers > 0 {
		fmt.Fprintf(p.Log(), "on-policy: the model gave %s of %s in %s, %.0f %% of the time\n",
			cli.Count(answers, "answer"), cli.Count(tokens, "token"), seconds(took.Seconds()), 100*took.Seconds()/run.Seconds())
	}
}

// teacherContext returns the number of tokens of the longest sample that the teacher scores.
func (p *trainCommand) teacherContext(sets *training.Sets) int {
	longest := max(sets.Train.Longest(), p.longestAnswer)
	if sets.Valid != nil {
		longest = max(longest, sets.Valid.Longest())
	}
	return longest
}

// teacherMemory returns the memory of the teachers that are open during training, on the devices of a layout.
func (p *trainCommand) teacherMemory(devices *placement.Choice, l layout.Layout, sets *training.Sets) (layout.Sizes, error) {
	on := devicesOf(l)
	sizes := make(layout.Sizes, len(on))
	if p.OnPolicy == 0 {
		return sizes, nil
	}
	longest := p.teacherContext(sets)
	for _, t := range p.teachers {
		own, all, err := t.memory(devices, longest)
		if err != nil {
			return nil, err
		}
		for i, name := range devicesOf(own) {
			at := slices.Index(on, name)
			if at < 0 {
				at = len(on) - 1 // a device that the student does not use
			}
			sizes[at] += all[i]
		}
	}
	return sizes, nil
}

// memory returns the memory of the teacher that scores samples of up to that many tokens, on the devices of its layout.
func (t *teacher) memory(devices *placement.Choice, longest int) (on layout.Layout, sizes layout.Sizes, err error) {
	of := &teacher{p: t.p, path: t.path, lora: t.lora}
	defer of.close()
	if err := of.load(model.LoadOptions{}); err != nil {
		return on, nil, err
	}
	add := func(to *estimate.Memory) error {
		return infer.AddEstimate(to, of.model, infer.SessionOptions{Context: longest, Adapters: of.adapters.Weights()})
	}
	if on, _, err = devices.Plan(of.model, add); err != nil {
		return on, nil, fmt.Errorf("--teacher: %w", err)
	}
	needs := estimate.NewIn(on)
	if err := add(needs); err != nil {
		return on, nil, err
	}
	sizes, err = needs.In(on)
	return on, sizes, err
}

// reserveTeacher subtracts the memory of an open teacher from the memory of steps.
func (p *trainCommand) reserveTeacher(devices *placement.Choice, sets *training.Sets, of *train.Plan) error {
	sizes, err := p.teacherMemory(devices, of.Layout, sets)
	for i, n := range sizes {
		of.Available[i] -= n
	}
	return err
}

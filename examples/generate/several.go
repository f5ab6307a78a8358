package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
)

// several continues texts, up to sequences at once, and writes each below a heading when all have ended.
func (j *job) several(ctx context.Context, prompts []string, sequences int) error {
	total := len(prompts) * j.Samples
	o := j.model.Options
	o.Sequences = sequences
	session, err := infer.NewSession(j.model.Model, o)
	if err != nil {
		return err
	}
	defer session.Close()
	texts := make([]strings.Builder, total)
	requests := make([]generate.Request, total)
	for i := range requests {
		sampler, err := j.Sampler(i % j.Samples)
		if err != nil {
			return err
		}
		requests[i] = generate.Request{Prompt: prompts[i/j.Samples], W: &texts[i], Sampler: sampler, Options: j.textOptions()}
	}
	began := time.Now()
	results := generate.Texts(ctx, j.model.Model, session, requests)
	took := time.Since(began)
	var failed []error
	generated, prefilled := 0, 0
	for i, r := range results {
		if err := j.cut(r.Err); err != nil {
			failed = append(failed, fmt.Errorf("text %d: %w", i+1, err))
		}
		if _, err := fmt.Fprintf(j.out, "--- %s\n%s\n", j.heading(i, requests[i].Prompt), texts[i].String()); err != nil {
			return errors.Join(append(failed, err)...)
		}
		generated, prefilled = generated+r.Generated, prefilled+r.Prompt
	}
	if j.Stats {
		fmt.Fprintf(j.log, "loaded in %.2f s\n%s: %s prefilled, %s generated\n", j.model.Loading.Seconds(), cli.Count(total, "text"), cli.Count(prefilled, "token"), inference.Speed(generated, took))
	}
	return errors.Join(failed...)
}

// heading returns the heading of a text: the first line of its prompt.
func (j *job) heading(i int, prompt string) string {
	line, _, _ := strings.Cut(prompt, "\n")
	if j.Samples == 1 {
		return line
	}
	return fmt.Sprintf("%s (%d of %d)", line, i%j.Samples+1, j.Samples)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
)

// checkEmbed rejects flags of generation together with flags of embeddings.
func (p *program) checkEmbed() error {
	flag := ""
	switch {
	case !p.Embed && p.Normalize:
		flag = "--normalize"
	case !p.Embed && p.Pooling != "" && p.Pooling != poolByModel:
		flag = "--pooling"
	}
	if flag != "" {
		return fmt.Errorf("%s works only with --embed; add --embed, or leave it out", flag)
	}
	if !p.Embed && p.Rerank == nil {
		return nil
	}
	switch {
	case p.NPredict != nil:
		flag = "--n-predict"
	case p.Samples > 1:
		flag = "--samples"
	case p.IgnoreEOS:
		flag = "--ignore-eos"
	}
	if flag != "" {
		return fmt.Errorf("%s applies only to generated text; leave it or %s out", flag, p.embedFlag())
	}
	return nil
}

// embedFlag is the flag that asks for a line of JSON for each text.
func (p *program) embedFlag() string {
	if p.Rerank != nil {
		return "--rerank"
	}
	return "--embed"
}

// poolByModel is the value of --pooling that stands for the setting in the model's file.
const poolByModel = "model"

func (p *program) embedOptions() infer.EmbedOptions {
	o := infer.EmbedOptions{Pooling: infer.Pooling(p.Pooling), Normalize: p.Normalize}
	if p.Pooling == poolByModel {
		o.Pooling = infer.PoolByModel
	}
	return o
}

// An embedded is a line of the output: a text with its vector.
type embedded struct {
	Text      string    `json:"text"`
	Embedding []float32 `json:"embedding"`
}

// A scored text is a line of the output of a reranker.
type scored struct {
	Text  string  `json:"text"`
	Score float32 `json:"score"`
}

// textsAtOnce is how many texts are embedded before their vectors are written.
const textsAtOnce = 1024

// embed writes a vector for each line of the texts, or a score.
func (p *program) embed(ctx context.Context, prompts []string, out, log io.Writer) error {
	var texts []string
	for _, prompt := range prompts {
		texts = append(texts, strings.Split(prompt, "\n")...)
	}
	if len(texts) == 0 {
		return fmt.Errorf("%s: there is no text; give one with --prompt or --file", p.embedFlag())
	}
	sequences := min(len(texts), p.Parallel)
	m, err := p.Load(sequences)
	if err != nil {
		return err
	}
	defer m.Close()
	m.WarnOfBOS(log, texts...)
	o := m.Options
	o.Sequences = sequences
	session, err := infer.NewSession(m.Model, o)
	if err != nil {
		return err
	}
	defer session.Close()
	began := time.Now()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for part := range slices.Chunk(texts, textsAtOnce) {
		made, err := p.linesOf(ctx, m, session, part)
		if errors.Is(err, infer.ErrContextFull) {
			err = fmt.Errorf("%w; use a larger --ctx", err)
		}
		if err != nil {
			return err
		}
		for _, line := range made {
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
	}
	if p.Stats {
		done := "embedded"
		if p.Rerank != nil {
			done = "scored"
		}
		fmt.Fprintf(log, "loaded in %.2f s\n%s %s in %.3f s\n", m.Loading.Seconds(), cli.Count(len(texts), "text"), done, time.Since(began).Seconds())
	}
	return nil
}

// linesOf are the lines of some texts.
func (p *program) linesOf(ctx context.Context, m *inference.Model, session *infer.Session, texts []string) ([]any, error) {
	lines := make([]any, len(texts))
	if p.Rerank != nil {
		scores, err := generate.Rerank(ctx, m.Model, session, *p.Rerank, texts)
		for i, x := range scores {
			lines[i] = scored{texts[i], x}
		}
		return lines, err
	}
	vectors, err := generate.Embed(ctx, m.Model, session, texts, p.embedOptions())
	for i, v := range vectors {
		lines[i] = embedded{texts[i], v}
	}
	return lines, err
}

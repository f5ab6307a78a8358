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
		return fmt.Errorf("%s is for --embed alone; add that, or leave it out", flag)
	}
	switch {
	case p.Embed && p.NPredict != nil:
		flag = "--n-predict"
	case p.Embed && p.Samples > 1:
		flag = "--samples"
	case p.Embed && p.IgnoreEOS:
		flag = "--ignore-eos"
	}
	if flag != "" {
		return fmt.Errorf("%s is for texts that go on; leave it or --embed out", flag)
	}
	return nil
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

// textsAtOnce is how many texts are embedded before their vectors are written.
const textsAtOnce = 1024

// embed writes a vector for each line of the texts.
func (p *program) embed(ctx context.Context, prompts []string, out, log io.Writer) error {
	var texts []string
	for _, prompt := range prompts {
		texts = append(texts, strings.Split(prompt, "\n")...)
	}
	if len(texts) == 0 {
		return errors.New("--embed: there is no text; give one by --prompt, or --file")
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
		vectors, err := generate.Embed(ctx, m.Model, session, part, p.embedOptions())
		if errors.Is(err, infer.ErrContextFull) {
			err = fmt.Errorf("%w; --ctx makes it larger", err)
		}
		if err != nil {
			return err
		}
		for i, v := range vectors {
			if err := lines.Encode(embedded{part[i], v}); err != nil {
				return err
			}
		}
	}
	if p.Stats {
		fmt.Fprintf(log, "loaded in %.2f s\n%s embedded in %.3f s\n", m.Loading.Seconds(), cli.Count(len(texts), "text"), time.Since(began).Seconds())
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A sampler shows the model's reply to --sample-prompt: an answer with the run's template if conversations are
// trained, otherwise the text that follows.
type sampler struct {
	m       *model.Model
	prompt  string
	predict int // tokens; -1 for up to the end of the context
	seed    uint64
	chat    *generate.ChatOptions // nil for text
	answers infer.SessionOptions  // of answers by the student in training; of no context without them
}

// newSampler returns a sampler; isChat reports whether the training data went through a chat template.
func (p *trainCommand) newSampler(m *model.Model, isChat bool) (*sampler, error) {
	s := &sampler{m: m, prompt: p.Prompt, predict: p.Predict, seed: p.RandomSeed(), answers: p.answerSession()}
	if p.Prompt == "" || !isChat {
		return s, nil
	}
	o := generate.ChatOptions{Limit: cli.Optional(p.Predict)}
	var err error
	if o.Variables, err = cli.Variables("--template-var", p.TemplateVar); err != nil {
		return nil, err
	}
	if p.TemplateDate != "" {
		if o.Now, err = time.ParseInLocation(time.DateOnly, p.TemplateDate, time.Local); err != nil {
			return nil, err
		}
	}
	if p.ChatTemplate != "" {
		o.Template, err = cli.ReadTemplate("--chat-template", p.ChatTemplate)
	} else {
		o.Template, err = data.ModelTemplate(m.Path, m.Tokenizer)
	}
	s.chat = &o
	return s, err
}

func (s *sampler) talk() *chat.Conversation {
	return &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", s.prompt)}}
}

// context returns the number of tokens in prompt and reply.
func (s *sampler) context() (int, error) {
	if s.predict < 0 {
		return s.m.Config().Context, nil
	}
	if s.chat == nil {
		ids := s.m.Tokenizer.Encode(s.prompt, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		return min(s.m.Config().Context, len(ids)+s.predict), nil
	}
	o := data.RenderOptions(s.m.Tokenizer, s.chat.Variables)
	o.Now = s.chat.Now
	rendered, err := s.chat.Template.RenderPrompt(s.talk(), &o)
	if err != nil {
		return 0, fmt.Errorf("--sample-prompt: %w", err)
	}
	return min(s.m.Config().Context, len(data.EncodeRendered(s.m.Tokenizer, rendered))+s.predict), nil
}

// addEstimate adds the memory of the sessions that write samples, if there is a prompt, and answers.
func (s *sampler) addEstimate(to *estimate.Memory, adapters model.Adapters) error {
	if o := s.answers; o.Context > 0 {
		o.Adapters = adapters
		if err := infer.AddEstimate(to, s.m, o); err != nil {
			return err
		}
	}
	if s.prompt == "" {
		return nil
	}
	n, err := s.context()
	if err != nil {
		return err
	}
	return infer.AddEstimate(to, s.m, infer.SessionOptions{Context: n, Adapters: adapters})
}

// memory returns the memory that samples take on each device of a layout, in addition to the steps.
func (s *sampler) memory(l layout.Layout, adapters model.Adapters) (layout.Sizes, error) {
	needs := estimate.NewIn(l)
	if err := s.addEstimate(needs, adapters); err != nil {
		return nil, err
	}
	parts, err := needs.Parts(l)
	return parts[infer.SessionsPart], err
}

// sample returns the reply, using an empty sequence.
func (s *sampler) sample(ctx context.Context, q *infer.Sequence) (string, error) {
	topP := float32(0.9)
	pick, err := sample.New(sample.Options{Temperature: 0.7, TopK: 40, TopP: &topP, Seed: s.seed})
	if err != nil {
		return "", err
	}
	if s.chat != nil {
		c, err := generate.NewChat(s.m, q, pick, *s.chat)
		if err != nil {
			return "", err
		}
		reply, err := c.Reply(ctx, io.Discard, s.talk())
		return reply.Content, err
	}
	var text strings.Builder
	_, err = generate.Text(ctx, s.m, q, generate.Request{
		Prompt: s.prompt, W: &text, Sampler: pick, Options: generate.Options{Limit: cli.Optional(s.predict)},
	})
	if errors.Is(err, generate.ErrTruncated) {
		err = nil
	}
	return text.String(), err
}

// show formats the prompt with the reply.
func (s *sampler) show(text string) string {
	if s.chat != nil {
		return "> " + s.prompt + "\n" + text
	}
	return s.prompt + text
}

package chatting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
)

// Settings are the settings of [Run].
type Settings struct {
	Flags
	inference.Sampling
	Model    *inference.Model
	Inputs   []cli.File // /save must not write to them
	Prompts  []string   // questions to answer instead of reading In
	Limit    *int       // most tokens of a reply; nil for any number
	Stats    bool
	In       io.Reader
	Out, Log io.Writer
}

// Run answers the prompts or, without prompts, the lines of the input until it ends.
func Run(ctx context.Context, s Settings) error {
	options, err := s.options()
	if err != nil {
		return err
	}
	options.Limit = s.Limit
	if options.Grammar, err = s.ReadGrammar(); err != nil {
		return err
	}
	sampler, err := s.Sampler(0)
	if err != nil {
		return err
	}
	session, err := infer.NewSession(s.Model.Model, s.Model.Options)
	if err != nil {
		return err
	}
	defer session.Close()
	sequence, err := session.NewSequence()
	if err != nil {
		return err
	}
	c, err := generate.NewChat(s.Model.Model, sequence, sampler, options)
	if err != nil {
		return withFlag(err)
	}
	t := &talk{Settings: s, chat: c, sequence: sequence}
	t.reset()
	switch {
	case len(s.Prompts) > 0:
		return t.answerPrompts(ctx)
	case s.JSON:
		return t.answerJSON(ctx)
	}
	return newDialogue(t).run(ctx)
}

// withFlag adds to the error of a model without a template the flag that sets one.
func withFlag(err error) error {
	var missing *data.Error
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: %s; give a template with --chat-template FILE", missing.File, missing.Reason)
	}
	return err
}

// A talk is a conversation with a model.
type talk struct {
	Settings
	chat.Conversation
	chat     *generate.Chat
	sequence *infer.Sequence
}

// reset starts a new conversation with the system prompt alone.
func (t *talk) reset() {
	t.Conversation = chat.Conversation{}
	t.setSystem(t.System)
}

// setSystem replaces the system prompt of the conversation; "" removes it.
func (t *talk) setSystem(text string) {
	t.System = text
	if t.hasSystem() {
		t.Messages = t.Messages[1:]
	}
	if text != "" {
		t.Messages = slices.Insert(slices.Clone(t.Messages), 0, chat.NewMessage("system", text))
	}
}

func (t *talk) hasSystem() bool { return len(t.Messages) > 0 && t.Messages[0].Role() == "system" }

// add appends a message.
func (t *talk) add(m chat.Message) { t.Messages = append(slices.Clip(t.Messages), m) }

// ask adds a message, answers it, and adds the answer. Without an answer it removes the message again.
func (t *talk) ask(ctx context.Context, w io.Writer, m chat.Message) (generate.Reply, error) {
	before := t.Messages
	t.add(m)
	reply, err := t.answer(ctx, w)
	if err != nil && reply.Content == "" {
		t.Messages = before
	}
	return reply, err
}

// answer writes the model's answer, and adds it to the conversation, even if it is incomplete.
func (t *talk) answer(ctx context.Context, w io.Writer) (generate.Reply, error) {
	reply, err := t.chat.Reply(ctx, w, &t.Conversation)
	if err == nil || reply.Content != "" {
		t.add(chat.NewMessage("assistant", reply.Content))
	}
	if errors.Is(err, infer.ErrContextFull) {
		err = fmt.Errorf("%w; use a larger --ctx or a shorter conversation", err)
	}
	return reply, err
}

// isRefusal reports whether only this conversation cannot be answered; others can.
func isRefusal(err error) bool {
	var refused *generate.RenderError
	return errors.Is(err, infer.ErrContextFull) || errors.As(err, &refused)
}

// askInText writes the answer to a question as text.
func (t *talk) askInText(ctx context.Context, question string) error {
	reply, err := t.ask(ctx, t.Out, chat.NewMessage("user", question))
	if reply.Prompt == 0 {
		return err
	}
	if _, written := fmt.Fprintln(t.Out); err == nil {
		err = written
	}
	if reply.Finish == generate.FinishLength && t.sequence.Len() == t.sequence.Context() {
		fmt.Fprintln(t.Log, "the reply was cut: the context is full; use a larger --ctx")
	}
	t.printStats(reply)
	return err
}

func (t *talk) printStats(r generate.Reply) {
	if !t.Stats {
		return
	}
	fmt.Fprintf(t.Log, "prompt: %s, %d more tokens from the cache\n", inference.Speed(r.Prompt-r.Cached, r.PromptFor), r.Cached)
	if r.Generated > 1 {
		fmt.Fprintf(t.Log, "generated: %s\n", inference.Speed(r.Generated-1, r.GeneratedFor))
	}
}

// answerPrompts answers the prompts in order.
func (t *talk) answerPrompts(ctx context.Context) error {
	for _, prompt := range t.Prompts {
		ask := t.askInText
		if t.JSON {
			ask = t.askInJSON
		}
		if err := ask(ctx, prompt); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes a value as a line of JSON.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

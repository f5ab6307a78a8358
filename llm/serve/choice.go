package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
)

// A part is new text of a choice.
type part struct {
	choice          int
	text, reasoning string
	calls           []partOfCall
	tokens          []generate.Token // with probabilities, if they are wanted
	finish          generate.Finish  // of the last part
	usage           usage            // of the last part
	err             error            // of the last part
}

// isEmpty reports whether the part has nothing to tell.
func (x *part) isEmpty() bool {
	return x.err == nil && x.text+x.reasoning == "" && x.calls == nil && x.tokens == nil
}

// A partOfCall is new text of a tool call: the call with the arguments so far, or more arguments without a name.
type partOfCall struct {
	chat.ToolCall
	index int
}

// A protocol is the form of the answers at an endpoint.
type protocol struct {
	prefix         string // of IDs
	object, chunks string // kinds of a whole answer, and of its parts
	model          string
	usage          bool // a stream ends with the usage

	choices int
	// generate generates a choice, and passes its parts on until take returns false.
	generate func(ctx context.Context, choice int, take func(part) bool)
	whole    func(part) any // a choice as a whole
	delta    func(part) any // a part of a choice
	first    func(choice int) any
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func usageOf(s generate.Stats, cached int) usage {
	u := usage{Prompt: s.Prompt, Completion: s.Generated, Total: s.Prompt + s.Generated}
	u.Details.Cached = cached
	return u
}

// add adds the usage of another choice. OpenAI counts a prompt once, however many choices it has; here each of several
// prompts counts.
func (u *usage) add(other usage, samePrompt bool) {
	u.Completion += other.Completion
	if !samePrompt || u.Prompt == 0 {
		u.Prompt += other.Prompt
		u.Details.Cached += other.Details.Cached
	}
	u.Total = u.Prompt + u.Completion
}

// envelope returns an answer with choices, or a part of it.
func (p *protocol) envelope(id, object string, created time.Time, choices []any) map[string]any {
	return map[string]any{"id": id, "object": object, "created": created.Unix(), "model": p.model, "choices": choices}
}

// answer writes the choices, whole or as a stream.
func (p *protocol) answer(h *Handler, w http.ResponseWriter, r *http.Request, stream bool, perPrompt int) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	parts := make(chan part)
	var all sync.WaitGroup
	for i := range p.choices {
		all.Add(1)
		go func() {
			defer all.Done()
			p.generate(ctx, i, func(x part) bool {
				x.choice = i
				select {
				case parts <- x:
					return true
				case <-ctx.Done():
					return false
				}
			})
		}()
	}
	go func() {
		all.Wait()
		close(parts)
	}()
	defer func() { // nothing runs when the handler returns
		cancel()
		all.Wait()
	}()
	out := newEvents(h, w)
	id, created := p.prefix+rand.Text(), time.Now()
	if stream {
		return p.stream(ctx, out, parts, id, created, perPrompt)
	}
	choices, used, err := p.collect(parts, perPrompt)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	answer := p.envelope(id, p.object, created, choices)
	answer["usage"] = used
	out.deadline()
	write(w, http.StatusOK, answer)
	return nil
}

// collect returns the whole choices.
func (p *protocol) collect(parts <-chan part, perPrompt int) ([]any, usage, error) {
	whole, used := make([]part, p.choices), usage{}
	for x := range parts {
		if x.err != nil {
			return nil, used, x.err
		}
		sum := &whole[x.choice]
		sum.choice = x.choice
		sum.text += x.text
		sum.reasoning += x.reasoning
		for _, c := range x.calls {
			if c.Name != "" {
				sum.calls = append(sum.calls, c)
			} else {
				sum.calls[c.index].Arguments += c.Arguments
			}
		}
		sum.tokens = append(sum.tokens, x.tokens...)
		if x.finish != "" {
			sum.finish, sum.usage = x.finish, x.usage
		}
	}
	choices := make([]any, p.choices)
	for i, x := range whole {
		choices[i] = p.whole(x)
		used.add(x.usage, i%perPrompt > 0)
	}
	return choices, used, nil
}

// stream writes the parts as server-sent events.
func (p *protocol) stream(ctx context.Context, out *events, parts <-chan part, id string, created time.Time, perPrompt int) error {
	begun, used := make([]bool, p.choices), usage{}
	send := func(choices []any, u *usage) error {
		chunk := p.envelope(id, p.chunks, created, choices)
		if p.usage {
			chunk["usage"] = u
		}
		return out.send(chunk)
	}
	for x := range parts {
		if x.err != nil {
			return out.fail(x.err)
		}
		if !begun[x.choice] && p.first != nil {
			if err := send([]any{p.first(x.choice)}, nil); err != nil {
				return nil // the client is gone
			}
		}
		begun[x.choice] = true
		if x.finish != "" {
			used.add(x.usage, x.choice%perPrompt > 0)
		}
		if err := send([]any{p.delta(x)}, nil); err != nil {
			return nil
		}
	}
	if ctx.Err() != nil { // choices end without a last part
		return out.fail(context.Cause(ctx))
	}
	if p.usage {
		if err := send([]any{}, &used); err != nil {
			return nil
		}
	}
	return out.end()
}

// events writes server-sent events.
type events struct {
	w        http.ResponseWriter
	c        *http.ResponseController
	patience time.Duration
	begun    bool
}

func newEvents(h *Handler, w http.ResponseWriter) *events {
	return &events{w: w, c: http.NewResponseController(w), patience: h.o.Patience}
}

// deadline limits how long the client may take to receive the next write.
func (e *events) deadline() { e.c.SetWriteDeadline(time.Now().Add(e.patience)) } // recorders of tests have no deadlines

func (e *events) send(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return e.write(string(text))
}

func (e *events) write(data string) error {
	if !e.begun {
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("X-Accel-Buffering", "no") // proxies pass each event on
		e.begun = true
	}
	e.deadline()
	if _, err := e.w.Write([]byte("data: " + data + "\n\n")); err != nil {
		return err
	}
	if err := e.c.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// fail reports an error: as the answer, or as the last event.
func (e *events) fail(err error) error {
	if !e.begun {
		return err
	}
	e.send(map[string]any{"error": failureOf(err)})
	return nil
}

func (e *events) end() error {
	e.write("[DONE]") // a client that is gone misses nothing
	return nil
}

package chatting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"

	"github.com/goggml/ggml/internal/plainjson"
)

// A jsonReply is the line of a reply.
type jsonReply struct {
	Content          string          `json:"content"`
	ToolCalls        []jsonCall      `json:"tool_calls,omitempty"`
	FinishReason     generate.Finish `json:"finish_reason"`
	PromptTokens     int             `json:"prompt_tokens"`
	CompletionTokens int             `json:"completion_tokens"`
	CachedTokens     int             `json:"cached_tokens"` // tokens of the prompt
	Seconds          float64         `json:"seconds"`
}

// A jsonCall is a call of a tool in OpenAI's form.
type jsonCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func jsonCalls(calls []chat.ToolCall) []jsonCall {
	out := make([]jsonCall, len(calls))
	for i, c := range calls {
		out[i].ID, out[i].Type = c.ID, "function"
		out[i].Function.Name, out[i].Function.Arguments = c.Name, c.Arguments
	}
	return out
}

// A jsonError is the output line of a request that cannot be answered.
type jsonError struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// A requestError is a fault of one line; later lines can be answered.
type requestError struct{ error }

// answerJSON answers conversations and messages, one a line, until the input ends.
func (t *talk) answerJSON(ctx context.Context) error {
	requests, failed := readLines(ctx, t.In), 0
	for number := 1; ; number++ {
		line, err := requests.next(ctx)
		if err == io.EOF && failed > 0 {
			return fmt.Errorf("%d of the lines could not be answered; standard output says why", failed)
		}
		if err == io.EOF {
			return nil
		}
		if err == nil && strings.TrimSpace(line) != "" {
			err = t.answerLine(ctx, []byte(line))
		}
		var refused *requestError
		if errors.As(err, &refused) {
			failed++
			err = writeJSON(t.Out, jsonError{number, refused.Error()})
		}
		if err != nil {
			return err
		}
	}
}

// answerLine reads a conversation or a message, and answers it if it is the model's turn.
func (t *talk) answerLine(ctx context.Context, line []byte) error {
	var keys struct {
		Messages json.RawMessage `json:"messages"`
		Role     json.RawMessage `json:"role"`
	}
	if err := plainjson.Unmarshal(line, &keys); err != nil {
		return &requestError{fmt.Errorf("expected a JSON object: %w", err)}
	}
	switch {
	case keys.Messages != nil:
		return t.answerConversation(ctx, line)
	case keys.Role != nil:
		return t.answerMessage(ctx, line)
	}
	return &requestError{errors.New(`expected the key "messages" or "role": give a conversation {"messages": […]} or a message {"role": "user", "content": "…"}`)}
}

func (t *talk) answerConversation(ctx context.Context, line []byte) error {
	var next chat.Conversation
	if err := plainjson.Unmarshal(line, &next); err != nil {
		return &requestError{err}
	}
	before := t.Conversation
	t.Conversation = next
	if t.System != "" && !t.hasSystem() {
		t.setSystem(t.System)
	}
	began := time.Now()
	reply, err := t.answer(ctx, io.Discard)
	if err != nil {
		t.Conversation = before
	}
	return t.writeReply(reply, err, began)
}

func (t *talk) answerMessage(ctx context.Context, line []byte) error {
	var next chat.Message
	if err := plainjson.Unmarshal(line, &next); err != nil {
		return &requestError{err}
	}
	if role := next.Role(); role != "user" && role != "tool" {
		t.add(next)
		return nil
	}
	began := time.Now()
	reply, err := t.ask(ctx, io.Discard, next)
	return t.writeReply(reply, err, began)
}

// askInJSON writes the answer to a question as a line of JSON.
func (t *talk) askInJSON(ctx context.Context, question string) error {
	began := time.Now()
	reply, err := t.ask(ctx, io.Discard, chat.NewMessage("user", question))
	return t.writeReply(reply, err, began)
}

func (t *talk) writeReply(r generate.Reply, err error, began time.Time) error {
	if isRefusal(err) {
		return &requestError{err}
	}
	if err != nil {
		return err
	}
	t.printStats(r)
	return writeJSON(t.Out, jsonReply{r.Content, jsonCalls(r.Calls), r.Finish, r.Prompt, r.Generated, r.Cached, time.Since(began).Seconds()})
}

package serve

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/plainjson"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
)

// A chatRequest is a conversation to answer.
type chatRequest struct {
	params
	Messages            json.RawMessage `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	LogProbs            bool            `json:"logprobs"`
	TopLogProbs         int             `json:"top_logprobs"`
	TemplateVariables   map[string]any  `json:"chat_template_kwargs"`

	calls generate.CallOptions // of tool_choice, parallel_tool_calls and strict functions
}

func (h *Handler) chat(w http.ResponseWriter, r *http.Request) error {
	q := chatRequest{params: newParams()}
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	if err := h.check(&q.params); err != nil {
		return err
	}
	talk, o, err := h.conversation(&q)
	if err != nil {
		return err
	}
	p := &protocol{
		prefix: "chatcmpl-", object: "chat.completion", chunks: "chat.completion.chunk", model: q.Model, usage: q.StreamOptions.IncludeUsage, choices: q.N,
		first: func(i int) any {
			return chatChoice(i, "delta", map[string]any{"role": "assistant", "content": ""}, part{})
		},
		delta: func(x part) any {
			message := map[string]any{}
			if x.text != "" {
				message["content"] = x.text
			}
			return h.withLogProbs(chatChoice(x.choice, "delta", withParts(message, x, true), x), x, q.LogProbs)
		},
		whole: func(x part) any {
			message := map[string]any{"role": "assistant", "content": x.text}
			if x.text == "" && len(x.calls) > 0 {
				message["content"] = nil
			}
			return h.withLogProbs(chatChoice(x.choice, "message", withParts(message, x, false), x), x, q.LogProbs)
		},
	}
	p.generate = func(ctx context.Context, i int, take func(part) bool) {
		tokens, reply := h.m.Chat(ctx, talk, h.sampling(&q.params, i), o)
		sent := growing{single: q.ParallelToolCalls != nil && !*q.ParallelToolCalls}
		for token, err := range tokens {
			x := part{err: err}
			if err == nil {
				sent.grow(reply, &x)
				if q.LogProbs {
					x.tokens = []generate.Token{token}
				}
			}
			if !x.isEmpty() && !take(x) || err != nil {
				return
			}
			if sent.isComplete(reply) {
				break
			}
		}
		x := part{finish: reply.Finish, usage: usageOf(reply.Stats, reply.Cached)}
		if sent.grow(reply, &x); len(reply.Calls) > 0 && x.finish != generate.FinishLength {
			x.finish = finishCalls
		}
		take(x)
	}
	return p.answer(h, w, r, q.Stream, q.N)
}

// conversation returns what a request asks to answer, and how.
func (h *Handler) conversation(q *chatRequest) (*chat.Conversation, generate.ChatOptions, error) {
	talk, err := q.conversation()
	if err != nil {
		return nil, generate.ChatOptions{}, err
	}
	o, err := h.chatOptions(q)
	return talk, o, err
}

// finishCalls ends an answer that calls tools.
const finishCalls generate.Finish = "tool_calls"

// withParts adds reasoning and calls to a message, or to a part of one.
func withParts(message map[string]any, x part, isDelta bool) map[string]any {
	if x.reasoning != "" {
		message["reasoning_content"] = x.reasoning
	}
	var calls []any
	for _, c := range x.calls {
		function, call := map[string]any{"arguments": c.Arguments}, map[string]any{}
		call["function"] = function
		if c.Name != "" {
			function["name"], call["id"], call["type"] = c.Name, c.ID, "function"
		}
		if isDelta {
			call["index"] = c.index
		}
		calls = append(calls, call)
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return message
}

func chatChoice(i int, key string, message map[string]any, x part) map[string]any {
	choice := map[string]any{"index": i, key: message, "finish_reason": nil}
	if x.finish != "" {
		choice["finish_reason"] = x.finish
	}
	return choice
}

// withLogProbs adds the probabilities of a part's tokens to a choice.
func (h *Handler) withLogProbs(choice map[string]any, x part, wanted bool) any {
	choice["logprobs"] = nil
	if !wanted {
		return choice
	}
	content := []any{}
	for _, t := range x.tokens {
		entry := h.logProb(generate.LogProb{ID: t.ID, LogProb: t.LogProb})
		top := []any{}
		for _, p := range t.Top {
			top = append(top, h.logProb(p))
		}
		entry["top_logprobs"] = top
		content = append(content, entry)
	}
	choice["logprobs"] = map[string]any{"content": content, "refusal": nil}
	return choice
}

func (h *Handler) logProb(p generate.LogProb) map[string]any {
	piece := h.piece(p.ID)
	return map[string]any{"token": piece, "logprob": p.LogProb, "bytes": bytesOf(piece)}
}

func (h *Handler) piece(id int32) string { return string(h.m.Weights().Tokenizer.Piece(id)) }

// conversation returns the conversation of the request.
func (q *chatRequest) conversation() (*chat.Conversation, error) {
	var given []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := plainjson.Unmarshal(q.Messages, &given); len(q.Messages) == 0 || err != nil {
		return nil, invalid("messages", "messages must be a list of {role, content}")
	}
	if len(given) == 0 {
		return nil, invalid("messages", "messages is empty")
	}
	for i, m := range given {
		if m.Role == "" {
			return nil, invalid("messages", "messages[%d] has no role", i)
		}
		if err := checkParts(i, m.Content); err != nil {
			return nil, err
		}
	}
	talk := &chat.Conversation{}
	if err := plainjson.Unmarshal(q.Messages, &talk.Messages); err != nil {
		return nil, invalid("messages", "%v", err)
	}
	if !isEmpty(q.Tools) {
		talk.Tools = q.Tools
	}
	return talk, q.chooseTools(talk)
}

// chooseTools reads the fields of calls.
func (q *chatRequest) chooseTools(talk *chat.Conversation) error {
	var choice string
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	switch {
	case isEmpty(q.ToolChoice):
	case json.Unmarshal(q.ToolChoice, &choice) == nil:
		q.calls.Required = choice == "required"
		if choice == "none" {
			talk.Tools = nil
		} else if choice != "auto" && choice != "required" {
			return invalid("tool_choice", "tool_choice %q is unknown; use auto, none, required or a function", choice)
		}
	case json.Unmarshal(q.ToolChoice, &named) == nil && named.Type == "function" && named.Function.Name != "":
		q.calls.Required, q.calls.Name, q.calls.Single = true, named.Function.Name, true
	default:
		return invalid("tool_choice", `tool_choice must be auto, none, required or {"type": "function", "function": {"name": "…"}}`)
	}
	if q.calls.Required && talk.Tools == nil {
		return invalid("tool_choice", "tool_choice forces a call, but the request has no tools")
	}
	q.calls.Single = q.calls.Single || q.ParallelToolCalls != nil && !*q.ParallelToolCalls
	var tools []struct {
		Function struct {
			Strict bool `json:"strict"`
		}
	}
	if json.Unmarshal(talk.Tools, &tools) == nil { // otherwise the template decides
		for _, t := range tools {
			q.calls.Strict = q.calls.Strict || t.Function.Strict
		}
	}
	return nil
}

// checkParts requires that a content in parts consists of texts.
func checkParts(i int, content json.RawMessage) error {
	var parts []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		if p.Type != "text" {
			return invalid("messages", "messages[%d] has a part of type %q; the model reads text alone", i, p.Type)
		}
	}
	return nil
}

// chatOptions returns the options of an answer.
func (h *Handler) chatOptions(q *chatRequest) (generate.ChatOptions, error) {
	o := h.o.Chat
	o.Adapters, o.Grammar, o.Calls = q.adapter.Prepared(), q.grammar, q.calls
	switch {
	case q.TopLogProbs < 0 || q.TopLogProbs > maxTopLogProbs:
		return o, invalid("top_logprobs", "top_logprobs is %d; it must be 0 to %d", q.TopLogProbs, maxTopLogProbs)
	case q.TopLogProbs > 0 && !q.LogProbs:
		return o, invalid("top_logprobs", "top_logprobs needs logprobs: true")
	}
	n, err := limit("max_completion_tokens", q.MaxCompletionTokens, q.MaxTokens)
	if err != nil {
		return o, err
	}
	if n != nil {
		o.Limit = n
	}
	if len(q.TemplateVariables) > 0 {
		o.Variables = maps.Collect(maps.All(o.Variables))
		maps.Copy(o.Variables, q.TemplateVariables)
	}
	o.Stop = slices.Concat(o.Stop, q.Stop)
	o.LogProbs, o.TopLogProbs = q.LogProbs, q.TopLogProbs
	return o, nil
}

// growing is a reply of which a part has been sent.
type growing struct {
	answer, reasoning string
	arguments         []string // of the calls
	single            bool     // no call follows the first
}

// grow adds the new text of the reply to a part.
func (g *growing) grow(r *generate.Reply, x *part) {
	x.text, x.reasoning = gained(&g.answer, r.Answer), gained(&g.reasoning, r.Reasoning)
	for i, c := range r.Calls {
		switch {
		case i > 0 && g.single:
			return
		case i == len(g.arguments):
			g.arguments = append(g.arguments, c.Arguments)
			x.calls = append(x.calls, partOfCall{c, i})
		default:
			if more := gained(&g.arguments[i], c.Arguments); more != "" {
				x.calls = append(x.calls, partOfCall{chat.ToolCall{Arguments: more}, i})
			}
		}
	}
}

// isComplete reports whether the reply has what the client wants before the model ends it.
func (g *growing) isComplete(r *generate.Reply) bool { return g.single && len(r.Calls) > 1 }

// gained returns the text that follows the sent part.
func gained(sent *string, text string) string {
	rest, grows := strings.CutPrefix(text, *sent)
	if !grows {
		return ""
	}
	*sent = text
	return rest
}

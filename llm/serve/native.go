package serve

import (
	"net/http"
	"unicode/utf8"

	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/tokenizer"
)

// tokenize answers llama-server's POST /tokenize.
func (h *Handler) tokenize(w http.ResponseWriter, r *http.Request) error {
	q := struct {
		Content      string `json:"content"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial bool   `json:"parse_special"`
		WithPieces   bool   `json:"with_pieces"`
	}{ParseSpecial: true}
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	tokens := []any{}
	for _, id := range h.m.Weights().Tokenizer.Encode(q.Content, tokenizer.EncodeOptions{AddSpecial: q.AddSpecial, ParseSpecial: q.ParseSpecial}) {
		if !q.WithPieces {
			tokens = append(tokens, id)
			continue
		}
		piece := any(h.piece(id))
		if !utf8.ValidString(h.piece(id)) {
			piece = bytesOf(h.piece(id))
		}
		tokens = append(tokens, map[string]any{"id": id, "piece": piece})
	}
	write(w, http.StatusOK, map[string]any{"tokens": tokens})
	return nil
}

// bytesOf returns bytes as JSON numbers: a []byte would be written as base64.
func bytesOf(text string) []int {
	values := make([]int, len(text))
	for i, b := range []byte(text) {
		values[i] = int(b)
	}
	return values
}

// detokenize answers llama-server's POST /detokenize.
func (h *Handler) detokenize(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	v := h.m.Weights().Tokenizer
	for i, id := range q.Tokens {
		if id < 0 || int(id) >= v.NumTokens() {
			return invalid("tokens", "tokens[%d] is %d; the vocabulary has %d", i, id, v.NumTokens())
		}
	}
	write(w, http.StatusOK, map[string]string{"content": v.Decode(q.Tokens, tokenizer.DecodeOptions{ShowSpecial: true})})
	return nil
}

// applyTemplate answers llama-server's POST /apply-template: the prompt of a conversation.
func (h *Handler) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	q := chatRequest{params: newParams()}
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	talk, o, err := h.conversation(&q)
	if err != nil {
		return err
	}
	prompt, err := h.m.Prompt(talk, o)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, map[string]string{"prompt": prompt})
	return nil
}

// slots answers llama-server's GET /slots.
func (h *Handler) slots(w http.ResponseWriter, _ *http.Request) error {
	running, list := h.m.Load().Running, []any{}
	for i := range h.m.Sequences() {
		list = append(list, map[string]any{"id": i, "n_ctx": h.m.Context(), "is_processing": i < running})
	}
	write(w, http.StatusOK, list)
	return nil
}

// A nativeRequest is a prompt to continue, in llama-server's own form.
type nativeRequest struct {
	params
	Prompt    *string `json:"prompt"`
	NumTokens *int    `json:"n_predict"`
	IgnoreEOS bool    `json:"ignore_eos"`
}

// continuePrompt answers llama-server's POST /completion.
func (h *Handler) continuePrompt(w http.ResponseWriter, r *http.Request) error {
	q := nativeRequest{params: newParams()}
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	if err := h.check(&q.params); err != nil {
		return err
	}
	n, err := limit("n_predict", q.NumTokens)
	switch {
	case err != nil:
		return err
	case q.Prompt == nil:
		return invalid("prompt", "prompt must be a text")
	case q.N != 1:
		return invalid("n", "n is unsupported here; use /v1/completions")
	}
	o := generate.Options{Limit: n, Stop: q.Stop, IgnoreEOG: q.IgnoreEOS, Adapters: q.adapter.Prepared(), Grammar: q.grammar}
	tokens, stats := h.m.Complete(r.Context(), *q.Prompt, h.sampling(&q.params, 0), o)
	out, text := newEvents(h, w), ""
	for token, err := range tokens {
		switch {
		case err == generate.ErrTruncated: // not an error of a completion
			text += token.Text
		case err != nil:
			return out.fail(err)
		case !q.Stream:
			text += token.Text
		case token.Text != "":
			if out.send(map[string]any{"index": 0, "content": token.Text, "stop": false}) != nil {
				return nil // the client is gone
			}
		}
	}
	kind := map[generate.Finish]string{generate.FinishLength: "limit", generate.FinishStop: "eos"}[stats.Finish]
	last := map[string]any{
		"index": 0, "content": text, "stop": true, "stop_type": kind, "truncated": false, "model": q.Model, "prompt": *q.Prompt,
		"tokens_evaluated": stats.Prompt, "tokens_predicted": stats.Generated,
	}
	if q.Stream {
		out.send(last) // a client that is gone misses nothing
		return nil
	}
	out.deadline()
	write(w, http.StatusOK, last)
	return nil
}

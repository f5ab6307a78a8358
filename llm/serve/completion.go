package serve

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/goggml/ggml/llm/generate"
)

// A completionRequest is a list of prompts to continue.
type completionRequest struct {
	params
	Prompt    json.RawMessage `json:"prompt"`
	MaxTokens *int            `json:"max_tokens"`
	LogProbs  *int            `json:"logprobs"`
	Echo      bool            `json:"echo"`
	Suffix    string          `json:"suffix"`
	BestOf    *int            `json:"best_of"`
	IgnoreEOS bool            `json:"ignore_eos"`
}

// usualLimit is the number of tokens of a completion without max_tokens, as OpenAI's.
const usualLimit = 16

func (h *Handler) complete(w http.ResponseWriter, r *http.Request) error {
	q := completionRequest{params: newParams()}
	if err := h.read(w, r, &q); err != nil {
		return err
	}
	if err := h.check(&q.params); err != nil {
		return err
	}
	var prompts texts
	if err := json.Unmarshal(q.Prompt, &prompts); err != nil || len(prompts) == 0 {
		return invalid("prompt", "prompt must be a text or a list of texts")
	}
	o, err := h.completionOptions(&q, len(prompts))
	if err != nil {
		return err
	}
	p := &protocol{
		prefix: "cmpl-", object: "text_completion", chunks: "text_completion", model: q.Model, usage: q.StreamOptions.IncludeUsage, choices: len(prompts) * q.N,
	}
	p.delta = func(x part) any { return h.textChoice(x, q.LogProbs != nil) }
	p.whole = p.delta
	p.generate = func(ctx context.Context, i int, take func(part) bool) {
		prompt := prompts[i/q.N]
		if q.Echo && !take(part{text: prompt}) {
			return
		}
		tokens, stats := h.m.Complete(ctx, prompt, h.sampling(&q.params, i%q.N), o)
		for token, err := range tokens {
			x := part{text: token.Text, err: err}
			if err == generate.ErrTruncated { // not an error of a completion
				x.err = nil
			}
			if q.LogProbs != nil && token.ID >= 0 {
				x.tokens = []generate.Token{token}
			}
			if !take(x) || x.err != nil {
				return
			}
		}
		take(part{finish: stats.Finish, usage: usageOf(*stats, 0)})
	}
	return p.answer(h, w, r, q.Stream, q.N)
}

func (h *Handler) completionOptions(q *completionRequest, prompts int) (o generate.Options, err error) {
	switch {
	case prompts*q.N > h.o.MaxChoices:
		return o, invalid("prompt", "%d prompts with n %d are too many; the limit is %d choices", prompts, q.N, h.o.MaxChoices)
	case q.Suffix != "":
		return o, invalid("suffix", "suffix is unsupported; leave it out")
	case q.BestOf != nil && *q.BestOf != q.N:
		return o, invalid("best_of", "best_of is unsupported; use n")
	case q.LogProbs != nil && (*q.LogProbs < 0 || *q.LogProbs > maxTopLogProbs):
		return o, invalid("logprobs", "logprobs is %d; it must be 0 to %d", *q.LogProbs, maxTopLogProbs)
	case q.Echo && q.LogProbs != nil:
		return o, invalid("echo", "echo with logprobs is unsupported: the prompt's tokens have no probabilities here")
	}
	if q.MaxTokens == nil {
		q.MaxTokens = ptr(usualLimit)
	}
	if o.Limit, err = limit("max_tokens", q.MaxTokens); err != nil {
		return o, err
	}
	o.Stop, o.IgnoreEOG, o.Adapters, o.Grammar = q.Stop, q.IgnoreEOS, q.adapter.Prepared(), q.grammar
	if q.LogProbs != nil {
		o.LogProbs, o.TopLogProbs = true, *q.LogProbs
	}
	return o, nil
}

// textChoice is a choice, or a part of it.
func (h *Handler) textChoice(x part, logProbs bool) any {
	choice := map[string]any{"index": x.choice, "text": x.text, "finish_reason": nil, "logprobs": nil}
	if x.finish != "" {
		choice["finish_reason"] = x.finish
	}
	if logProbs {
		tokens, values, tops := []string{}, []float64{}, []map[string]float64{}
		for _, t := range x.tokens {
			top := map[string]float64{}
			for _, p := range t.Top {
				top[h.piece(p.ID)] = p.LogProb
			}
			tokens, values, tops = append(tokens, h.piece(t.ID)), append(values, t.LogProb), append(tops, top)
		}
		choice["logprobs"] = map[string]any{"tokens": tokens, "token_logprobs": values, "top_logprobs": tops}
	}
	return choice
}

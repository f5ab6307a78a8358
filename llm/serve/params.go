package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/sample"
)

// params are the fields that requests for text share.
type params struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	N             int           `json:"n"` // 1 in newParams
	Stop          texts         `json:"stop"`

	Seed             *int64   `json:"seed"`
	Temperature      *float32 `json:"temperature"`
	TopP             *float32 `json:"top_p"`
	TopK             *int     `json:"top_k"`
	MinP             *float32 `json:"min_p"`
	RepeatPenalty    *float32 `json:"repeat_penalty"`
	FrequencyPenalty *float32 `json:"frequency_penalty"`
	PresencePenalty  *float32 `json:"presence_penalty"`

	adapter *llm.Adapter // of the model

	LogitBias      json.RawMessage `json:"logit_bias"`
	ResponseFormat responseFormat  `json:"response_format"`
	Grammar        string          `json:"grammar"`     // GBNF, as llama-server's
	JSONSchema     json.RawMessage `json:"json_schema"` // as llama-server's

	grammar *grammar.Grammar // of one of the three
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// newParams are the values of fields that a request may lack.
func newParams() params { return params{N: 1} }

// texts are a string or a list of strings.
type texts []string

// UnmarshalJSON reads either form; null is none.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		if *t = nil; string(data) != "null" {
			*t = texts{one}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New("it must be a string or a list of strings")
	}
	*t = list
	return nil
}

// Limits of fields.
const (
	maxStops       = 16
	maxTopLogProbs = 20 // as OpenAI's
)

// check validates the fields, and completes them.
func (h *Handler) check(p *params) (err error) {
	if p.adapter, err = h.adapter(p.Model); err != nil {
		return err
	}
	p.Model = cmp.Or(p.Model, h.o.Name)
	switch {
	case p.N < 1 || p.N > h.o.MaxChoices:
		return invalid("n", "n is %d; it must be 1 to %d", p.N, h.o.MaxChoices)
	case len(p.Stop) > maxStops:
		return invalid("stop", "stop has %d texts; it can have %d", len(p.Stop), maxStops)
	case !isEmpty(p.LogitBias):
		return invalid("logit_bias", "logit_bias is unsupported; leave it out")
	}
	if _, err := sample.New(h.sampling(p, 0)); err != nil {
		return invalid("", "%v", err)
	}
	return p.constrain()
}

// isEmpty reports whether a JSON value is absent, null, or has no elements.
func isEmpty(value json.RawMessage) bool {
	return len(value) == 0 || slices.Contains([]string{"null", "{}", "[]", `""`}, string(value))
}

// sampling returns the options of the sampler of a choice. Choices have one seed after the other.
func (h *Handler) sampling(p *params, choice int) sample.Options {
	o := *h.o.Sampling
	o.Seed = 0 // a random one
	if p.Seed != nil {
		o.Seed = 2*(uint64(*p.Seed)+uint64(choice)) + 1 // never 0
	}
	set(&o.Temperature, p.Temperature)
	set(&o.TopK, p.TopK)
	set(&o.MinP, p.MinP)
	set(&o.RepeatPenalty, p.RepeatPenalty)
	set(&o.FrequencyPenalty, p.FrequencyPenalty)
	set(&o.PresencePenalty, p.PresencePenalty)
	if p.TopP != nil {
		o.TopP = p.TopP
	}
	return o
}

func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

func ptr[T any](x T) *T { return &x }

// limit returns the largest number of tokens of an answer; nil: no limit but the context.
func limit(field string, values ...*int) (*int, error) {
	for _, n := range values {
		switch {
		case n == nil:
		case *n < 0 && *n != -1 || *n > math.MaxInt32:
			return nil, invalid(field, "%s is %d; it must be 0 or more", field, *n)
		case *n == -1: // llama-server's word for no limit
			return nil, nil
		default:
			return n, nil
		}
	}
	return nil, nil
}

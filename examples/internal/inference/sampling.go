package inference

import (
	"fmt"
	"os"

	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/sample"
)

// Sampling is how tokens are drawn, for kong.
type Sampling struct {
	Drawing
	Seed       uint64 `name:"seed" basic:"" range:"[0,)" default:"0" help:"Equal seeds give equal text." group:"Sampling"`
	Grammar    string `name:"grammar" aliases:"grammar-file" placeholder:"FILE" xor:"grammar" help:"File with a grammar (GBNF, as of llama.cpp) that the whole text must have." group:"Sampling"`
	JSONSchema string `name:"json-schema" aliases:"json-schema-file" placeholder:"FILE" xor:"grammar" help:"File with a JSON schema that the whole text must have." group:"Sampling"`
}

// ReadGrammar returns the grammar of the flags; nil: any text.
func (s *Sampling) ReadGrammar() (*grammar.Grammar, error) {
	flag, path, parse := "--grammar", s.Grammar, func(text []byte) (*grammar.Grammar, error) { return grammar.Parse(string(text)) }
	if s.JSONSchema != "" {
		flag, path, parse = "--json-schema", s.JSONSchema, grammar.ParseJSONSchema
	}
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	g, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return g, nil
}

// Drawing is how likely each token is drawn, for kong.
type Drawing struct {
	Temp          float32 `name:"temp" basic:"" range:"[0,)" default:"0.8" help:"Temperature; 0 always takes the most likely token." group:"Sampling"`
	TopK          int     `name:"top-k" range:"[0,)" default:"40" help:"Draw from this many of the most likely tokens; 0 for all." group:"Sampling"`
	TopP          float32 `name:"top-p" range:"[0,1]" default:"0.95" help:"Draw from the most likely tokens that together have this probability, at least the first; 1 is off." group:"Sampling"`
	MinP          float32 `name:"min-p" range:"[0,1]" default:"0.05" help:"Leave out tokens less likely than this fraction of the most likely one's probability; 0 is off." group:"Sampling"`
	RepeatPenalty float32 `name:"repeat-penalty" range:"(0,)" default:"1" help:"Make tokens that occurred less likely; 1 is off." group:"Sampling"`
	RepeatLastN   int     `name:"repeat-last-n" range:"[-1,)" default:"64" help:"How many of the last tokens count as repeated; 0 for none, -1 for all." group:"Sampling"`
}

// Sampler returns the sampler for the i-th continuation of a text.
func (s *Sampling) Sampler(i int) (*sample.Sampler, error) {
	o := s.Options()
	o.Seed = s.Seed + uint64(i)
	return sample.New(o)
}

// Options returns the options of a sampler, without a seed.
func (d *Drawing) Options() sample.Options {
	return sample.Options{
		RepeatPenalty: d.RepeatPenalty, RepeatLast: &d.RepeatLastN,
		TopK: d.TopK, TopP: &d.TopP, MinP: d.MinP, Temperature: d.Temp,
	}
}

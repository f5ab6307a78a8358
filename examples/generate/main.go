// Generate continues a text with a language model from a GGUF file, optionally with LoRA adapters, chats with
// it, or embeds or scores texts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/chatting"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
)

type program struct {
	inference.SessionFlags

	Prompt    []string `name:"prompt" basic:"" short:"p" sep:"none" xor:"prompt" placeholder:"TEXT" help:"Text to continue; - reads it from standard input. Several are continued at once; with --chat they are questions, turns of one conversation; with --embed or --rerank each line is a text." group:"Text"`
	File      string   `name:"file" basic:"" short:"f" xor:"prompt" placeholder:"FILE" help:"File with the text to continue; with --embed or --rerank, with a text in each line." group:"Text"`
	Samples   int      `name:"samples" basic:"" range:"[1,1048576]" default:"1" help:"Number of continuations of each text, generated together; each has the next seed." group:"Text"`
	NPredict  *int     `name:"n-predict" basic:"" range:"[-1,2147483647]" short:"n" placeholder:"N" help:"Most tokens to generate; -1 until the model ends the text or the context is full. By default 128, with --chat -1." group:"Text"`
	IgnoreEOS bool     `name:"ignore-eos" help:"Do not let the model end the text." group:"Text"`
	Chat      bool     `name:"chat" basic:"" help:"Chat through the model's chat template: a dialogue, or an answer to --prompt." group:"Chat"`
	Parallel  int      `name:"parallel" range:"[1,65536]" default:"8" help:"Most texts to continue or to embed at once; each has a KV cache of its own." group:"Computing"`

	Embed     bool   `name:"embed" basic:"" help:"Write a vector for each text, as a line {\"text\", \"embedding\"} of JSON, instead of continuing the text." group:"Embeddings"`
	Pooling   string `name:"pooling" enum:"model,mean,last,cls" default:"model" help:"Hidden states that form the vector: mean (of all tokens), last, or cls (the first token); model follows the model's file, by default mean." group:"Embeddings"`
	Normalize bool   `name:"normalize" help:"Scale each vector to length 1, so that dot products are cosines." group:"Embeddings"`

	Rerank *string `name:"rerank" placeholder:"QUERY" help:"Write how well each text answers the query, by a reranker, as a line {\"text\", \"score\"} of JSON; larger is better." group:"Embeddings"`

	chatting.Flags
	inference.Sampling
}

func main() {
	var p program
	cli.Parse("generate", &p, kong.Description(
		"Continue a text with a language model, chat with it, or embed or score texts.\n\n"+
			"Example: generate --model base.gguf --lora adapter.gguf=0.8 --prompt 'Once upon a time' --temp 0.7\n\n"+
			"With --chat: "+chatting.Help))
	cli.Main("generate", func(ctx context.Context, out io.Writer) error { return p.run(ctx, os.Stdin, out, os.Stderr) })
}

func (p *program) run(ctx context.Context, in io.Reader, out, log io.Writer) error {
	prompts, err := p.readPrompts(in)
	if err != nil {
		return err
	}
	if err := p.checkMode(); err != nil {
		return err
	}
	if p.Embed || p.Rerank != nil {
		return p.embed(ctx, prompts, out, log)
	}
	if p.Chat {
		return p.chat(ctx, prompts, in, out, log)
	}
	if len(prompts) == 0 {
		prompts = []string{""}
	}
	texts := len(prompts) * p.Samples
	sequences := min(texts, p.Parallel)
	m, err := p.Load(sequences)
	if err != nil {
		return err
	}
	defer m.Close()
	m.WarnOfBOS(log, prompts...)
	j := &job{program: p, model: m, out: out, log: log}
	if j.grammar, err = p.ReadGrammar(); err != nil {
		return err
	}
	if texts == 1 {
		return j.one(ctx, prompts[0])
	}
	return j.several(ctx, prompts, sequences)
}

// checkMode rejects flags that do not belong together.
func (p *program) checkMode() error {
	switch flag := p.Given(); {
	case !p.Chat && flag != "":
		return fmt.Errorf("%s works only with --chat; add --chat, or leave it out", flag)
	case p.Chat && p.Embed:
		return errors.New("--embed gives vectors, and --chat answers; leave one of them out")
	case p.Chat && p.Rerank != nil:
		return errors.New("--rerank gives scores, and --chat answers; leave one of them out")
	case p.Embed && p.Rerank != nil:
		return errors.New("--embed gives vectors, and --rerank scores; leave one of them out")
	case p.Chat && p.Samples > 1:
		return errors.New("--samples: a chat has one reply; leave it or --chat out")
	case p.Chat && p.IgnoreEOS:
		return errors.New("--ignore-eos: in a chat, the model must end its replies; leave it or --chat out")
	}
	return p.checkEmbed()
}

func (p *program) chat(ctx context.Context, prompts []string, in io.Reader, out, log io.Writer) error {
	m, err := p.Load(1)
	if err != nil {
		return err
	}
	defer m.Close()
	return chatting.Run(ctx, chatting.Settings{
		Flags: p.Flags, Sampling: p.Sampling, Model: m, Inputs: append(p.Files(), cli.File{Flag: "--file", Path: p.File}), Prompts: prompts, Limit: cli.Optional(p.predict(-1)), Stats: p.Stats,
		In: in, Out: out, Log: log,
	})
}

// predict returns --n-predict, or the default.
func (p *program) predict(byDefault int) int {
	if p.NPredict == nil {
		return byDefault
	}
	return *p.NPredict
}

// A job is the program with its model loaded.
type job struct {
	*program
	model    *inference.Model
	grammar  *grammar.Grammar
	out, log io.Writer
}

func (j *job) textOptions() generate.Options {
	return generate.Options{Limit: cli.Optional(j.predict(128)), IgnoreEOG: j.IgnoreEOS, Grammar: j.grammar}
}

// one writes the continuation of a text as it is generated.
func (j *job) one(ctx context.Context, prompt string) error {
	session, err := infer.NewSession(j.model.Model, j.model.Options)
	if err != nil {
		return err
	}
	defer session.Close()
	sequence, err := session.NewSequence()
	if err != nil {
		return err
	}
	sampler, err := j.Sampler(0)
	if err != nil {
		return err
	}
	stats, err := generate.Text(ctx, j.model.Model, sequence, generate.Request{Prompt: prompt, W: j.out, Sampler: sampler, Options: j.textOptions()})
	_, written := fmt.Fprintln(j.out)
	if j.Stats {
		printStats(j.log, j.model.Loading, stats)
	}
	return errors.Join(j.cut(err), written)
}

// cut turns the error of a text that fills the context into a warning.
func (j *job) cut(err error) error {
	if err == generate.ErrTruncated { // errors.Is would also match an error joined with others
		fmt.Fprintf(j.log, "generate: %v; use a larger --ctx\n", err)
		return nil
	}
	return err
}

func printStats(w io.Writer, loading time.Duration, s generate.Stats) {
	fmt.Fprintf(w, "loaded in %.2f s\n", loading.Seconds())
	if s.Prompt > 0 {
		fmt.Fprintf(w, "prompt: %s\n", inference.Speed(s.Prompt, s.PromptFor))
		fmt.Fprintf(w, "first token after %.3f s, %.3f s with loading\n", s.PromptFor.Seconds(), (loading + s.PromptFor).Seconds())
	}
	if s.Generated > 1 {
		fmt.Fprintf(w, "generated: %s\n", inference.Speed(s.Generated-1, s.GeneratedFor))
	}
}

// readPrompts returns the texts to continue, or the questions.
func (p *program) readPrompts(in io.Reader) ([]string, error) {
	if p.File != "" {
		text, err := cli.ReadText(p.File)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		return []string{trimmed(text)}, nil
	}
	return inference.ReadPrompts(p.Prompt, in)
}

// trimmed removes the newline that ends a file: it is not part of the text to continue.
func trimmed(text string) string { return strings.TrimSuffix(text, "\n") }

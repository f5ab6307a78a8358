// Generate continues a text with a language model from a GGUF file, with LoRA
// adapters if there are any.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

type program struct {
	Model string   `name:"model" short:"m" required:"" placeholder:"FILE" help:"GGUF model." group:"Model"`
	LoRA  []string `name:"lora" sep:"none" placeholder:"FILE[=SCALE]" help:"GGUF adapter, and how strongly it acts (1 when left out). Can be given several times." group:"Model"`

	Prompt    []string `name:"prompt" short:"p" sep:"none" xor:"prompt" placeholder:"TEXT" help:"Text to continue; - reads it from standard input. Several are continued at once." group:"Text"`
	File      string   `name:"file" short:"f" xor:"prompt" placeholder:"FILE" help:"File with the text to continue." group:"Text"`
	Samples   int      `name:"samples" range:"[1,1048576]" default:"1" help:"Continuations of each text, with one seed after the other, at once." group:"Text"`
	NPredict  int      `name:"n-predict" range:"[0,)" short:"n" default:"128" help:"Most tokens to generate; 0 goes on until the context is full." group:"Text"`
	IgnoreEOS bool     `name:"ignore-eos" help:"Do not let the model end the text." group:"Text"`

	Temp          float32 `name:"temp" range:"[0,)" default:"0.8" help:"Temperature; 0 always takes the most likely token." group:"Sampling"`
	TopK          int     `name:"top-k" range:"[0,)" default:"40" help:"Draw from that many of the most likely tokens; 0 is off." group:"Sampling"`
	TopP          float32 `name:"top-p" range:"[0,1]" default:"0.95" help:"Draw from the most likely tokens that together have this probability; 1 is off." group:"Sampling"`
	MinP          float32 `name:"min-p" range:"[0,1]" default:"0.05" help:"Leave out tokens below this part of the probability of the most likely one; 0 is off." group:"Sampling"`
	RepeatPenalty float32 `name:"repeat-penalty" range:"[0,)" default:"1" help:"Make tokens that occurred less likely; 1 is off." group:"Sampling"`
	RepeatLastN   int     `name:"repeat-last-n" range:"[-1,)" default:"64" help:"Tokens back to look for repetitions; -1 is all." group:"Sampling"`
	Seed          uint64  `name:"seed" default:"0" help:"Equal seeds give equal text." group:"Sampling"`

	Ctx       int    `name:"ctx" range:"[0,2147483647]" short:"c" default:"0" help:"Most tokens of prompt and answer; 0 is what the model was trained on." group:"Computing"`
	Device    string `name:"device" placeholder:"NAME" help:"What computes and holds the weights, such as CPU, CUDA0 or Vulkan0; by default the CPU. An unknown name lists those of this machine." group:"Computing"`
	Threads   int    `name:"threads" range:"[0,512]" short:"t" default:"0" help:"Threads; 0 suits the machine." group:"Computing"`
	CacheType string `name:"cache-type" default:"f16" help:"Type of the KV cache: f32, f16, q8_0, …" group:"Computing"`
	NoRepack  bool   `name:"no-repack" help:"Begin at once, and use the weights as they are in the file: slower, in less memory." group:"Computing"`
	Parallel  int    `name:"parallel" range:"[1,65536]" default:"8" help:"Most texts to continue at once; each has a KV cache of its own." group:"Computing"`
	Stats     bool   `name:"stats" help:"Write the speed to standard error." group:"Computing"`
}

func main() {
	var p program
	cli.Parse("generate", &p, kong.Description(
		"Continue a text with a language model.\n\n"+
			"Example: generate --model base.gguf --lora adapter.gguf=0.8 --prompt 'Once upon a time' --temp 0.7"))
	cli.Main("generate", func(ctx context.Context, out io.Writer) error { return p.run(ctx, os.Stdin, out, os.Stderr) })
}

func (p *program) run(ctx context.Context, in io.Reader, out, log io.Writer) error {
	began := time.Now()
	prompts, err := p.readPrompts(in)
	if err != nil {
		return err
	}
	options := infer.SessionOptions{Context: p.Ctx}
	if options.CacheType, err = ggml.ParseType(p.CacheType); err != nil {
		return fmt.Errorf("--cache-type: %w", err)
	}
	if !options.CacheType.CanQuantize() {
		return fmt.Errorf("--cache-type %s: a KV cache cannot have it; f16, f32 and q8_0 are usual", p.CacheType)
	}
	texts := len(prompts) * p.Samples
	sequences := min(texts, p.Parallel)
	if options.Engine, err = cli.NewEngine(p.Device, p.Threads); err != nil {
		return err
	}
	defer options.Engine.Close()
	m, err := model.Load(p.Model, model.LoadOptions{Device: options.Engine.Device(), Repack: !p.NoRepack, Sequences: sequences})
	if err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	defer m.Close()
	if m.Tokenizer == nil {
		return fmt.Errorf("%s has no vocabulary, so text means nothing to it", p.Model)
	}
	adapters, err := p.loadAdapters(m)
	if err != nil {
		return err
	}
	defer adapters.close()
	options.Adapters = adapters.weights
	j := &job{program: p, model: m, options: options, out: out, log: log, began: began}
	if texts == 1 {
		return j.one(ctx, prompts[0])
	}
	return j.batch(ctx, prompts, sequences)
}

// sampler draws the tokens of the i-th continuation of a text.
func (p *program) sampler(i int) (*sample.Sampler, error) {
	return sample.New(sample.Options{
		RepeatPenalty: p.RepeatPenalty, RepeatLast: p.RepeatLastN,
		TopK: p.TopK, TopP: p.TopP, MinP: p.MinP, Temperature: p.Temp, Seed: p.Seed + uint64(i),
	})
}

// A job is a program whose model is loaded.
type job struct {
	*program
	model    *model.Model
	options  infer.SessionOptions
	out, log io.Writer
	began    time.Time
}

func (j *job) textOptions() generate.Options {
	return generate.Options{Limit: j.NPredict, IgnoreEOG: j.IgnoreEOS}
}

// one writes the continuation of a text as it comes into being.
func (j *job) one(ctx context.Context, prompt string) error {
	session, err := infer.NewSession(j.model, j.options)
	if err != nil {
		return err
	}
	defer session.Close()
	sampler, err := j.sampler(0)
	if err != nil {
		return err
	}
	loaded := time.Now()
	stats, err := generate.Text(ctx, j.out, j.model, session, sampler, prompt, j.textOptions())
	_, written := fmt.Fprintln(j.out)
	if j.Stats {
		printStats(j.log, loaded.Sub(j.began), stats)
	}
	return errors.Join(j.cut(err), written)
}

// cut makes a text that fills the context a warning.
func (j *job) cut(err error) error {
	if err == generate.ErrTruncated { // and nothing else went wrong, as errors.Is would allow
		fmt.Fprintf(j.log, "generate: %v; use a larger --ctx\n", err)
		return nil
	}
	return err
}

func printStats(w io.Writer, loading time.Duration, s generate.Stats) {
	fmt.Fprintf(w, "loaded in %.2f s\n", loading.Seconds())
	if s.Prompt > 0 {
		fmt.Fprintf(w, "prompt: %s\n", speed(s.Prompt, s.PromptFor))
		fmt.Fprintf(w, "first token after %.3f s, %.3f s with loading\n", s.PromptFor.Seconds(), (loading + s.PromptFor).Seconds())
	}
	if s.Generated > 1 {
		fmt.Fprintf(w, "generated: %s\n", speed(s.Generated-1, s.GeneratedFor))
	}
}

func speed(tokens int, d time.Duration) string {
	return fmt.Sprintf("%d tokens in %.3f s, %.1f tokens/s", tokens, d.Seconds(), float64(tokens)/d.Seconds())
}

// readPrompts gives the texts to continue, at least one.
func (p *program) readPrompts(in io.Reader) ([]string, error) {
	if p.File != "" {
		text, err := cli.ReadText(p.File)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		return []string{trimmed(text)}, nil
	}
	if len(p.Prompt) == 0 {
		return []string{""}, nil
	}
	prompts := slices.Clone(p.Prompt)
	for i, prompt := range prompts {
		if prompt != "-" {
			continue
		}
		raw, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		prompts[i] = trimmed(string(raw))
	}
	return prompts, nil
}

// trimmed leaves out the newline that ends a file: it is no part of a text to
// go on with.
func trimmed(text string) string { return strings.TrimSuffix(text, "\n") }

// adapters are the open adapter files.
type adapters struct {
	open    []*lora.Adapter
	weights model.Adapters
}

func (a *adapters) close() {
	for _, adapter := range a.open {
		adapter.Close()
	}
}

func (p *program) loadAdapters(m *model.Model) (*adapters, error) {
	all := &adapters{}
	for _, arg := range p.LoRA {
		path, scale, err := splitScale(arg)
		if err != nil {
			all.close()
			return nil, err
		}
		adapter, err := lora.Load(path, m)
		if err != nil {
			all.close()
			return nil, fmt.Errorf("--lora: %w", err)
		}
		all.open = append(all.open, adapter)
		all.weights = lora.Join(all.weights, adapter.Weights(scale))
	}
	return all, nil
}

// splitScale takes FILE[=SCALE] apart. What follows the last = belongs to the
// name when it is no number.
func splitScale(arg string) (path string, scale float32, err error) {
	i := strings.LastIndexByte(arg, '=')
	if i < 0 {
		return arg, 1, nil
	}
	s, err := strconv.ParseFloat(arg[i+1:], 32)
	switch {
	case err != nil:
		return arg, 1, nil
	case math.IsNaN(s) || math.IsInf(s, 0):
		return "", 0, fmt.Errorf("--lora %s: the scale must be finite", arg)
	}
	return arg[:i], float32(s), nil
}

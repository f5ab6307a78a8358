package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A report compares the model before and after: the loss on held-out text, and a
// sample. Both are of one session: what is measured is what writes the sample.
type report struct {
	p       *program
	m       *model.Model
	adapter *lora.Adapter
	texts   []heldOut
	samples []string // before, after
}

type heldOut struct {
	path   string
	data   *data.Dataset
	losses []float64 // before, after
}

func (p *program) newReport(m *model.Model, a *lora.Adapter, valid *data.Dataset) (*report, error) {
	r := &report{p: p, m: m, adapter: a}
	if valid != nil {
		r.texts = append(r.texts, heldOut{path: p.ValidData, data: valid})
	}
	for _, path := range p.EvalData {
		data, err := p.LoadValid(m.Tokenizer, path)
		if err != nil {
			return nil, fmt.Errorf("--eval-data: %w", err)
		}
		r.texts = append(r.texts, heldOut{path: path, data: data})
	}
	return r, nil
}

// measure evaluates the model as it is now. The adapter of a new run changes
// nothing yet, because B is zero; that of one that continues does: then the
// first measurement leaves the adapter out.
func (r *report) measure(ctx context.Context) error {
	weights := r.adapter.Weights(1)
	if len(r.samples) == 0 {
		weights = nil
	}
	s, err := infer.NewSession(r.m, infer.SessionOptions{Context: r.context(), Adapters: weights, Threads: r.p.Threads})
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range r.texts {
		loss, err := meanLoss(ctx, s, r.texts[i].data)
		if err != nil {
			return err
		}
		r.texts[i].losses = append(r.texts[i].losses, loss)
	}
	text, err := r.generate(ctx, s)
	r.samples = append(r.samples, text)
	return err
}

// generate continues the prompt.
func (r *report) generate(ctx context.Context, s *infer.Session) (string, error) {
	if r.p.Prompt == "" {
		return "", nil
	}
	pick, err := sample.New(sample.Options{Temperature: 0.7, TopK: 40, TopP: 0.9, Seed: r.p.Seed})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	_, err = generate.Text(ctx, &text, r.m, s, pick, r.p.Prompt, generate.Options{Limit: r.p.Predict})
	if errors.Is(err, generate.ErrTruncated) {
		err = nil
	}
	return text.String(), err
}

// context is the number of tokens that a held-out sample, or prompt and text, take: a
// cache for all that the model was trained on can be larger than the memory.
func (r *report) context() int {
	longest := 1
	for _, t := range r.texts {
		longest = max(longest, t.data.Longest())
	}
	if r.p.Prompt == "" {
		return longest
	}
	if r.p.Predict <= 0 {
		return r.m.Context
	}
	prompt := r.m.Tokenizer.Encode(r.p.Prompt, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	return min(r.m.Context, max(longest, len(prompt)+r.p.Predict))
}

func (r *report) print(w io.Writer) error {
	if len(r.texts) > 0 {
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "held-out text\tloss before\tafter\tchange\t")
		for _, t := range r.texts {
			before, after := t.losses[0], t.losses[1]
			fmt.Fprintf(table, "%s\t%.4f\t%.4f\t%+.1f %%\t\n", filepath.Base(t.path), before, after, 100*(after/before-1))
		}
		table.Flush()
	}
	if r.p.Prompt != "" {
		for i, title := range []string{"before", "after"} {
			fmt.Fprintf(w, "\n--- %s ---\n%s%s\n", title, r.p.Prompt, r.samples[i])
		}
	}
	fmt.Fprintf(w, "\nadapter: %s\n", r.p.LoRAOut)
	if r.p.LossCurve != "" {
		fmt.Fprintf(w, "loss curve: %[1]s.svg, %[1]s.png\n", r.p.LossCurve)
	}
	prompt := r.p.Prompt
	if prompt == "" {
		prompt = "Once upon a time"
	}
	base, adapter, prompt := shellQuote(r.p.ModelBase), shellQuote(r.p.LoRAOut), shellQuote(prompt)
	fmt.Fprintf(w, "use it:\n  %s --model %s --lora %s --prompt %s\n", generateProgram(), base, adapter, prompt)
	_, err := fmt.Fprintf(w, "or with llama.cpp:\n  llama-completion -m %s --lora %s -p %s -no-cnv\n", base, adapter, prompt)
	return err
}

// shellQuote makes s one word of a shell's command line.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./+:,@%=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// generateProgram is the command that generates: the program beside this one,
// if it is there.
func generateProgram() string {
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), "generate")
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return "go run github.com/goggml/ggml/examples/generate@latest"
}

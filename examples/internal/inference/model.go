// Package inference is shared by the programs that generate: the flags for a model with its adapters, for
// computing and for sampling.
package inference

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// ModelFlags select a model and its computation, for kong.
type ModelFlags struct {
	runs.Source
	Model string   `name:"model" basic:"" aliases:"model-base,model-name-or-path" short:"m" needed:"" run:"model" placeholder:"FILE" help:"GGUF model." group:"Model"`
	LoRA  []string `name:"lora" aliases:"adapter-path,adapter-name-or-path" basic:"" sep:"none" run:"adapter" placeholder:"FILE[=SCALE]" help:"Adapter: a file or the folder of a run, with its strength (by default 1). Can be given several times." group:"Model"`
	Overrides

	Ctx int `name:"ctx" basic:"" range:"[0,2147483647]" short:"c" default:"0" help:"${ctx_help=Most tokens of prompt and answer; 0 for the model's training context.}" group:"Computing"`
	placement.DeviceFlags
	Threads int `name:"threads" basic:"" range:"[0,512]" short:"t" default:"0" help:"CPU threads; 0 for one per core within the quota of a container." group:"Computing"`
}

// SessionFlags are ModelFlags for models that run in sessions, for kong.
type SessionFlags struct {
	ModelFlags
	CacheType string `name:"cache-type" default:"f16" help:"Type of the KV cache: f32, f16, q8_0, …" group:"Computing"`
	SWAFull   bool   `name:"swa-full" help:"Keep the keys and values of all tokens in layers with a sliding window, too: more memory, but an early change in a conversation does not recompute all of it." group:"Computing"`
	NoRepack  bool   `name:"no-repack" help:"Do not repack the weights: starts sooner and takes less memory, but computes slower." group:"Computing"`
	Stats     bool   `name:"stats" help:"Write the speed to standard error." group:"Computing"`
}

// Files returns the files that the flags read.
func (f *ModelFlags) Files() []cli.File {
	list := []cli.File{{Flag: "--model", Path: f.Model}}
	for _, arg := range f.LoRA {
		path, _ := runs.CutScale(arg)
		list = append(list, cli.File{Flag: "--lora", Path: path})
	}
	return list
}

// A Model is a loaded model with the settings of its sessions.
type Model struct {
	*model.Model
	Options infer.SessionOptions

	Loading time.Duration

	adapters adapters.Set
}

// Load opens the model for a number of concurrent sequences.
func (f *SessionFlags) Load(sequences int) (*Model, error) {
	cacheType, err := ggml.ParseType(f.CacheType)
	if err != nil {
		return nil, fmt.Errorf("--cache-type: %w", err)
	}
	if !cacheType.CanQuantize() {
		return nil, fmt.Errorf("--cache-type %s: a KV cache cannot have this type; use f16, f32 or q8_0", f.CacheType)
	}
	o := infer.SessionOptions{Context: f.Ctx, Sequences: sequences, CacheType: cacheType, FullCache: f.SWAFull}
	m, err := f.open(model.LoadOptions{Repack: !f.NoRepack, Sequences: sequences}, func(to *estimate.Memory, m *Model) error {
		o.Adapters = m.Options.Adapters
		return infer.AddEstimate(to, m.Model, o)
	})
	if err == nil {
		m.Options.CacheType, m.Options.FullCache = o.CacheType, o.FullCache
	}
	return m, err
}

// Load opens the model with its matrices as stored in the file, without repacking for fast sessions. needs
// adds the memory that the program needs on devices.
func (f *ModelFlags) Load(needs func(to *estimate.Memory, m *Model) error) (*Model, error) {
	return f.open(model.LoadOptions{}, needs)
}

func (f *ModelFlags) open(o model.LoadOptions, needs func(to *estimate.Memory, m *Model) error) (*Model, error) {
	began := time.Now()
	args, err := adapters.ParseAll("--lora", f.LoRA)
	if err != nil {
		return nil, err
	}
	devices, err := f.Choose(nil)
	if err != nil {
		return nil, err
	}
	if !devices.IsCPU() {
		sketch, err := f.load(args, model.LoadOptions{}, adapters.Open)
		if err != nil {
			return nil, err
		}
		o.Layout, err = devices.Lay(os.Stderr, sketch.Model, func(to *estimate.Memory) error { return needs(to, sketch) })
		sketch.Close()
		if err != nil {
			return nil, err
		}
	}
	m, err := f.load(args, o, adapters.Load)
	if err != nil {
		return nil, err
	}
	if m.Options.Engine, err = device.New(device.Options{Layout: o.Layout, Threads: f.Threads}); err != nil {
		m.Close()
		return nil, err
	}
	if f.Ctx > m.Config().Context {
		fmt.Fprintf(os.Stderr, "warning: --ctx %d exceeds the %s that the model was trained on: text beyond them gets worse, or is nonsense\n", f.Ctx, cli.Count(m.Config().Context, "position"))
	}
	m.Loading = time.Since(began)
	return m, nil
}

// load opens the model and its adapters.
func (f *ModelFlags) load(args []adapters.Arg, o model.LoadOptions, open func([]adapters.Arg, *model.Model) (adapters.Set, error)) (m *Model, err error) {
	m = &Model{Options: infer.SessionOptions{Context: f.Ctx}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	o.Override = f.Override
	if m.Model, err = model.Load(f.Model, o); err != nil {
		return m, cli.ModelError("--model", f.Model, err)
	}
	if m.Tokenizer == nil {
		return m, fmt.Errorf("%s has no vocabulary, so it cannot read text", f.Model)
	}
	if m.adapters, err = open(args, m.Model); err != nil {
		return m, err
	}
	m.Options.Adapters = m.adapters.Weights()
	return m, nil
}

// Close frees the model, its adapters and its engine.
func (m *Model) Close() {
	m.adapters.Close()
	if m.Model != nil {
		m.Model.Close()
	}
	if m.Options.Engine != nil {
		m.Options.Engine.Close()
	}
}

// ReadPrompts returns the prompts of a flag; - stands for standard input, without a newline at its end.
func ReadPrompts(prompts []string, in io.Reader) ([]string, error) {
	prompts = slices.Clone(prompts)
	for i, prompt := range prompts {
		if prompt != "-" {
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		prompts[i] = strings.TrimSuffix(string(text), "\n")
	}
	return prompts, nil
}

// WarnOfBOS warns of a prompt that starts with the model's BOS token, which is added anyway.
func (m *Model) WarnOfBOS(w io.Writer, prompts ...string) {
	if !m.Tokenizer.AddsBOS() {
		return
	}
	bos := m.Tokenizer.TokenText(m.Tokenizer.BOS())
	if slices.ContainsFunc(prompts, func(prompt string) bool { return strings.HasPrefix(prompt, bos) }) {
		fmt.Fprintf(w, "warning: the prompt begins with %s, which is added in front of every text anyway: it is used once, as in training; llama.cpp would use it twice\n", bos)
	}
}

// Speed formats a number of tokens and their rate.
func Speed(tokens int, d time.Duration) string {
	return fmt.Sprintf("%s in %.3f s, %.1f tokens/s", cli.Count(tokens, "token"), d.Seconds(), float64(tokens)/d.Seconds())
}

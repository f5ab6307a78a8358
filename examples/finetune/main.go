// Finetune trains a LoRA adapter for a GGUF language model on text, and writes
// it as a GGUF file that stock llama.cpp loads.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

type program struct {
	ModelBase string `name:"model-base" short:"m" required:"" placeholder:"FILE" help:"GGUF model to adapt; it is not changed." group:"Adapter"`
	LoRAOut   string `name:"lora-out" required:"" placeholder:"FILE" help:"GGUF adapter to write." group:"Adapter"`
	ranks
	LoRAAlpha float32 `name:"lora-alpha" range:"[0,)" default:"0" help:"Strength: the change of a matrix counts alpha/rank times; 0 stands for twice the rank of each matrix." group:"Adapter"`
	LoRAInit  string  `name:"lora-init" default:"kaiming" enum:"kaiming,normal" help:"Distribution of A at the start, kaiming or normal; B starts at zero." group:"Adapter"`

	training.Flags

	Device   string `name:"device" placeholder:"NAME" help:"What computes and holds the weights, such as CPU, CUDA0 or Vulkan0; by default the CPU. An unknown name lists those of this machine." group:"Optimiser"`
	Products string `name:"products" default:"auto" enum:"auto,f32,bf16,f16" help:"Type of the products with the weights of the model, auto, f32, bf16 or f16: bf16 rounds, and is several times as fast with oneDNN and AMX, or the AVX512-BF16 of AMD; f16 rounds too, and is nearly twice as fast with oneMKL and AVX512-FP16. auto takes what is fastest on the CPU, and f32 on other devices." group:"Optimiser"`

	EvalData []string `name:"eval-data" sep:"none" placeholder:"FILE" help:"More held-out text, such as of another domain: its loss is reported before and after; may be given several times." group:"Report"`
	Prompt   string   `name:"sample-prompt" placeholder:"TEXT" help:"Show what the model makes of this prompt before and after." group:"Report"`
	Predict  int      `name:"sample-predict" range:"[0,)" default:"60" help:"Tokens of the sample." group:"Report"`
}

// ranks are the ranks of the targets, by the names of upstream's finetune.
type ranks struct {
	R       int `name:"lora-r" range:"[0,65536]" default:"8" help:"Rank of the adapter's matrices." group:"Adapter"`
	WQ      int `name:"rank-wq" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Rank for the attention's query matrix, 0 for none; by default --lora-r." group:"Adapter"`
	WK      int `name:"rank-wk" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for the key matrix." group:"Adapter"`
	WV      int `name:"rank-wv" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for the value matrix." group:"Adapter"`
	WO      int `name:"rank-wo" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for the attention's output matrix." group:"Adapter"`
	FFNGate int `name:"rank-ffn_gate" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for the feed-forward gate matrix." group:"Adapter"`
	FFNUp   int `name:"rank-ffn_up" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for the feed-forward up matrix." group:"Adapter"`
	FFNDown int `name:"rank-ffn_down" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for the feed-forward down matrix." group:"Adapter"`
	TokEmbd int `name:"rank-tok-embd" range:"[0,65536]" default:"0" placeholder:"R" help:"Rank for the token embedding; by default it is left out." group:"Adapter"`
	Out     int `name:"rank-out" range:"[0,65536]" default:"0" placeholder:"R" help:"Rank for the matrix that makes logits; by default it is left out." group:"Adapter"`
	AttNorm int `name:"rank-att-norm" default:"0" hidden:""`
	FFNNorm int `name:"rank-ffn-norm" default:"0" hidden:""`
	OutNorm int `name:"rank-out-norm" default:"0" hidden:""`
	WQKV    int `name:"rank-wqkv" range:"[-1,65536]" default:"-1" placeholder:"R" help:"Likewise for queries, keys and values, where a model has them as one matrix." group:"Adapter"`
}

// byTarget gives the rank of each target of a model.
func (r ranks) byTarget(c model.Config) (map[string]int, error) {
	if r.AttNorm > 0 || r.FFNNorm > 0 || r.OutNorm > 0 {
		return nil, errors.New("--rank-att-norm, --rank-ffn-norm, --rank-out-norm: llama.cpp ignores adapters of norms; leave them out")
	}
	targets := lora.Targets(c)
	ranks := map[string]int{"token_embd": r.TokEmbd, "output": r.Out}
	for _, f := range []struct {
		flag, target string
		rank         int
	}{
		{"--rank-wq", "attn_q", r.WQ}, {"--rank-wk", "attn_k", r.WK}, {"--rank-wv", "attn_v", r.WV},
		{"--rank-wqkv", "attn_qkv", r.WQKV}, {"--rank-wo", "attn_output", r.WO},
		{"--rank-ffn_gate", "ffn_gate", r.FFNGate}, {"--rank-ffn_up", "ffn_up", r.FFNUp}, {"--rank-ffn_down", "ffn_down", r.FFNDown},
	} {
		switch has := slices.Contains(targets, f.target); {
		case has && f.rank < 0:
			ranks[f.target] = r.R
		case has:
			ranks[f.target] = f.rank
		case f.rank >= 0:
			return nil, fmt.Errorf("%s: the model has no matrix %s; those of its layers are %s", f.flag, f.target, strings.Join(c.Linears(), ", "))
		}
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(ranks)), func(rank int) bool { return rank != 0 }) {
		return nil, errors.New("all ranks are 0, so there is nothing to train; set --lora-r, or that of a matrix such as --rank-wq")
	}
	return ranks, nil
}

func main() {
	var p program
	cli.Parse("finetune", &p, kong.Description(
		"Train a LoRA adapter for a GGUF language model on text.\n\n"+
			"Example: finetune --model-base base.gguf --train-data text.txt --lora-out adapter.gguf --epochs 1"),
		kong.ShortUsageOnError(), kong.Vars{"adam_alpha": "0.001"})
	cli.Main("finetune", p.run)
}

func (p *program) run(ctx context.Context, out io.Writer) error {
	err := p.CheckOutputs(p.inputs(), []cli.File{p.output()})
	if err != nil {
		return err
	}
	e, err := cli.NewEngine(p.Device, p.Threads)
	if err != nil {
		return err
	}
	defer e.Close()
	m, err := model.Load(p.ModelBase, model.LoadOptions{Device: e.Device()})
	if err != nil {
		return fmt.Errorf("--model-base: %w", err)
	}
	defer m.Close()
	if m.Tokenizer == nil {
		return fmt.Errorf("%s has no vocabulary; text cannot be turned into tokens", p.ModelBase)
	}
	if p.Ctx > m.Context {
		return fmt.Errorf("--ctx %d is beyond the %d positions that %s was trained on", p.Ctx, m.Context, p.ModelBase)
	}
	data, valid, err := p.Load(m.Tokenizer)
	if err != nil {
		return err
	}
	adapter, err := p.newAdapter(m)
	if err != nil {
		return err
	}
	defer adapter.Close()
	options := p.Options()
	options.Engine = e
	if options.ComputeType, err = p.products(e); err != nil {
		return err
	}
	t, err := train.New(m, train.Trainables{Adapters: adapter.Weights(1)}, data, options)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := p.Resume(os.Stderr, t); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "model: %s, %.1f M parameters; adapter: %d parameters; data: %d samples of %d tokens, %d steps\n",
		m.Name, float64(m.NumParameters())/1e6, adapter.NumParameters(), data.NumSamples(), data.Length, t.TotalSteps())
	fmt.Fprintf(os.Stderr, "products: %v by %s\n", options.ComputeType, multiplier(e))

	r, err := p.newReport(m, adapter, valid)
	if err != nil {
		return err
	}
	if err := r.measure(ctx); err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet, and nothing is lost")
	}
	err = p.Run(ctx, os.Stderr, t, valid, t.TotalSteps(), training.Result{
		File: p.output(),
		Save: func(path string) error { return adapter.Save(path, lora.SaveOptions{Name: m.Name + " adapter"}) },
	})
	if err != nil {
		return err
	}
	if err := r.measure(ctx); err != nil {
		return cli.Interrupted(ctx, err, fmt.Sprintf("the adapter is complete in %s, only the report is missing", p.LoRAOut))
	}
	return r.print(out)
}

// multiplier names what computes products.
func multiplier(e *device.Engine) string {
	if !e.HasKernels() {
		return e.Device().Name()
	}
	library, _ := kernels.GEMMLibrary()
	return cmp.Or(library, "ggml itself, which is slow: neither oneDNN nor OpenBLAS was found")
}

// products is the type that --products stands for.
func (p *program) products(e *device.Engine) (ggml.Type, error) {
	if !e.HasKernels() {
		return p.portableProducts(e)
	}
	if _, err := kernels.GEMMLibrary(); err != nil {
		return 0, err
	}
	switch {
	case p.Products == "bf16" && !kernels.HasBF16():
		return 0, errors.New("--products bf16: it needs oneDNN and a processor with AVX512-BF16 or AMX; leave it out")
	case p.Products == "bf16":
		return ggml.BF16, nil
	case p.Products == "f16" && !kernels.HasF16Accumulation():
		return 0, errors.New("--products f16: it needs oneMKL, which GOGGML_BLAS must name, and a processor with AVX512-FP16; leave it out")
	case p.Products == "f16":
		return ggml.F16, nil
	case p.Products == "f32":
		return ggml.F32, nil
	}
	return kernels.FastestType(), nil
}

// portableProducts are those of devices without kernels of this project.
func (p *program) portableProducts(e *device.Engine) (ggml.Type, error) {
	switch p.Products {
	case "bf16":
		return ggml.BF16, nil
	case "f16":
		return 0, fmt.Errorf("--products f16: it is of the CPU, and not of %s; use f32 or bf16", e.Device().Name())
	}
	return ggml.F32, nil
}

func (p *program) output() cli.File { return cli.File{Flag: "--lora-out", Path: p.LoRAOut} }

// inputs are the files that are read, besides those of training.Flags.
func (p *program) inputs() []cli.File {
	list := []cli.File{{Flag: "--model-base", Path: p.ModelBase}}
	for _, path := range p.EvalData {
		list = append(list, cli.File{Flag: "--eval-data", Path: path})
	}
	return list
}

func (p *program) newAdapter(m *model.Model) (*lora.Adapter, error) {
	ranks, err := p.byTarget(m.Config)
	if err != nil {
		return nil, err
	}
	if m.Tied && ranks["token_embd"] > 0 {
		return nil, fmt.Errorf("--rank-tok-embd: %s uses its token embedding as output matrix too, and llama.cpp cannot load an adapter of such a one; leave it out", p.ModelBase)
	}
	if m.Tied && ranks["output"] > 0 {
		return nil, fmt.Errorf("--rank-out: %s has no output matrix of its own, but uses its token embedding; leave it out", p.ModelBase)
	}
	o := lora.Options{Ranks: ranks, Alpha: p.LoRAAlpha, Init: lora.Init(p.LoRAInit), Seed: p.Seed}
	if o.Alpha == 0 {
		o.Factor = 2
	}
	return lora.New(m, o)
}

// Pretrain makes a small language model from text files: it trains a byte-level BPE vocabulary and a llama
// model, and writes a GGUF file that stock llama.cpp runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/training"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

type program struct {
	ModelOut string `name:"model-out" basic:"" placeholder:"FILE" help:"GGUF file to write, after each --save-every and at the end; by default model.gguf in --run-dir." group:"Model"`
	Name     string `name:"name" basic:"" default:"goggml" help:"Name of the model." group:"Model"`
	Vocab    int    `name:"vocab" setting:"*.vocab_size" basic:"" range:"[257,2147483647]" default:"2048" help:"Tokens of the vocabulary." group:"Model"`
	Embd     int    `name:"embd" setting:"*.embedding_length" basic:"" range:"[1,1048576]" default:"256" help:"Width of the residual stream." group:"Model"`
	FF       int    `name:"ff" setting:"*.feed_forward_length" basic:"" range:"[1,1048576]" default:"704" help:"Width of the feed-forward layers." group:"Model"`
	Layers   int    `name:"layers" setting:"*.block_count" basic:"" range:"[1,65536]" default:"4" help:"Number of layers." group:"Model"`
	Heads    int    `name:"heads" setting:"*.attention.head_count" basic:"" range:"[1,1048576]" default:"8" help:"Attention heads of a layer." group:"Model"`
	KVHeads  int    `name:"kv-heads" setting:"*.attention.head_count_kv" basic:"" range:"[1,1048576]" default:"4" help:"Key and value heads of a layer; a divisor of --heads." group:"Model"`
	Context  int    `name:"model-ctx" setting:"*.context_length" basic:"" range:"[1,2147483647]" default:"512" help:"Context length to write into the model; at least --ctx." group:"Model"`
	Tied     bool   `name:"tied" default:"true" negatable:"" help:"Use the token embedding as output matrix too." group:"Model"`
	Type     string `name:"type" basic:"" default:"f32" help:"Type of the matrices in the file: f32, f16, bf16, q8_0, …" group:"Model"`

	training.Flags
	RunDir string `name:"run-dir" basic:"" placeholder:"DIR" help:"Folder of the run: model, checkpoint, metrics, loss curve, flags and command lines, as finetune ls and finetune dashboard show it. The same command continues the run in it." group:"Run"`
	placement.DeviceFlags

	flags []*kong.Flag
}

// defaults suit a model that learns within minutes.
var defaults = training.Defaults{Ctx: "128", Batch: "8", GradAcc: "1", Warmup: "10", AdamAlpha: "0.002"}

func main() {
	var p program
	p.flags = cli.Parse("pretrain", &p, kong.Description(
		"Train a vocabulary and a small llama model from text files.\n\n"+
			"Example: pretrain --train-data prose.txt --model-out base.gguf --epochs 1"),
		kong.ShortUsageOnError(), defaults.Vars()).Flags()
	cli.Main("pretrain", func(ctx context.Context, _ io.Writer) error { return p.run(ctx) })
}

func (p *program) run(ctx context.Context) error {
	ctx, err := p.Join(ctx, &p.ModelOut)
	if err == nil {
		err = p.train(ctx)
	}
	return p.Leave(err)
}

func (p *program) train(ctx context.Context) error {
	if err := p.checkShape(); err != nil {
		return err
	}
	typ, err := p.matrixType()
	if err != nil {
		return err
	}
	folder, err := p.OpenRunFolder(p.RunDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Place(&p.Flags, training.Output{Flag: "model-out", What: "model", Path: &p.ModelOut, Name: "model.gguf"}); err != nil {
		return err
	}
	switch {
	case p.ModelOut == "" && p.Group().Writes():
		return errors.New("missing flags: --model-out=FILE, or --run-dir=DIR to write into the folder of the run")
	case len(p.TrainData) == 0:
		return errors.New("missing flags: --train-data=FILE")
	}
	devices, err := p.Begin(ctx, &p.DeviceFlags)
	if err != nil {
		return err
	}
	locks, err := p.TakeOutputs(nil, p.result())
	if err != nil {
		return err
	}
	defer locks.Close()
	if err := folder.Check(&p.Flags, nil); err != nil {
		return err
	}
	vocabulary, err := p.vocabulary()
	if err != nil {
		return err
	}
	sets, err := p.Load(ctx, training.Source{Tokenizer: vocabulary})
	if err != nil {
		return cli.Interrupted(ctx, err, "nothing was trained yet, and nothing is lost")
	}
	defer sets.Close()
	return p.trainNew(ctx, devices, folder, vocabulary, sets, typ)
}

// trainNew trains a new model on the data, and writes it with matrices of a type.
func (p *program) trainNew(ctx context.Context, devices *placement.Choice, folder *training.RunFolder, vocabulary *tokenizer.Tokenizer, sets *training.Sets, typ ggml.Type) error {
	data, config := sets.Train, p.config(vocabulary)
	m, err := model.New(config, vocabulary, p.RandomSeed())
	if err != nil {
		return err
	}
	defer func() { m.Close() }()
	options, err := p.Options(data.Len())
	if err != nil {
		return err
	}
	if m, err = p.spread(devices, m, sets, options); err != nil {
		return err
	}
	t, err := p.NewTrainer(m, weightsOf(m), data, options)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := p.Resume(ctx, p.Log(), t, p.flags); err != nil {
		return err
	}
	if err := t.CheckGroup(ctx); err != nil {
		return err
	}
	err = folder.Describe(training.Description{
		Flags: p.flags, Resolved: p.Resolved(data.Len(), t.TotalSteps()), Steps: t.TotalSteps(), Result: p.result(), Metrics: p.Metrics,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Log(), "model: %.1f M parameters, %d tokens of vocabulary; data: %s; %s\n",
		float64(config.NumParameters())/1e6, config.Vocab, training.DescribeRows(data), cli.Count(t.TotalSteps(), "step"))
	err = p.Run(ctx, p.Log(), t, sets.Valid, training.Result{
		SavedFile: p.result(),
		Write:     func(path string) error { return m.Save(path, model.SaveOptions{Type: matrices(m, typ)}) },
		Ended:     folder.End,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Log(), "wrote %s\n", p.ModelOut)
	return nil
}

// weightsOf returns the trained weights.
func weightsOf(m *model.Model) train.Trainables {
	return train.Trainables{ModelWeights: slices.Collect(m.Weights())}
}

// spread makes the model again in the layout over devices that the run needs, unless it is the CPU alone.
func (p *program) spread(devices *placement.Choice, m *model.Model, sets *training.Sets, o train.Options) (*model.Model, error) {
	l, err := p.Lay(p.Log(), devices, m, weightsOf(m), sets, o)
	if err != nil || l.IsCPU() {
		return m, err
	}
	again, err := model.NewIn(l, m.Architecture(), m.Tokenizer, p.RandomSeed())
	if err != nil {
		return m, err
	}
	m.Close()
	return again, nil
}

func (p *program) result() run.SavedFile { return p.Result(p.Named("model-out"), p.ModelOut) }

// checkShape reports hyper-parameters that contradict each other, before anything is read.
func (p *program) checkShape() error {
	switch {
	case p.Embd%p.Heads != 0:
		return fmt.Errorf("--embd %d is not a multiple of --heads %d", p.Embd, p.Heads)
	case p.Heads%p.KVHeads != 0:
		return fmt.Errorf("--kv-heads %d does not divide --heads %d", p.KVHeads, p.Heads)
	case p.Context < p.Ctx:
		return fmt.Errorf("--model-ctx %d must be at least --ctx %d", p.Context, p.Ctx)
	}
	return nil
}

// matrixType returns --type, after checking that rows of the matrices can have it: the end of the run is too
// late to find out.
func (p *program) matrixType() (ggml.Type, error) {
	typ, err := ggml.ParseType(p.Type)
	if err != nil {
		return typ, fmt.Errorf("--type: %w", err)
	}
	for _, width := range []int{p.Embd, p.FF} {
		row := make([]float32, width)
		if err := ggml.Quantize(make([]byte, typ.RowSize(int64(width))), typ, row, ggml.QuantizeOptions{}); err != nil {
			return typ, fmt.Errorf("--type %v with rows of %d elements: %w", typ, width, err)
		}
	}
	return typ, nil
}

// vocabulary trains the vocabulary on the training data.
func (p *program) vocabulary() (*tokenizer.Tokenizer, error) {
	var failed error
	texts := func(yield func(string) bool) {
		for _, path := range p.TrainData {
			text, err := cli.ReadText(path)
			if err != nil {
				failed = fmt.Errorf("--train-data: %w", err)
				return
			}
			if !yield(text) {
				return
			}
		}
	}
	c, err := tokenizer.TrainBPE(texts, tokenizer.TrainOptions{VocabSize: p.Vocab, Pre: "gpt-2"})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("--train-data %s: %w", strings.Join(p.TrainData, ", "), err)
	}
	return tokenizer.New(c)
}

func (p *program) config(t *tokenizer.Tokenizer) arch.Config {
	head := p.Embd / p.Heads
	return arch.Config{
		Arch: "llama", Name: p.Name, Vocab: t.NumTokens(), Context: p.Context, Embd: p.Embd, FF: p.FF,
		Layers: p.Layers, Heads: p.Heads, KVHeads: p.KVHeads, HeadSize: head, RMSEps: 1e-5, Tied: p.Tied,
		RoPE: ggml.RoPE{
			Dims: head, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: p.Context,
			AttnFactor: 1, BetaFast: 32, BetaSlow: 1,
		},
	}
}

// matrices returns a function that sets the type of matrices; norms stay F32.
func matrices(m *model.Model, typ ggml.Type) func(string, ggml.Type) ggml.Type {
	return func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 {
			return old
		}
		return typ
	}
}

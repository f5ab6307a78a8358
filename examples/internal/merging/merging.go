// Package merging is the command that merges adapters into a model.
package merging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/ollama"
	"github.com/goggml/ggml/llm/quantize"
)

// Description describes the command.
const Description = `Merge LoRA adapters into a GGUF model.

Every adapter adds scale · alpha/rank · B·A to the matrices it was trained on. Both --lora and --lora-scaled may be
given several times. The sum is made in F32; matrices keep the type they have in the base unless --type says
otherwise, and matrices that no adapter changes are copied as they are.

--type takes the types of llama-quantize and distributes them as it does: q4_k_m, for example, gives six bits to the
output and the matrices that suffer most. --pure gives all matrices the same type.`

// Flags are the flags of the command, for kong.
type Flags struct {
	runs.Source
	Base         string   `name:"model-base" aliases:"model,model-name-or-path" short:"m" needed:"" run:"model" placeholder:"FILE" help:"Model to merge into (GGUF)."`
	LoRA         []string `name:"lora" aliases:"adapter-path,adapter-name-or-path" sep:"none" run:"adapter" placeholder:"FILE[=SCALE]" help:"Adapter to merge: a GGUF file, a folder of PEFT, or the folder of a run; and its strength, by default 1. Repeatable."`
	Scaled       []string `name:"lora-scaled" sep:"none" placeholder:"FILE=SCALE" help:"Adapter to merge with a strength other than 1; repeatable."`
	Out          string   `name:"model-out" aliases:"gguf-path" short:"o" required:"" placeholder:"FILE" help:"Merged model to write."`
	Threads      int      `name:"threads" range:"[0,512]" short:"t" placeholder:"N" help:"Threads to compute on; by default one per core within the quota of a container."`
	Type         string   `name:"type" placeholder:"TYPE" help:"Types of the matrices, as llama-quantize names and chooses them: iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq2_m, iq3_xxs, iq3_xs, iq3_s, iq3_m, q2_k_s, q2_k, q3_k_s, q3_k_m, q3_k_l, iq4_xs, iq4_nl, q4_0, q4_1, q4_k_s, q4_k_m, q5_0, q5_1, q5_k_s, q5_k_m, q6_k, q8_0, f16, bf16, f32, tq1_0, tq2_0, q1_0, q2_0, mxfp4_moe, mxfp4, nvfp4, f8_e4m3; default: as in the base."`
	Pure         bool     `name:"pure" help:"Use the main type of --type for all matrices."`
	IMatrix      string   `name:"imatrix" placeholder:"FILE" help:"Importance matrix of llama-imatrix: the columns that --type must keep precise. Types of less than three bits need one."`
	Modelfile    string   `name:"modelfile" placeholder:"FILE" help:"Write a Modelfile, too, by which ollama runs the merged model with the chat template of training."`
	ChatTemplate string   `name:"chat-template" run:"" placeholder:"FILE" help:"Chat template of --modelfile (Jinja), by default the one of the model."`
	TemplateVar  []string `name:"template-var" run:"" sep:"none" placeholder:"KEY=VALUE" help:"Variable of that template, as JSON or as text. Repeatable."`
	Quiet        bool     `name:"quiet" short:"q" help:"Report errors only."`
}

// Run merges adapters into the model, and reports to out.
func (f *Flags) Run(ctx context.Context, out io.Writer) error {
	return cli.Interrupted(ctx, f.run(ctx, out), "nothing was written")
}

func (f *Flags) run(ctx context.Context, out io.Writer) error {
	out = cli.Aside(out, f.Out, f.Modelfile)
	if f.Quiet {
		out = io.Discard
	}
	args, err := f.adapters()
	if err != nil {
		return err
	}
	merge, err := f.mergeOptions()
	if err != nil {
		return err
	}
	inputs := []cli.File{{Flag: "--model-base", Path: f.Base}, {Flag: "--imatrix", Path: f.IMatrix}, {Flag: "--chat-template", Path: f.ChatTemplate}}
	for _, arg := range args {
		inputs = append(inputs, cli.File{Flag: arg.Flag, Path: arg.Path})
	}
	if err := cli.CheckOutputs(inputs, []cli.File{{Flag: "--model-out", Path: f.Out}, {Flag: "--modelfile", Path: f.Modelfile}}); err != nil {
		return err
	}
	m, err := model.Load(f.Base, model.LoadOptions{})
	if err != nil {
		return cli.ModelError("--model-base", f.Base, err)
	}
	defer m.Close()
	modelfile, err := f.modelfile(m)
	if err != nil {
		return err
	}
	set, err := adapters.Load(args, m)
	if err != nil {
		return err
	}
	defer set.Close()
	for i, s := range set {
		fmt.Fprintf(out, "%s: rank %d, alpha %g, %s, scale %g\n",
			filepath.Base(args[i].Path), s.Adapter.Rank(), s.Adapter.Alpha, cli.Count(len(s.Adapter.Pairs()), "matrix"), s.Scale)
	}
	reportFallbacks(out, m, merge)
	started := time.Now()
	closeBar := showProgress(&merge, f.Quiet)
	err = lora.MergeTo(ctx, f.Out, m, set, merge)
	closeBar()
	if err != nil {
		return err
	}
	if f.Modelfile != "" {
		if err := filelink.Replace(f.Modelfile, modelfile); err != nil {
			return fmt.Errorf("the merged model in %s is complete, but not its Modelfile: --modelfile: %w", f.Out, err)
		}
	}
	if run := f.Opened(); run != nil && run.Overrides() != "" {
		fmt.Fprintf(os.Stderr, "the run was trained with %[1]s, which the merged model does not record: give %[1]s to the program that runs it\n", run.Overrides())
	}
	return report(out, f.Out, time.Since(started))
}

// modelfile returns the text of --modelfile, or nil if the flag is not set.
func (f *Flags) modelfile(m *model.Model) ([]byte, error) {
	if f.Modelfile == "" {
		return nil, nil
	}
	if m.Tokenizer == nil {
		return nil, fmt.Errorf("--modelfile: %s has no vocabulary, so ollama cannot run it", f.Base)
	}
	file := ollama.Modelfile{Model: f.Out, Tokenizer: m.Tokenizer}
	folder, err1 := filepath.Abs(filepath.Dir(f.Modelfile))
	out, err2 := filepath.Abs(f.Out)
	if relative, err := filepath.Rel(folder, out); errors.Join(err1, err2, err) == nil {
		file.Model = "./" + relative
	}
	var err error
	if f.ChatTemplate != "" {
		if file.Template, err = cli.ReadTemplate("--chat-template", f.ChatTemplate); err != nil {
			return nil, err
		}
	}
	if file.Variables, err = cli.Variables("--template-var", f.TemplateVar); err != nil {
		return nil, err
	}
	text, err := file.Text()
	if err != nil {
		return nil, fmt.Errorf("--modelfile: %w", err)
	}
	return []byte(text), nil
}

// adapters parses the flags that name adapters.
func (f *Flags) adapters() ([]adapters.Arg, error) {
	list, err := adapters.ParseAll("--lora", f.LoRA)
	if err != nil {
		return nil, err
	}
	for _, arg := range f.Scaled {
		path, number := runs.CutScale(arg)
		if path == arg {
			return nil, fmt.Errorf("--lora-scaled %s: give it as FILE=SCALE, for example %s=0.5", arg, arg)
		}
		scale, err := strconv.ParseFloat(number, 32)
		if err != nil || scale-scale != 0 {
			return nil, fmt.Errorf("--lora-scaled %s: the scale %q is not a finite number", arg, number)
		}
		list = append(list, adapters.Arg{Flag: "--lora-scaled", Path: path, Scale: float32(scale)})
	}
	if len(list) == 0 && f.Type == "" {
		return nil, errors.New("there is nothing to do: give an adapter with --lora FILE or --lora-scaled FILE=SCALE, or another --type")
	}
	return list, nil
}

// mergeOptions parses the other flags.
func (f *Flags) mergeOptions() (lora.MergeOptions, error) {
	merge := lora.MergeOptions{Threads: f.Threads}
	if f.Type == "" {
		switch {
		case f.Pure:
			return merge, errors.New("--pure changes how --type works; give a --type")
		case f.IMatrix != "":
			return merge, errors.New("--imatrix says where --type must be precise; give a --type")
		}
		return merge, nil
	}
	mixture, isMixture := quantize.FindMixture(f.Type)
	t, err := ggml.ParseType(f.Type) // q4_k is a type, and also short for a mixture
	switch {
	case err != nil && isMixture:
		t = mixture.Type
	case err != nil || !t.CanQuantize():
		return merge, fmt.Errorf("--type %s: use one of %s", f.Type, TypeNames())
	}
	needs := t.NeedsImportance()
	if f.Pure || !isMixture {
		merge.Type = &t
	} else {
		merge.Mixture, needs = &mixture, mixture.NeedsImportance()
	}
	if needs && f.IMatrix == "" {
		return merge, fmt.Errorf("--type %s: this type needs an importance matrix, without which the model would write garbage; make one with llama-imatrix, and give it with --imatrix FILE", f.Type)
	}
	if f.IMatrix != "" {
		if merge.Importance, err = quantize.ReadImportance(f.IMatrix); err != nil {
			return merge, fmt.Errorf("--imatrix: %w", err)
		}
	}
	return merge, nil
}

// TypeNames lists the values of --type: the mixtures of llama-quantize, and types for which it has no mixture.
func TypeNames() string {
	var names []string
	for _, x := range quantize.Mixtures() {
		names = append(names, x.Name)
	}
	for _, t := range ggml.Types() {
		name := strings.ToLower(t.String())
		if _, isMixture := quantize.FindMixture(name); t.CanQuantize() && !isMixture {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// reportFallbacks reports the matrices that cannot have the mixture's type for them.
func reportFallbacks(out io.Writer, m *model.Model, o lora.MergeOptions) {
	if o.Mixture == nil {
		return
	}
	count, first := 0, ""
	for t := range m.Weights() {
		if t.NumDims() < 2 {
			continue
		}
		if typ, isFallback := o.Mixture.TypeOf(m.Architecture(), m.Architecture().Weight(t.Name()), o.Importance); isFallback {
			if count++; count == 1 {
				first = fmt.Sprintf("%s becomes %v", t.Name(), typ)
			}
		}
	}
	if count > 0 {
		fmt.Fprintf(out, "%s: its blocks do not divide the rows of %s, so another type is used there, as in llama-quantize (for example %s)\n",
			o.Mixture.Name, cli.Count(count, "matrix"), first)
	}
}

func report(out io.Writer, path string, took time.Duration) error {
	size := ""
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = fmt.Sprintf(", %.1f MB", float64(info.Size())/1e6)
	}
	_, err := fmt.Fprintf(out, "wrote %s%s in %.1f s%s\n", path, size, took.Seconds(), types(path))
	return err
}

// types counts the types of the matrices of a file.
func types(path string) string {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return "" // not a regular file
	}
	defer g.Close()
	counts := map[ggml.Type]int{}
	for t := range g.Tensors() {
		if len(t.Shape) > 1 {
			counts[t.Type]++
		}
	}
	order := slices.SortedFunc(maps.Keys(counts), func(a, b ggml.Type) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var list []string
	for _, t := range order {
		list = append(list, fmt.Sprintf("%d of %v", counts[t], t))
	}
	return "; matrices: " + strings.Join(list, ", ")
}

// showProgress shows a line of progress while the merge writes.
func showProgress(merge *lora.MergeOptions, quiet bool) (end func()) {
	if quiet {
		return func() {}
	}
	line := progress.Later{W: os.Stderr, Options: progress.Options{Unit: "B", Brief: true}}
	merge.Progress = func(done, total int64) { line.Update(done, total, "merging") }
	return func() { line.Close() }
}

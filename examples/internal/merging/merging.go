// Package merging is the command that merges adapters into a model.
package merging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// Description is what the command does.
const Description = `Merge LoRA adapters into a GGUF model.

Every adapter adds scale · alpha/rank · B·A to the matrices it was trained on. Both --lora and --lora-scaled may be
given several times. The sum is made in F32; matrices keep the type they have in the base unless --type says
otherwise, and what no adapter changes is copied as it is.`

// Flags are the command, for kong.
type Flags struct {
	runs.Source
	Base    string   `name:"model-base" aliases:"model,model-name-or-path" short:"m" needed:"" run:"model" placeholder:"FILE" help:"Model to merge into (GGUF)."`
	LoRA    []string `name:"lora" aliases:"adapter-path,adapter-name-or-path" sep:"none" run:"adapter" placeholder:"FILE[=SCALE]" help:"Adapter to merge: a GGUF file, a folder of PEFT, or that of a run; and how strongly, 1 when left out. Repeatable."`
	Scaled  []string `name:"lora-scaled" sep:"none" placeholder:"FILE=SCALE" help:"Adapter to merge at another strength than 1; repeatable."`
	Out     string   `name:"model-out" aliases:"gguf-path" short:"o" required:"" placeholder:"FILE" help:"Merged model to write."`
	Threads int      `name:"threads" range:"[0,512]" short:"t" placeholder:"N" help:"Threads to compute on; default: the machine's cores."`
	Type    string   `name:"type" placeholder:"TYPE" help:"Type of the matrices (f32, f16, bf16, q8_0, q4_0, q4_k, …); default: as in the base."`
	Quiet   bool     `name:"quiet" short:"q" help:"Report errors only."`
}

// Run merges, and reports to out.
func (f *Flags) Run(ctx context.Context, out io.Writer) error {
	return cli.Interrupted(ctx, f.run(ctx, out), "nothing was written")
}

func (f *Flags) run(ctx context.Context, out io.Writer) error {
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
	m, err := model.Load(f.Base, model.LoadOptions{})
	if err != nil {
		return cli.ModelError("--model-base", f.Base, err)
	}
	defer m.Close()
	set, err := adapters.Load(args, m)
	if err != nil {
		return err
	}
	defer set.Close()
	for i, s := range set {
		fmt.Fprintf(out, "%s: rank %d, alpha %g, %s, scale %g\n",
			filepath.Base(args[i].Path), s.Adapter.Rank(), s.Adapter.Alpha, cli.Count(len(s.Adapter.Pairs()), "matrix"), s.Scale)
	}
	started := time.Now()
	closeBar := showProgress(&merge, f.Quiet)
	err = lora.MergeTo(ctx, f.Out, m, set, merge)
	closeBar()
	if err != nil {
		return err
	}
	if run := f.Opened(); run != nil && run.Overrides() != "" {
		fmt.Fprintf(os.Stderr, "the run was made with %[1]s, which the merged model does not know: give %[1]s to what runs it\n", run.Overrides())
	}
	return report(out, f.Out, time.Since(started))
}

// adapters parses the flags.
func (f *Flags) adapters() ([]adapters.Arg, error) {
	list, err := adapters.ParseAll("--lora", f.LoRA)
	if err != nil {
		return nil, err
	}
	for _, arg := range f.Scaled {
		at := strings.LastIndexByte(arg, '=')
		if at < 1 {
			return nil, fmt.Errorf("--lora-scaled %s: give it as FILE=SCALE, for example %s=0.5", arg, arg)
		}
		scale, err := strconv.ParseFloat(arg[at+1:], 32)
		if err != nil || scale-scale != 0 {
			return nil, fmt.Errorf("--lora-scaled %s: the scale %q is no finite number", arg, arg[at+1:])
		}
		list = append(list, adapters.Arg{Flag: "--lora-scaled", Path: arg[:at], Scale: float32(scale)})
	}
	if len(list) == 0 && f.Type == "" {
		return nil, errors.New("there is nothing to do: give an adapter with --lora FILE or --lora-scaled FILE=SCALE, or another --type")
	}
	return list, nil
}

// mergeOptions parses the rest of the flags.
func (f *Flags) mergeOptions() (lora.MergeOptions, error) {
	merge := lora.MergeOptions{Threads: f.Threads}
	if f.Type == "" {
		return merge, nil
	}
	t, err := ggml.ParseType(f.Type)
	if err != nil || !t.CanQuantize() || t.NeedsImportance() {
		return merge, fmt.Errorf("--type %s: use one of %s", f.Type, strings.Join(typeNames(), ", "))
	}
	merge.Type = &t
	return merge, nil
}

// typeNames lists the types that matrices can be written in.
func typeNames() []string {
	var names []string
	for _, t := range ggml.Types() {
		if t.CanQuantize() && !t.NeedsImportance() {
			names = append(names, strings.ToLower(t.String()))
		}
	}
	return names
}

func report(out io.Writer, path string, took time.Duration) error {
	size := ""
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = fmt.Sprintf(", %.1f MB", float64(info.Size())/1e6)
	}
	_, err := fmt.Fprintf(out, "wrote %s%s in %.1f s\n", path, size, took.Seconds())
	return err
}

// showProgress makes the merge report how much it has written.
func showProgress(merge *lora.MergeOptions, quiet bool) (end func()) {
	if quiet {
		return func() {}
	}
	var line *progress.Line
	merge.Progress = func(done, total int64) {
		if line == nil {
			line = progress.New(os.Stderr, progress.Options{Total: total, Unit: "B", Brief: true})
		}
		line.Update(done, "merging")
	}
	return func() {
		if line != nil {
			line.Close()
		}
	}
}

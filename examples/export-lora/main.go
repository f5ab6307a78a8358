// Command export-lora merges LoRA adapters into a model: base + adapters →
// a GGUF file that needs no adapter, with the base's types or another.
//
//	export-lora -m base.gguf --lora adapter.gguf -o merged.gguf
//	export-lora -m base.gguf --lora a.gguf --lora-scaled b.gguf=0.5 --type q8_0 -o merged.gguf
package main

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

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/progress"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

const description = `Merge LoRA adapters into a GGUF model.

Every adapter adds scale · alpha/rank · B·A to the matrices it was trained on. Both --lora and --lora-scaled may be
given several times. The sum is made in F32; matrices keep the type they have in the base unless --type says
otherwise, and what no adapter changes is copied as it is.`

type options struct {
	Base    string   `name:"model-base" short:"m" required:"" placeholder:"FILE" help:"Model to merge into (GGUF)."`
	LoRA    []string `name:"lora" sep:"none" placeholder:"FILE" help:"Adapter to merge (GGUF); repeatable."`
	Scaled  []string `name:"lora-scaled" sep:"none" placeholder:"FILE=SCALE" help:"Adapter to merge at another strength than 1; repeatable."`
	Out     string   `name:"model-out" short:"o" required:"" placeholder:"FILE" help:"Merged model to write."`
	Threads int      `name:"threads" range:"[0,512]" short:"t" placeholder:"N" help:"Threads to compute on; default: the machine's cores."`
	Type    string   `name:"type" placeholder:"TYPE" help:"Type of the matrices (f32, f16, bf16, q8_0, q4_0, q4_k, …); default: as in the base."`
	Quiet   bool     `name:"quiet" short:"q" help:"Report errors only."`
}

// An adapterArg is an adapter as the command line gives it.
type adapterArg struct {
	path  string
	scale float32
}

// adapters parses the flags.
func (o *options) adapters() ([]adapterArg, error) {
	var list []adapterArg
	for _, path := range o.LoRA {
		list = append(list, adapterArg{path, 1})
	}
	for _, arg := range o.Scaled {
		at := strings.LastIndexByte(arg, '=')
		if at < 1 {
			return nil, fmt.Errorf("--lora-scaled %s: give it as FILE=SCALE, for example %s=0.5", arg, arg)
		}
		scale, err := strconv.ParseFloat(arg[at+1:], 32)
		if err != nil || scale-scale != 0 {
			return nil, fmt.Errorf("--lora-scaled %s: the scale %q is no finite number", arg, arg[at+1:])
		}
		list = append(list, adapterArg{arg[:at], float32(scale)})
	}
	if len(list) == 0 && o.Type == "" {
		return nil, errors.New("there is nothing to do: give an adapter with --lora FILE or --lora-scaled FILE=SCALE, or another --type")
	}
	return list, nil
}

// mergeOptions parses the rest of the flags.
func (o *options) mergeOptions() (lora.MergeOptions, error) {
	merge := lora.MergeOptions{Threads: o.Threads}
	if o.Type == "" {
		return merge, nil
	}
	t, err := ggml.ParseType(o.Type)
	if err != nil || !t.CanQuantize() || t.NeedsImportance() {
		return merge, fmt.Errorf("--type %s: use one of %s", o.Type, strings.Join(typeNames(), ", "))
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

func main() {
	var o options
	cli.Parse("export-lora", &o, kong.Description(description), kong.UsageOnError())
	cli.Main("export-lora", func(ctx context.Context, out io.Writer) error {
		return cli.Interrupted(ctx, run(ctx, o, out), "nothing was written")
	})
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.Quiet {
		out = io.Discard
	}
	args, err := o.adapters()
	if err != nil {
		return err
	}
	merge, err := o.mergeOptions()
	if err != nil {
		return err
	}
	m, err := model.Load(o.Base, model.LoadOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	adapters, err := loadAdapters(args, m, out)
	defer closeAdapters(adapters)
	if err != nil {
		return err
	}
	started := time.Now()
	closeBar := showProgress(&merge, o.Quiet)
	err = lora.MergeTo(ctx, o.Out, m, adapters, merge)
	closeBar()
	if err != nil {
		return err
	}
	return report(out, o.Out, time.Since(started))
}

func report(out io.Writer, path string, took time.Duration) error {
	size := ""
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = fmt.Sprintf(", %.1f MB", float64(info.Size())/1e6)
	}
	_, err := fmt.Fprintf(out, "wrote %s%s in %.1f s\n", path, size, took.Seconds())
	return err
}

// loadAdapters loads all; what it loaded is to be closed, after an error too.
func loadAdapters(args []adapterArg, m *model.Model, out io.Writer) ([]lora.Scaled, error) {
	var list []lora.Scaled
	for _, arg := range args {
		a, err := lora.Load(arg.path, m)
		if err != nil {
			return list, err
		}
		list = append(list, lora.Scaled{Adapter: a, Scale: arg.scale})
		fmt.Fprintf(out, "%s: rank %d, alpha %g, %d matrices, scale %g\n", filepath.Base(arg.path), a.Rank(), a.Alpha, len(a.Pairs()), arg.scale)
	}
	return list, nil
}

func closeAdapters(list []lora.Scaled) {
	for _, s := range list {
		s.Adapter.Close()
	}
}

// showProgress makes the merge report how much it has written.
func showProgress(merge *lora.MergeOptions, quiet bool) (end func()) {
	if quiet {
		return func() {}
	}
	var line *progress.Line
	merge.Progress = func(done, total int64) {
		if line == nil {
			line = progress.New(os.Stderr, total, "B")
		}
		line.Update(done, "merging")
	}
	return func() {
		if line != nil {
			line.Close()
		}
	}
}

package runs

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/run"
)

// A Source is the run that provides the flags which the command line omits, for kong: all flags with the tag
// run. The tags "model" and "adapter" stand for the run's model and adapter; any other flag takes the run's
// value of the same name. Without a run, flags with the tag needed are required.
type Source struct {
	RunFolder string `arg:"" optional:"" name:"run" help:"Folder of a run, as --run-dir of finetune train makes it: gives model, best adapter and chat template, unless flags do. A GGUF model in its place stands for the flag that names a model."`
	RunDir    string `name:"run-dir" placeholder:"DIR" help:"The folder of a run, as a flag." group:"Model"`

	run *Run
}

// Opened returns the run, or nil.
func (s *Source) Opened() *Run { return s.run }

// BeforeResolve opens the run. Kong calls it.
func (s *Source) BeforeResolve(ctx *kong.Context) error {
	var folders []string
	model := ""
	for _, p := range ctx.Path {
		switch {
		case p.Positional != nil && p.Positional.Name == "run" && cli.IsFile(ctx.Value(p).String()):
			model = ctx.Value(p).String()
		case p.Positional != nil && p.Positional.Name == "run" || p.Flag != nil && p.Flag.Name == "run-dir":
			folders = append(folders, ctx.Value(p).String())
		}
	}
	if len(folders) == 0 {
		folders = runOfConfig(ctx)
	}
	switch {
	case len(folders) == 0:
		folders = runsOfAdapters(ctx)
	case len(folders) > 1:
		return fmt.Errorf("%s and %s are two runs; name one, and give another run's adapter with --lora", folders[0], folders[1])
	}
	opened, err := openAll(ctx, model, folders)
	if len(opened) > 0 {
		s.run = opened[len(opened)-1]
	}
	return err
}

// openAll opens runs, and takes from them values for flags that are not given. The runs must agree on the values. A model
// that is not "" is the value of the flag for it.
func openAll(ctx *kong.Context, model string, folders []string) ([]*Run, error) {
	given, named := map[string]bool{}, resolver{}
	for _, p := range ctx.Path {
		if p.Flag == nil {
			continue
		}
		if model != "" && p.Flag.Tag.Get("run") == "model" {
			return nil, fmt.Errorf("%s and %s are two models; name one", model, ctx.Value(p))
		}
		given[p.Flag.Name] = true
	}
	for _, f := range ctx.Flags() {
		if model != "" && f.Tag.Get("run") == "model" {
			given[f.Name], named[f] = true, []string{model}
		}
	}
	all := resolver{}
	var list []*Run
	for _, folder := range folders {
		opened, err := Open(folder)
		if err != nil {
			return nil, err
		}
		values, err := opened.valuesOf(ctx.Flags(), given)
		if err != nil {
			return nil, err
		}
		for _, f := range ctx.Flags() {
			if len(list) > 0 && !slices.Equal(all[f], values[f]) {
				return nil, fmt.Errorf("the runs in %s and %s differ in --%s; choose a value with the flag", list[0].Path, folder, f.Name)
			}
		}
		all, list = values, append(list, opened)
	}
	ctx.AddResolver(all)
	ctx.AddResolver(named)
	return list, nil
}

// Validate requires the flags with the tag needed if there is no run. Kong calls it, and would not report other
// missing flags.
func (s *Source) Validate(ctx *kong.Context) error {
	var needed, required []string
	for _, f := range ctx.Flags() {
		switch {
		case s.run == nil && f.Tag.Has("needed") && f.Target.IsZero():
			needed = append(needed, f.Summary())
		case f.Required && !f.Set:
			required = append(required, f.Summary())
		}
	}
	if len(needed) == 0 {
		return nil
	}
	needed[len(needed)-1] += " (or the folder of a run)"
	return fmt.Errorf("missing flags: %s", strings.Join(append(needed, required...), ", "))
}

// runOfConfig returns the run's folder that a configuration file names; the folder exists once the run has
// started.
func runOfConfig(ctx *kong.Context) []string {
	for _, p := range ctx.Path {
		if p.Flag == nil {
			continue
		}
		file, ok := ctx.FlagValue(p.Flag).(cli.ConfigFile)
		if !ok {
			continue
		}
		settings, err := cli.ReadSettings(string(file))
		if err != nil {
			return nil // the flag itself reports it
		}
		if of := settings.Values("run-dir"); len(of) == 1 && run.Is(settings.Path(of[0])) {
			return []string{settings.Path(of[0])}
		}
	}
	return nil
}

// runsOfAdapters returns the runs whose adapters the command line names.
func runsOfAdapters(ctx *kong.Context) (folders []string) {
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Flag.Tag.Get("run") != "adapter" {
			continue
		}
		list, ok := ctx.FlagValue(p.Flag).([]string)
		if !ok {
			list = []string{fmt.Sprint(ctx.FlagValue(p.Flag))}
		}
		for _, path := range list {
			path, _ = CutScale(path)
			if run.Is(path) && !slices.Contains(folders, path) {
				folders = append(folders, path)
			}
		}
	}
	return folders
}

// CutScale splits FILE[=SCALE] at the last =. If a file of the whole name exists, the whole argument is FILE.
func CutScale(arg string) (path, scale string) {
	at := strings.LastIndexByte(arg, '=')
	if _, err := os.Lstat(arg); at < 1 || err == nil {
		return arg, ""
	}
	return arg[:at], arg[at+1:]
}

// A resolver provides values of flags.
type resolver map[*kong.Flag][]string

// Validate does nothing. Kong calls it.
func (resolver) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag, or nil.
func (r resolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	values := r[flag]
	switch {
	case len(values) == 0:
		return nil, nil
	case flag.IsSlice():
		list := make([]any, len(values))
		for i, value := range values {
			list[i] = value
		}
		return list, nil
	}
	return values[0], nil
}

// valuesOf returns the values that flags take from the run.
func (r *Run) valuesOf(flags []*kong.Flag, given map[string]bool) (resolver, error) {
	values := resolver{}
	for _, f := range flags {
		if !f.Tag.Has("run") || given[f.Name] {
			continue
		}
		var list []string
		switch name := f.Tag.Get("run"); {
		case name == "model":
			path, err := r.Model()
			if err != nil {
				return nil, err
			}
			list = []string{path}
		case name == "adapter":
			path, err := r.AdapterPath()
			if err != nil {
				return nil, err
			}
			list = []string{path}
		case cli.NamesFile(f):
			list = r.Paths(f.Name)
		default:
			list = r.Values(f.Name)
		}
		values[f] = list
	}
	return values, nil
}

package runs

import (
	"slices"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/llm/run"
)

// A Pair is two things to compare, for kong. If they are folders of runs, they provide the values of flags with
// the tag run, as a [Source] does.
type Pair struct {
	A string `arg:"" name:"a" help:"A: the folder of a run, an adapter, or a model."`
	B string `arg:"" name:"b" help:"B: likewise; it is compared with A."`

	runs []*Run
}

// BeforeResolve opens the runs. Kong calls it.
func (p *Pair) BeforeResolve(ctx *kong.Context) (err error) {
	var folders []string
	for _, e := range ctx.Path {
		if e.Positional == nil {
			continue
		}
		if path := ctx.Value(e).String(); run.Is(path) && !slices.Contains(folders, path) {
			folders = append(folders, path)
		}
	}
	p.runs, err = openAll(ctx, "", folders)
	return err
}

// Opened returns the runs of the pair, at most two.
func (p *Pair) Opened() []*Run { return p.runs }

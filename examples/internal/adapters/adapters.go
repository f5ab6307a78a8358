// Package adapters reads the adapters that flags of programs name.
package adapters

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// An Arg is an adapter as a flag gives it.
type Arg struct {
	Flag, Path string
	Scale      float32
}

// Parse splits FILE[=SCALE] at the last =. If the part after it is not a number, or a file of the whole name
// exists, the whole argument is the file.
func Parse(flag, arg string) (Arg, error) {
	path, number := runs.CutScale(arg)
	scale, err := strconv.ParseFloat(number, 32)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange): // the number is too large
		return Arg{flag, arg, 1}, nil
	case math.IsNaN(scale) || math.IsInf(scale, 0):
		return Arg{}, fmt.Errorf("%s %s: the scale must be finite", flag, arg)
	}
	return Arg{flag, path, float32(scale)}, nil
}

// ParseAll parses several arguments.
func ParseAll(flag string, args []string) ([]Arg, error) {
	var list []Arg
	for _, arg := range args {
		a, err := Parse(flag, arg)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// Set is a list of open adapters.
type Set []lora.Scaled

// Load opens adapters and reports their settings that have another meaning here.
func Load(args []Arg, m *model.Model) (Set, error) {
	set, err := Open(args, m)
	for i, s := range set {
		PrintNotices(args[i].Flag, s.Adapter)
	}
	return set, err
}

// Open opens adapters for a model: all, or none. For a run's folder it opens the best adapter.
func Open(args []Arg, m *model.Model) (Set, error) {
	var set Set
	for _, arg := range args {
		path, err := runs.AdapterIn(arg.Path)
		if err != nil {
			set.Close()
			return nil, fmt.Errorf("%s: %w", arg.Flag, err)
		}
		a, err := lora.Load(path, m)
		if err != nil {
			set.Close()
			return nil, fmt.Errorf("%s: %w", arg.Flag, err)
		}
		set = append(set, lora.Scaled{Adapter: a, Scale: arg.Scale})
	}
	return set, nil
}

// PrintNotices reports to standard error the settings of an adapter that have another meaning here.
func PrintNotices(flag string, a *lora.Adapter) {
	for _, notice := range a.Notices() {
		fmt.Fprintf(os.Stderr, "notice: %s: %s\n", flag, notice)
	}
}

// Weights returns the weights of all adapters.
func (s Set) Weights() model.Adapters {
	var weights model.Adapters
	for _, a := range s {
		weights = lora.Join(weights, a.Adapter.WithScale(a.Scale))
	}
	return weights
}

// Close closes all adapters.
func (s Set) Close() {
	for _, a := range s {
		a.Adapter.Close()
	}
}

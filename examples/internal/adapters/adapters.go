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

// Parse takes FILE[=SCALE] apart. What follows the last = belongs to the name when it is
// no number, or when there is a file of that name.
func Parse(flag, arg string) (Arg, error) {
	path, number := runs.CutScale(arg)
	scale, err := strconv.ParseFloat(number, 32)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange): // which a number has that is too large
		return Arg{flag, arg, 1}, nil
	case math.IsNaN(scale) || math.IsInf(scale, 0):
		return Arg{}, fmt.Errorf("%s %s: the scale must be finite", flag, arg)
	}
	return Arg{flag, path, float32(scale)}, nil
}

// ParseAll is Parse of several.
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

// Set is adapters that are open.
type Set []lora.Scaled

// Load is Open, and reports settings of the adapters that mean something else here.
func Load(args []Arg, m *model.Model) (Set, error) {
	set, err := Open(args, m)
	for i, s := range set {
		PrintNotices(args[i].Flag, s.Adapter)
	}
	return set, err
}

// Open opens adapters for a model: all, or none. Of the folder of a run it is its best.
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

// PrintNotices says to standard error what of an adapter means something else here.
func PrintNotices(flag string, a *lora.Adapter) {
	for _, notice := range a.Notices() {
		fmt.Fprintf(os.Stderr, "notice: %s: %s\n", flag, notice)
	}
}

// Weights are the pairs of all.
func (s Set) Weights() model.Adapters {
	var weights model.Adapters
	for _, a := range s {
		weights = lora.Join(weights, a.Adapter.WithScale(a.Scale))
	}
	return weights
}

// Close closes all.
func (s Set) Close() {
	for _, a := range s {
		a.Adapter.Close()
	}
}

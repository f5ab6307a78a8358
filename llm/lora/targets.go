package lora

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/llm/model"
)

// AllLinear stands for the linear layers of all blocks in [Options], as in PEFT.
const AllLinear = "all-linear"

// Targets lists what an adapter of a model can change: its linear layers, such as
// "attn_q", "token_embd" and "output".
func Targets(c model.Config) []string { return append(c.Linears(), "token_embd", "output") }

// targetOf gives the target that a tensor belongs to, "" when it is none.
func targetOf(c model.Config, tensor string) string {
	name, ok := strings.CutSuffix(tensor, ".weight")
	if !ok {
		return ""
	}
	if tensor == tokenEmbd || tensor == outputName {
		return name
	}
	parts := strings.Split(name, ".")
	if len(parts) == 3 && parts[0] == "blk" && slices.Contains(c.Linears(), parts[2]) {
		return parts[2]
	}
	return ""
}

// An adaptable is a matrix that an adapter can change.
type adaptable struct {
	tensor  string // "" of an output that is the token embedding
	target  string
	modules []string // that hold its rows in transformers
	layer   int      // -1 outside of the layers
	shape   []int64
}

// adaptables lists those of a model in the order of computation, and an output without a
// matrix of its own, which can be named but not adapted.
func adaptables(c model.Config) []adaptable {
	var list []adaptable
	modules := modulesByPart(c)
	for _, w := range c.Weights() {
		target := targetOf(c, w.Name)
		if target == "" {
			continue
		}
		a := adaptable{tensor: w.Name, target: target, layer: -1, shape: w.Shape}
		for _, part := range c.MatrixParts(w.Name) {
			a.modules = append(a.modules, modules[part.Name])
		}
		if rest, inLayer := strings.CutPrefix(w.Name, "blk."); inLayer {
			number, _, _ := strings.Cut(rest, ".")
			a.layer, _ = strconv.Atoi(number)
		}
		list = append(list, a)
	}
	if c.Tied {
		list = append(list, adaptable{target: "output", modules: []string{"lm_head"}, layer: -1})
	}
	return list
}

// modulesByPart gives the path of the module of transformers' causal language model that
// holds each part of a matrix.
func modulesByPart(c model.Config) map[string]string {
	modules, inTextModel := map[string]string{}, PEFTOptions{}
	for _, m := range c.Modules() {
		for _, part := range m.Parts {
			modules[part.Name] = inTextModel.path(m)
		}
	}
	return modules
}

// isNamed reports whether a name in [Options] stands for the matrix, or for it among
// others.
func (a adaptable) isNamed(name string) bool {
	switch {
	case name == a.target, name == AllLinear && a.layer >= 0:
		return true
	case slices.ContainsFunc(a.modules, func(path string) bool { return name != "" && strings.HasSuffix("."+path, "."+name) }):
		return true // as PEFT finds modules
	case a.tensor == "":
		return false
	}
	full, _ := path.Match(name, a.tensor)
	short, _ := path.Match(name, strings.TrimSuffix(a.tensor, ".weight"))
	return full || short
}

// A selector decides which matrices of a model options adapt, by which rank, and gathers
// what is wrong.
type selector struct {
	Options
	config model.Config
	all    []adaptable
	places map[string][]int // in all, of what a name stands for
	faults []string
}

func newSelector(c model.Config, o Options) *selector {
	return &selector{Options: o, config: c, all: adaptables(c), places: map[string][]int{}}
}

func (s *selector) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// find gives the places of what a name stands for. That it is nothing is a fault.
func (s *selector) find(name string) []int {
	if places, known := s.places[name]; known {
		return places
	}
	var places []int
	for i, a := range s.all {
		if a.isNamed(name) {
			places = append(places, i)
		}
	}
	s.places[name] = places
	_, malformed := path.Match(name, "")
	switch {
	case malformed != nil:
		s.fault(`the pattern %q is malformed; each "[" needs a "]"`, name)
	case len(places) > 0:
	case strings.ContainsAny(name, ".*?["):
		s.fault("%q matches no matrix; there are blk.0 to blk.%d, each with %s, and token_embd, output",
			name, s.config.Layers-1, strings.Join(s.config.Linears(), ", "))
	default:
		s.fault("there is no target %q; the targets are %s", name, strings.Join(Targets(s.config), ", "))
	}
	return places
}

// ranks gives the rank of each of all, 0 of those that stay as they are.
func (s *selector) ranks() []int {
	s.check()
	names := slices.Sorted(maps.Keys(s.Ranks))
	targets := s.Targets
	if targets == nil {
		targets = append([]string{AllLinear}, names...)
	}
	ranks, chosen := make([]int, len(s.all)), make([]bool, len(s.all))
	for _, name := range targets {
		for _, i := range s.find(name) {
			if s.inLastLayers(s.all[i]) {
				ranks[i], chosen[i] = s.Rank, true
			}
		}
	}
	slices.SortStableFunc(names, func(x, y string) int { return len(s.find(y)) - len(s.find(x)) })
	from := make([]string, len(s.all)) // the name that each has its rank of
	for _, name := range names {
		s.setRank(name, ranks, chosen, from)
	}
	return ranks
}

// setRank gives what is named its rank, after all that is less specific.
func (s *selector) setRank(name string, ranks []int, chosen []bool, from []string) {
	rank, used := s.Ranks[name], false
	for _, i := range s.find(name) {
		if !chosen[i] {
			continue
		}
		if other := from[i]; other != "" && s.Ranks[other] != rank && len(s.find(other)) == len(s.find(name)) {
			s.fault("%q and %q are equally specific, and give %s the ranks %d and %d; leave one out", other, name, s.all[i].tensor, ranks[i], rank)
			return
		}
		ranks[i], from[i], used = rank, name, true
	}
	if !used && rank != 0 && len(s.find(name)) > 0 {
		s.fault("%q has a rank, but is not among the targets", name)
	}
}

func (s *selector) inLastLayers(a adaptable) bool {
	return s.LastLayers == nil || a.layer < 0 || a.layer >= s.config.Layers-*s.LastLayers
}

// check looks at the numbers.
func (s *selector) check() {
	const most = 1 << 16
	if s.Rank < 0 || s.Rank > most {
		s.fault("the rank is %d; it must be 0 to %d", s.Rank, most)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Ranks)) {
		if r := s.Ranks[name]; r < 0 || r > most {
			s.fault("%q has rank %d; it must be 0 to %d", name, r, most)
		}
	}
	if n := s.LastLayers; n != nil && (*n < 0 || *n > s.config.Layers) {
		s.fault("the last %d layers cannot be adapted; the model has %d", *n, s.config.Layers)
	}
}

package lora

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/arch"
)

// AllLinear, in [Options], means the linear layers of all blocks, as in PEFT: attention and the dense feed-forward
// network. Where no layer of the model takes adapters, it means the output.
const AllLinear = "all-linear"

// Targets lists the matrices that an adapter of a model can change: its linear layers, such as "attn_q", its
// experts, such as "ffn_up_exps", "token_embd" and "output".
func Targets(a *arch.Architecture) []string {
	list := a.Linears()
	for _, w := range []string{"token_embd", "output"} {
		if of := a.Weight(w + ".weight"); of == nil || of.IsAdaptable() {
			list = append(list, w)
		}
	}
	return list
}

// An adaptable is a matrix that an adapter can change.
type adaptable struct {
	*arch.Weight          // nil for an output tied to the token embedding
	target       string   // its kind
	modules      []string // transformers modules that hold its rows
	layer        int      // −1 outside of the layers
}

// adaptables lists the matrices of a model that can be adapted, in the order of computation, and a tied output,
// which can be named but not adapted.
func adaptables(a *arch.Architecture) []adaptable {
	var list []adaptable
	for _, w := range a.Weights() {
		if !w.IsAdaptable() {
			continue
		}
		x := adaptable{Weight: w, target: string(w.Kind), layer: w.Layer}
		for _, r := range w.Rows {
			if r.Module != "" {
				x.modules = append(x.modules, PEFTOptions{}.path(a, r.Module))
			}
		}
		list = append(list, x)
	}
	if a.Config().Tied {
		list = append(list, adaptable{target: "output", modules: []string{a.OutputModule()}, layer: -1})
	}
	return list
}

// isNamed reports whether a name in [Options] matches the matrix.
func (a adaptable) isNamed(name string) bool {
	switch {
	case name == a.target, name == AllLinear && a.layer >= 0 && !a.Named:
		return true
	case slices.ContainsFunc(a.modules, func(path string) bool { return name != "" && strings.HasSuffix("."+path, "."+name) }):
		return true // as PEFT finds modules
	case a.Weight == nil:
		return false
	}
	full, _ := path.Match(name, a.Name)
	short, _ := path.Match(name, strings.TrimSuffix(a.Name, ".weight"))
	return full || short
}

// A selector selects the matrices to adapt and their ranks from options, and collects faults.
type selector struct {
	Options
	model  *arch.Architecture
	layers int
	all    []adaptable
	places map[string][]int // indices into all of the matrices that a name matches
	faults []string
}

func newSelector(a *arch.Architecture, o Options) *selector {
	return &selector{Options: o, model: a, layers: a.NumBlocks(), all: adaptables(a), places: map[string][]int{}}
}

func (s *selector) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// find returns the indices of the matrices that a name matches. No match is a fault.
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
	if name == AllLinear && places == nil {
		places = s.find("output")
	}
	s.places[name] = places
	_, malformed := path.Match(name, "")
	switch {
	case malformed != nil:
		s.fault(`the pattern %q is malformed; each "[" needs a "]"`, name)
	case len(places) > 0:
	case strings.ContainsAny(name, ".*?["):
		s.fault("%q matches no matrix; the model has blk.0 to blk.%d, each with %s, and token_embd and output",
			name, s.layers-1, strings.Join(s.model.Linears(), ", "))
	default:
		s.fault("there is no target %q; the targets are %s", name, strings.Join(Targets(s.model), ", "))
	}
	return places
}

// ranks returns the rank of each matrix in all, 0 for matrices that are not adapted.
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
	from := make([]string, len(s.all)) // the name that set each rank
	for _, name := range names {
		s.setRank(name, ranks, chosen, from)
	}
	return ranks
}

// setRank sets the rank of the matrices that match a name; call it after the less specific names.
func (s *selector) setRank(name string, ranks []int, chosen []bool, from []string) {
	rank, used := s.Ranks[name], false
	for _, i := range s.find(name) {
		if !chosen[i] {
			continue
		}
		if other := from[i]; other != "" && s.Ranks[other] != rank && len(s.find(other)) == len(s.find(name)) {
			s.fault("%q and %q are equally specific, but give %s the ranks %d and %d; leave one out", other, name, s.all[i].Name, ranks[i], rank)
			return
		}
		ranks[i], from[i], used = rank, name, true
	}
	if !used && rank != 0 && len(s.find(name)) > 0 {
		s.fault("%q has a rank, but is not among the targets", name)
	}
}

func (s *selector) inLastLayers(a adaptable) bool {
	return s.LastLayers == nil || a.layer < 0 || a.layer >= s.layers-*s.LastLayers
}

// check validates the numbers.
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
	if n := s.LastLayers; n != nil && (*n < 0 || *n > s.layers) {
		s.fault("the last %d layers cannot be adapted; the model has %d", *n, s.layers)
	}
}

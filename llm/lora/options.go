package lora

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/goggml/ggml/llm/model"
)

// An Init is the distribution of the values of A in a new adapter.
type Init string

// The initialisations.
const (
	// InitNormal draws from a normal distribution of mean 0 and variance 1/r.
	InitNormal Init = "normal"
	// InitKaiming draws uniformly from ±1/√n_in, as PyTorch initialises a
	// linear layer and PEFT an adapter. Of the token embedding n_in is 1: a
	// lookup adds up nothing.
	InitKaiming Init = "kaiming"
)

// Options describe a new adapter.
type Options struct {
	// Rank is the rank of every target that Ranks does not name.
	Rank int
	// Ranks gives the rank by target; 0 leaves the target out.
	Ranks map[string]int
	// Targets names the matrices to adapt: those of [arch.Config.Linears] in every
	// layer, "token_embd" and "output". nil stands for all linear layers,
	// and whatever else Ranks names.
	//
	// Where the output is the token embedding itself, an adapter of "token_embd"
	// acts on the lookup only, and stock llama.cpp 0.7 aborts on it: merge it
	// before it goes there.
	Targets []string
	Alpha   float32
	// Factor is by what the product of each pair counts, alpha/rank, whatever its rank:
	// each then has an alpha of its own. It takes the place of Alpha.
	Factor float32
	Init   Init // "" is InitNormal
	Seed   uint64
}

const (
	suffixA    = ".lora_a"
	suffixB    = ".lora_b"
	tokenEmbd  = "token_embd.weight"
	outputName = "output.weight"
)

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

// pairShapes gives the shapes of A and B for W [n_in, n_out].
func pairShapes(base string, w []int64, rank int64) (a, b []int64) {
	if base == tokenEmbd {
		return []int64{rank, w[1]}, []int64{rank, w[0]}
	}
	return []int64{w[0], rank}, []int64{rank, w[1]}
}

// specs lists the pairs to make. The error lists all that is wrong.
func (o Options) specs(m *model.Model) ([]spec, error) {
	ranks, faults := o.ranks(m.Config)
	if ranks["output"] > 0 && m.Tied {
		faults = append(faults, `the target "output" needs a matrix of its own, but this model's output is its token embedding`)
	}
	if fault := validAlpha(o.Alpha); fault != "" {
		faults = append(faults, fault)
	}
	if !(o.Factor >= 0) || math.IsInf(float64(o.Factor), 0) {
		faults = append(faults, fmt.Sprintf("the factor is %v; it must be a finite number of at least 0", o.Factor))
	}
	if o.Factor != 0 && o.Alpha != 0 {
		faults = append(faults, fmt.Sprintf("there is an alpha, %v, and a factor, %v, which takes its place; leave one out", o.Alpha, o.Factor))
	}
	if o.Init != "" && o.Init != InitNormal && o.Init != InitKaiming {
		faults = append(faults, fmt.Sprintf("there is no initialisation %q; use %q or %q", o.Init, InitNormal, InitKaiming))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("a new adapter: %w", errors.New(strings.Join(faults, "; ")))
	}
	var list []spec
	for _, t := range m.Config.Weights() {
		rank := ranks[targetOf(m.Config, t.Name)]
		if rank == 0 {
			continue
		}
		s := spec{base: t.Name}
		s.a, s.b = pairShapes(t.Name, t.Shape, int64(rank))
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("a new adapter: %w; set Rank, or a rank of at least one target", errNoPairs)
	}
	return list, nil
}

// ranks gives the rank of every target, 0 of those that stay as they are.
func (o Options) ranks(c model.Config) (ranks map[string]int, faults []string) {
	known := Targets(c)
	targets := o.Targets
	if targets == nil {
		targets = c.Linears()
		for _, name := range []string{"token_embd", "output"} {
			if _, ok := o.Ranks[name]; ok {
				targets = append(targets, name)
			}
		}
	}
	var named []string
	for name := range o.Ranks {
		named = append(named, name)
	}
	sort.Strings(named)
	for _, name := range append(slices.Clone(targets), named...) {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Sprintf("there is no target %q; the targets are %s", name, strings.Join(known, ", ")))
		}
	}
	ranks = map[string]int{}
	for _, name := range targets {
		ranks[name] = o.Rank
	}
	for _, name := range named {
		if _, ok := ranks[name]; ok || o.Ranks[name] == 0 {
			ranks[name] = o.Ranks[name]
		} else if slices.Contains(known, name) {
			faults = append(faults, fmt.Sprintf("%q has a rank, but is not among the targets", name))
		}
	}
	const most = 1 << 16
	for _, name := range known {
		if r := ranks[name]; r < 0 || r > most {
			faults = append(faults, fmt.Sprintf("%q has rank %d; it must be 0 to %d", name, r, most))
		}
	}
	return ranks, faults
}

package lora

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/model"
)

// An Init is the distribution of the values of A in a new adapter.
type Init string

// The initialisations.
const (
	// InitNormal draws from a normal distribution of mean 0 and variance 1/r.
	InitNormal Init = "normal"
	// InitKaiming draws uniformly from ±1/√n_in, as PyTorch initialises a linear layer and PEFT an adapter. For the
	// token embedding n_in is 1, since a lookup sums nothing.
	InitKaiming Init = "kaiming"
)

// Options describe a new adapter.
//
// Targets and Ranks name matrices by any of
//
//   - a target of [Targets], such as "attn_q", in every layer, "token_embd" or "output";
//   - [AllLinear], the linear layers of all blocks, except experts and their router: name these to adapt them;
//   - the name of the module in transformers, as in PEFT: "q_proj", "self_attn.q_proj"
//     or "model.layers.0.self_attn.q_proj";
//   - the name of the tensor, or a pattern of [path.Match] for it: "blk.[0-3].ffn_*";
//     the suffix ".weight" may be left out.
//
// A name that matches nothing is an error.
type Options struct {
	// Rank is the rank of targets that Ranks does not name.
	Rank int
	// Ranks gives the rank by name; 0 excludes the matrix. If several names match a matrix, the most specific one
	// counts: the name that matches the fewest matrices.
	Ranks map[string]int
	// Targets names the matrices to adapt. nil means [AllLinear] and the names of Ranks.
	//
	// If the output is tied to the token embedding, an adapter of "token_embd" acts on the lookup only, and stock
	// llama.cpp 0.7 aborts on it: merge the adapter before using it there.
	Targets []string
	// LastLayers is the number of layers at the end of the model whose matrices are adapted; nil
	// means all. It does not affect "token_embd" and "output", which are in no layer.
	LastLayers *int
	// Alpha is the strength: each pair's product is scaled by alpha/rank. Common values are the rank and twice the
	// rank. 0 means no alpha, in the adapter and in its file; each product is then scaled by 1, whatever its rank.
	Alpha float32
	// RankStabilized scales each pair by alpha/√r instead of alpha/r (rsLoRA, arXiv 2312.03732), so that the
	// gradient keeps its size at high ranks.
	RankStabilized bool
	// Factor, if not 0, replaces Alpha: it scales each pair's product, whatever the rank, and so gives each pair an
	// alpha of its own (factor · rank).
	Factor float32
	Init   Init // "" means InitNormal
	Seed   uint64
}

const (
	suffixA    = ".lora_a"
	suffixB    = ".lora_b"
	tokenEmbd  = "token_embd.weight"
	outputName = "output.weight"
)

// pairShapes returns the shapes of A and B for W [n_in, n_out], or [n_in, n_out, experts].
func pairShapes(base string, w []int64, rank int64) (a, b []int64) {
	if base == tokenEmbd {
		return []int64{rank, w[1]}, []int64{rank, w[0]}
	}
	a, b = slices.Clone(w), slices.Clone(w)
	a[1], b[0] = rank, rank
	return a, b
}

// specs lists the pairs to allocate. The error lists all faults.
func (o Options) specs(m *model.Model) ([]spec, error) {
	s := newSelector(m.Architecture(), o)
	ranks := s.ranks()
	faults := append(s.faults, o.scaleFaults()...)
	if o.Init != "" && o.Init != InitNormal && o.Init != InitKaiming {
		faults = append(faults, fmt.Sprintf("unknown initialisation %q; use %q or %q", o.Init, InitNormal, InitKaiming))
	}
	var list []spec
	for i, t := range s.all {
		switch {
		case ranks[i] == 0:
		case t.Weight == nil:
			faults = append(faults, `the target "output" is missing: this model uses its token embedding as the output`)
		default:
			pair := spec{base: t.Name}
			pair.a, pair.b = pairShapes(t.Name, t.Shape, int64(ranks[i]))
			list = append(list, pair)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("a new adapter: %w", errors.New(strings.Join(faults, "; ")))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("a new adapter: %w; set Rank, or the rank of at least one target", ErrNoPairs)
	}
	return list, nil
}

// scaleFaults lists the faults of Alpha and Factor.
func (o Options) scaleFaults() []string {
	var faults []string
	if fault := validAlpha(o.Alpha); fault != "" {
		faults = append(faults, fault)
	}
	if !(o.Factor >= 0) || math.IsInf(float64(o.Factor), 0) {
		faults = append(faults, fmt.Sprintf("the factor is %v; it must be a finite number of at least 0", o.Factor))
	}
	if o.Factor != 0 && o.Alpha != 0 {
		faults = append(faults, fmt.Sprintf("both an alpha, %v, and a factor, %v, are set, but the factor replaces alpha; leave one out", o.Alpha, o.Factor))
	}
	if o.RankStabilized && o.Alpha == 0 {
		faults = append(faults, "a rank-stabilized adapter needs an alpha; set it, for example to the rank")
	}
	return faults
}

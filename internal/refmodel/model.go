// Package refmodel is a float64 llama in plain loops: logits, loss, and exact
// gradients with respect to any weight or LoRA matrix, by reverse-mode differentiation.
// It shares no code with what builds graphs, and so checks them and their float64
// interpreter, package oracle, which all other architectures are held to.
//
// Matrices are in ggml's order: a weight [in, out] maps a vector x of length in
// to y[o] = Σᵢ W[i + in·o]·x[i]. A Model is safe for concurrent use as long as
// nobody changes its weights or adapters.
package refmodel

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/internal/refmath"
)

// Tensor is a dense float64 tensor.
type Tensor = refmath.Tensor

// Params are the hyper-parameters of a model.
type Params struct {
	Vocab, Embd, FF, Layers int
	Heads, KVHeads          int
	HeadDim                 int     // 0 means Embd/Heads
	RMSEps                  float64 // llama.attention.layer_norm_rms_epsilon
	// RoPE: Dims 0 means HeadDim; FreqBase 0 means 1e4; FreqScale 0 and
	// AttnFactor 0 mean 1. The weight rope_freqs.weight, when there is one,
	// sets Factors.
	RoPE refmath.RoPE
}

// LoRA is an adapter of one base weight W [in, out]: y += Scale·B(A·x) with
// A [in, r] and B [r, out]. That of token_embd.weight is flipped, A [r, vocab]
// and B [r, embd]: the row of token t gains Scale·B(A's row t). It does not
// reach the output of a model with tied embeddings.
type LoRA struct {
	A, B  Tensor
	Scale float64 // user scale · alpha/r
}

// Model is a transformer. Make it with New.
type Model struct {
	Params
	weights map[string]Tensor
	loras   map[string]LoRA
	vars    map[string]*value // of both, by the names that Weight takes
}

// New returns a model over weights named as in a GGUF file; [Shapes] has those that
// there must be. output.weight may be left out: it is tied to the embedding. There may
// be factors of RoPE, and of a matrix a ".bias" [out] and a ".scale" [1]. The weights
// are shared, not copied. The error lists every missing, unknown and misshapen tensor.
func New(p Params, weights map[string]Tensor) (*Model, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkWeights(p, weights); err != nil {
		return nil, err
	}
	m := &Model{Params: p, weights: weights, loras: map[string]LoRA{}, vars: map[string]*value{}}
	for name, w := range weights {
		m.vars[name] = variable(w)
	}
	return m, nil
}

// variable shares the data of a parameter.
func variable(w Tensor) *value { return &value{width: int(w.Ne[0]), data: w.Data} }

func (p Params) withDefaults() (Params, error) {
	sizes := []int{p.Vocab, p.Embd, p.FF, p.Layers, p.Heads, p.KVHeads}
	if slices.Min(sizes) < 1 {
		return p, fmt.Errorf("refmodel: vocabulary, embedding, FF, layers, heads, KV heads = %v, all must be positive", sizes)
	}
	if p.Heads%p.KVHeads != 0 {
		return p, fmt.Errorf("refmodel: %d heads are not a multiple of %d KV heads", p.Heads, p.KVHeads)
	}
	setDefault(&p.HeadDim, p.Embd/p.Heads)
	r := &p.RoPE
	setDefault(&r.Dims, p.HeadDim)
	setDefault(&r.FreqBase, 1e4)
	setDefault(&r.FreqScale, 1)
	setDefault(&r.AttnFactor, 1)
	if r.Dims%2 != 0 || r.Dims > p.HeadDim {
		return p, fmt.Errorf("refmodel: %d RoPE dimensions for heads of %d, want an even number up to that", r.Dims, p.HeadDim)
	}
	return p, nil
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func rsqrt[T int | int64](n T) float64 { return 1 / math.Sqrt(float64(n)) }

// SetLoRA sets the adapter of a base weight; a zero Scale switches it off
// without removing it.
func (m *Model) SetLoRA(base string, l LoRA) error {
	w, ok := m.weights[base]
	if !ok {
		return fmt.Errorf("refmodel: adapter for %s, which the model does not have", base)
	}
	r := l.B.Ne[0]
	wantA, wantB := [4]int64{w.Ne[0], r, 1, 1}, [4]int64{r, w.Ne[1], 1, 1}
	if base == tokenEmbd {
		wantA, wantB = [4]int64{r, w.Ne[1], 1, 1}, [4]int64{r, w.Ne[0], 1, 1}
	}
	if l.A.Ne != wantA || l.B.Ne != wantB {
		return fmt.Errorf("refmodel: adapter for %s %v has A %v and B %v, want %v and %v", base, w.Ne, l.A.Ne, l.B.Ne, wantA, wantB)
	}
	if w.Ne[1] == 1 {
		return fmt.Errorf("refmodel: adapter for %s, which is not a matrix", base)
	}
	m.loras[base] = l
	m.vars[base+".lora_a"], m.vars[base+".lora_b"] = variable(l.A), variable(l.B)
	return nil
}

// Weight returns a parameter: a base weight by its GGUF name, or a LoRA matrix
// by the base weight's name followed by ".lora_a" or ".lora_b". The result
// shares its data with the model.
func (m *Model) Weight(name string) (Tensor, error) {
	if w, ok := m.weights[name]; ok {
		return w, nil
	}
	if base, ok := strings.CutSuffix(name, ".lora_a"); ok && m.hasLoRA(base) {
		return m.loras[base].A, nil
	}
	if base, ok := strings.CutSuffix(name, ".lora_b"); ok && m.hasLoRA(base) {
		return m.loras[base].B, nil
	}
	return Tensor{}, fmt.Errorf("refmodel: no parameter %s", name)
}

func (m *Model) hasLoRA(base string) bool {
	_, ok := m.loras[base]
	return ok
}

// LoRANames returns the names of all LoRA matrices, sorted.
func (m *Model) LoRANames() []string {
	var names []string
	for base := range m.loras {
		names = append(names, base+".lora_a", base+".lora_b")
	}
	slices.Sort(names)
	return names
}

// WeightNames returns the names of all base weights, sorted.
func (m *Model) WeightNames() []string { return slices.Sorted(maps.Keys(m.weights)) }

// RandomWeights returns weights for p, with or without a tied output: norms, scales and
// factors around 1, matrices normal with deviation 1/√in, biases with 1/2, rounded to
// float32. Equal seeds give equal weights. Optional ones are named as in OptionalShapes,
// those of layers without their prefix, and are in each.
func RandomWeights(p Params, tied bool, seed uint64, optional ...string) map[string]Tensor {
	rng := rand.New(rand.NewPCG(seed, 1))
	shapes := Shapes(p)
	if tied {
		delete(shapes, output)
	}
	for name, ne := range OptionalShapes(p) {
		if slices.Contains(optional, inLayer.ReplaceAllString(name, "")) {
			shapes[name] = ne
		}
	}
	weights := map[string]Tensor{}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		ne := shapes[name]
		switch {
		case strings.HasSuffix(name, ".bias"):
			weights[name] = refmath.Normal(rng, 0.5, ne[:]...)
		case ne[1] == 1:
			weights[name] = refmath.Uniform(rng, 0.5, 1.5, ne[:]...)
		default:
			weights[name] = refmath.Normal(rng, rsqrt(ne[0]), ne[:]...)
		}
	}
	return weights
}

var inLayer = regexp.MustCompile(`^blk\.\d+\.`)

// AddRandomLoRA puts adapters of one rank and scale on the named base weights,
// or with no names on all matrices of the blocks. Both A and B are random and
// not zero, rounded to float32.
func (m *Model) AddRandomLoRA(rank int, scale float64, seed uint64, bases ...string) error {
	if rank < 1 {
		return fmt.Errorf("refmodel: adapter of rank %d, want at least 1", rank)
	}
	if len(bases) == 0 {
		for _, name := range m.WeightNames() {
			if strings.HasPrefix(name, "blk.") && m.weights[name].Ne[1] > 1 {
				bases = append(bases, name)
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	r := int64(rank)
	for _, base := range bases {
		w := m.weights[base]
		a, b := [2]int64{w.Ne[0], r}, [2]int64{r, w.Ne[1]}
		if base == tokenEmbd {
			a, b = [2]int64{r, w.Ne[1]}, [2]int64{r, w.Ne[0]}
		}
		l := LoRA{
			A:     refmath.Normal(rng, rsqrt(a[0]), a[:]...),
			B:     refmath.Normal(rng, rsqrt(b[0]), b[:]...),
			Scale: scale,
		}
		if err := m.SetLoRA(base, l); err != nil {
			return err
		}
	}
	return nil
}

// Package refmodel is a float64 llama-architecture transformer in plain loops:
// logits, loss, and an analytic gradient with respect to any weight or LoRA
// matrix. It shares no code with the graph builders, and so is the oracle for
// their tests.
//
// Matrices are in ggml's order: a weight [in, out] maps a vector x of length in
// to y[o] = Σᵢ W[i + in·o]·x[i]. A Model is safe for concurrent use as long as
// nobody changes its weights or adapters.
package refmodel

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
}

const (
	tokenEmbd  = "token_embd.weight"
	outputNorm = "output_norm.weight"
	output     = "output.weight"
	ropeFreqs  = "rope_freqs.weight"
)

// New returns a model over weights named as in a GGUF file: token_embd,
// output_norm, output (left out: tied to token_embd), rope_freqs (optional)
// and blk.N.{attn_norm, attn_q, attn_k, attn_v, attn_output, ffn_norm,
// ffn_gate, ffn_up, ffn_down}, each with ".weight". The linear layers of a
// block may have a ".bias" [out]. The weights are shared, not copied. The error
// lists every missing, unknown and misshapen tensor.
func New(p Params, weights map[string]Tensor) (*Model, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	if f, ok := weights[ropeFreqs]; ok {
		p.RoPE.Factors = f.Data
	}
	if err := checkWeights(p, weights); err != nil {
		return nil, err
	}
	return &Model{Params: p, weights: weights, loras: map[string]LoRA{}}, nil
}

func (p Params) withDefaults() (Params, error) {
	sizes := []int{p.Vocab, p.Embd, p.FF, p.Layers, p.Heads, p.KVHeads}
	if slices.Min(sizes) < 1 {
		return p, fmt.Errorf("refmodel: vocabulary, embedding, FF, layers, heads, KV heads = %v, all must be positive", sizes)
	}
	if p.Heads%p.KVHeads != 0 {
		return p, fmt.Errorf("refmodel: %d heads are not a multiple of %d KV heads", p.Heads, p.KVHeads)
	}
	setDefault(&p.HeadDim, p.Embd/p.Heads)
	setDefault(&p.RoPE.Dims, p.HeadDim)
	setDefault(&p.RoPE.FreqBase, 1e4)
	setDefault(&p.RoPE.FreqScale, 1)
	setDefault(&p.RoPE.AttnFactor, 1)
	if p.RoPE.Dims%2 != 0 || p.RoPE.Dims > p.HeadDim {
		return p, fmt.Errorf("refmodel: %d RoPE dimensions for heads of %d, want an even number up to that", p.RoPE.Dims, p.HeadDim)
	}
	return p, nil
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Shapes returns the names and shapes of the weights that a model with an
// untied output must have.
func Shapes(p Params) map[string][4]int64 {
	head := p.HeadDim
	setDefault(&head, p.Embd/max(p.Heads, 1))
	matrix := func(in, out int) [4]int64 { return [4]int64{int64(in), int64(out), 1, 1} }
	shapes := map[string][4]int64{
		tokenEmbd:  matrix(p.Embd, p.Vocab),
		outputNorm: matrix(p.Embd, 1),
		output:     matrix(p.Embd, p.Vocab),
	}
	for l := range p.Layers {
		shapes[block(l, "attn_norm")] = matrix(p.Embd, 1)
		shapes[block(l, "attn_q")] = matrix(p.Embd, head*p.Heads)
		shapes[block(l, "attn_k")] = matrix(p.Embd, head*p.KVHeads)
		shapes[block(l, "attn_v")] = matrix(p.Embd, head*p.KVHeads)
		shapes[block(l, "attn_output")] = matrix(head*p.Heads, p.Embd)
		shapes[block(l, "ffn_norm")] = matrix(p.Embd, 1)
		shapes[block(l, "ffn_gate")] = matrix(p.Embd, p.FF)
		shapes[block(l, "ffn_up")] = matrix(p.Embd, p.FF)
		shapes[block(l, "ffn_down")] = matrix(p.FF, p.Embd)
	}
	return shapes
}

func block(layer int, part string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, part) }

func biasOf(weight string) string { return strings.TrimSuffix(weight, ".weight") + ".bias" }

func checkWeights(p Params, weights map[string]Tensor) error {
	shapes := Shapes(p)
	required := maps.Clone(shapes)
	delete(required, output)
	for l := range p.Layers {
		for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
			w := block(l, part)
			shapes[biasOf(w)] = [4]int64{shapes[w][1], 1, 1, 1}
		}
	}
	shapes[ropeFreqs] = [4]int64{int64(p.RoPE.Dims / 2), 1, 1, 1}
	var faults []string
	for name := range required {
		if _, ok := weights[name]; !ok {
			faults = append(faults, name+" is missing")
		}
	}
	for name, w := range weights {
		want, ok := shapes[name]
		switch {
		case !ok:
			faults = append(faults, name+" is unknown")
		case w.Ne != want:
			faults = append(faults, fmt.Sprintf("%s has shape %v, want %v", name, w.Ne, want))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return fmt.Errorf("refmodel: weights: %s", strings.Join(faults, "; "))
}

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

// RandomWeights returns weights for p, with or without a tied output: norms
// around 1, matrices normal with deviation 1/√in, rounded to float32. Equal
// seeds give equal weights.
func RandomWeights(p Params, tied bool, seed uint64) map[string]Tensor {
	rng := rand.New(rand.NewPCG(seed, 1))
	shapes := Shapes(p)
	if tied {
		delete(shapes, output)
	}
	weights := map[string]Tensor{}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		ne := shapes[name]
		if ne[1] == 1 && strings.Contains(name, "norm") {
			weights[name] = refmath.Uniform(rng, 0.5, 1.5, ne[:]...)
			continue
		}
		weights[name] = refmath.Normal(rng, rsqrt(ne[0]), ne[:]...)
	}
	return weights
}

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

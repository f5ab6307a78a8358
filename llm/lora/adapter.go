// Package lora holds low-rank adapters (LoRA, arXiv 2106.09685) of the models of
// [github.com/goggml/ggml/llm/model].
//
// An adapter replaces a matrix W [n_in, n_out] by W + s·alpha/r·B·A with A [n_in, r], B [r, n_out] and a small rank r.
// W itself stays unchanged: [Adapter.WithScale] passes the pairs to the graph of the model.
//
// # New adapters
//
// [New] makes an adapter that changes nothing yet, since B is zero. [Options] say which
// matrices it is of, by the names of GGUF files or of transformers or by patterns, their
// ranks, and how strongly they count: alpha/r, or alpha/√r (rsLoRA).
//
// # Files
//
// [Adapter.Save] writes a GGUF file for stock llama.cpp, [Adapter.SavePEFT] a folder for PEFT; [Load] reads either.
// docs/peft.md lists what is converted, and what cannot be. Loading an adapter of another model returns a
// [*MismatchError] that lists all mismatches.
//
// # Merging
//
// [Merge] and [MergeTo] add adapters to the weights of a model, which may be quantised, into
// one that needs no adapter. [Join] lets several act at once without that.
package lora

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/lifetime"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// A Pair is the two factors A and B of the change of one matrix.
type Pair struct {
	Base string // name of the matrix, such as "blk.0.attn_q.weight"
	// A [n_in, r] and B [r, n_out]; for the token embedding, whose rows are looked up, A [r, n_vocab] and B [r,
	// n_embd]. Both are F32.
	A, B *ggml.Tensor
	// Type is the type of A and B in the GGUF file they were loaded from: F32, F16 or BF16; otherwise F32.
	Type ggml.Type
	// Alpha overrides the adapter's alpha for this pair, unless it is 0. A file has one alpha for all pairs, so Save
	// scales B to compensate.
	Alpha float32
}

// Rank returns r.
func (p Pair) Rank() int { return int(p.B.Dim(0)) }

// An Adapter is a set of pairs for a model. It is safe for concurrent use while no one writes its tensors.
type Adapter struct {
	Arch  string  // general.architecture of the model
	Alpha float32 // divided by a pair's rank to get its factor; 0 means a factor of 1
	// Keys are further keys of its file, which Save writes: the name, what is known of the base model, and the other
	// keys of a loaded file.
	Keys map[string]any

	notices []string
	path    string // of the file it was loaded from
	model   *arch.Architecture
	life    lifetime.Lifetime
	pairs   []Pair
	ctx     *ggml.Context
	memory  *layout.Memory
}

// Notices lists settings in PEFT's files whose meaning differs here.
func (a *Adapter) Notices() []string { return a.notices }

// New makes an adapter that does not change the model yet, with each pair on its matrix's device: A is random, B is
// zero. The same options give the same values; a pair's values depend only on the seed, the initialisation, and the
// pair's name and rank.
func New(m *model.Model, o Options) (*Adapter, error) {
	release, err := m.Retain()
	if err != nil {
		return nil, err
	}
	defer release()
	specs, err := o.specs(m)
	if err != nil {
		return nil, err
	}
	a, err := allocate(m, specs)
	if err != nil {
		return nil, err
	}
	a.Arch, a.model, a.Alpha, a.Keys = m.Config().Arch, m.Architecture(), o.Alpha, describeBase(m)
	switch alpha := float64(o.Alpha); {
	case o.Factor != 0:
		a.setAlphas(func(rank float64) float64 { return float64(o.Factor) * rank })
	case o.RankStabilized:
		a.setAlphas(func(rank float64) float64 { return alpha * math.Sqrt(rank) })
	}
	for _, p := range a.pairs {
		if err := o.fill(p); err != nil {
			a.Close()
			return nil, err
		}
	}
	return a, nil
}

// A spec describes a pair to allocate.
type spec struct {
	base string
	a, b []int64   // shapes
	typ  ggml.Type // see [Pair]
}

// allocate allocates the tensors of an adapter, filled with zeros.
func allocate(m *model.Model, specs []spec) (*Adapter, error) {
	a := &Adapter{ctx: ggml.NewContext(), memory: layout.NewMemory(m.Layout())}
	// All A, then all B: tensors with their own learning rate are contiguous.
	packing := a.memory.NewPacking(a.ctx)
	add := func(shape func(s spec) []int64) {
		for _, s := range specs {
			w := m.Architecture().Weight(s.base)
			packing.Add(w.Layer, w.Kind, shape(s)...)
		}
	}
	add(func(s spec) []int64 { return s.a })
	add(func(s spec) []int64 { return s.b })
	tensors, err := packing.Allocate()
	if err == nil {
		err = a.memory.Clear(0)
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	for i, s := range specs {
		a.pairs = append(a.pairs, Pair{
			Base: s.base, Type: s.typ,
			A: tensors[i].SetName(s.base + suffixA).SetParam(),
			B: tensors[len(specs)+i].SetName(s.base + suffixB).SetParam(),
		})
	}
	return a, nil
}

// fill fills A with random values. B is zero already.
func (o Options) fill(p Pair) error {
	hash := fnv.New64a()
	hash.Write([]byte(p.A.Name()))
	rng := rand.New(rand.NewPCG(o.Seed, hash.Sum64()))
	values := make([]float32, p.A.NumElements())
	sample := rng.NormFloat64
	size := 1 / math.Sqrt(float64(p.Rank()))
	if o.Init == InitKaiming {
		sample = func() float64 { return 2*rng.Float64() - 1 }
		size = 1 / math.Sqrt(float64(fanIn(p)))
	}
	for i := range values {
		values[i] = float32(size * sample())
	}
	return ggml.Write(p.A, values)
}

// fanIn returns the number of inputs that each element of A·x sums. A lookup is the product with a one-hot vector.
func fanIn(p Pair) int64 {
	if p.Base == tokenEmbd {
		return 1
	}
	return p.A.Dim(0)
}

// Pairs lists the pairs in the order of the model's tensors.
func (a *Adapter) Pairs() []Pair { return slices.Clone(a.pairs) }

// Context returns the context that owns the tensors of the pairs.
func (a *Adapter) Context() *ggml.Context { return a.ctx }

// Rank returns the largest rank of a pair.
func (a *Adapter) Rank() int {
	rank := 0
	for _, p := range a.pairs {
		rank = max(rank, p.Rank())
	}
	return rank
}

// NumParameters returns the number of elements of all A and B.
func (a *Adapter) NumParameters() int64 {
	var n int64
	for _, p := range a.pairs {
		n += p.A.NumElements() + p.B.NumElements()
	}
	return n
}

// Close frees the tensors once no computation uses them and nothing writes them. It never fails.
func (a *Adapter) Close() error {
	if a != nil {
		a.life.Close(func() {
			a.memory.Close()
			a.ctx.Close()
		})
	}
	return nil
}

// retain keeps the tensors from being freed until release is called.
func (a *Adapter) retain() (release func(), err error) {
	switch {
	case a == nil:
		return nil, errors.New("is nil")
	case a.ctx == nil:
		return nil, fmt.Errorf("is a zero value; Load or New makes one: %w", ggml.ErrZeroValue)
	case !a.life.Retain():
		return nil, fmt.Errorf("is closed: %w", ggml.ErrClosed)
	}
	return a.life.Release, nil
}

// WithScale returns the pairs for the graph of the model, each with the factor scale·alpha/r, or scale if alpha is
// 0, as in llama.cpp.
func (a *Adapter) WithScale(scale float32) model.Adapters {
	weights := make(model.Adapters, len(a.pairs))
	for _, p := range a.pairs {
		weights[p.Base] = []model.LoRAPair{{A: p.A, B: p.B, Scale: p.times(scale, cmp.Or(p.Alpha, a.Alpha)), Type: p.Type}}
	}
	return weights
}

// times returns scale·alpha/r, or scale if alpha is 0.
func (p Pair) times(scale, alpha float32) float32 {
	if alpha == 0 {
		return scale
	}
	return scale * alpha / float32(p.Rank())
}

// setAlphas sets the alpha of each pair from its rank. The adapter's alpha, which its file contains, is the largest
// one, so that Save scales no B up.
func (a *Adapter) setAlphas(of func(rank float64) float64) {
	a.Alpha = float32(of(float64(a.Rank())))
	for i, p := range a.pairs {
		a.pairs[i].Alpha = float32(of(float64(p.Rank())))
	}
}

// inFile returns the factor that Save multiplies B by, because in a file the pair has the adapter's alpha.
func (a *Adapter) inFile(p Pair) float32 {
	if p.Alpha == 0 {
		return 1
	}
	return p.times(1, p.Alpha) / p.times(1, a.Alpha)
}

// Join combines adapters: their changes add up.
func Join(list ...model.Adapters) model.Adapters {
	joined := model.Adapters{}
	for _, weights := range list {
		for base, pairs := range weights {
			joined[base] = append(joined[base], pairs...)
		}
	}
	return joined
}

// describeBase returns the keys that identify an adapter's base.
func describeBase(m *model.Model) map[string]any {
	const prefix = "general.base_model."
	keys := map[string]any{}
	if m.Config().Name != "" {
		keys["general.name"] = m.Config().Name + " LoRA"
		keys[prefix+"0.name"] = m.Config().Name
	}
	if g := m.GGUF(); g != nil {
		for _, key := range []string{"author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"} {
			if v, err := ggml.GGUFValue[string](g, "general."+key); err == nil {
				keys[prefix+"0."+key] = v
			}
		}
	}
	if len(keys) > 0 {
		keys[prefix+"count"] = uint32(1)
	}
	return keys
}

// ErrNoPairs means that an adapter has no pairs and would do nothing.
var ErrNoPairs = errors.New("the adapter has no tensors")

// validAlpha returns what is wrong with an alpha; "" if it is valid.
func validAlpha(alpha float32) string {
	if alpha >= 0 && !math.IsInf(float64(alpha), 0) {
		return ""
	}
	return fmt.Sprintf("alpha is %v; it must be a finite number of at least 0", alpha)
}

package model

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/lifetime"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A Model is a language model's hyper-parameters, vocabulary and weights. It
// does not change, and is safe for concurrent use.
type Model struct {
	Tokenizer *tokenizer.Tokenizer // nil when the file has no vocabulary
	Path      string               // of the GGUF file; "" if New made the model

	arch     *arch.Architecture
	life     lifetime.Lifetime
	gguf     *ggml.GGUF
	ctx      *ggml.Context
	memory   *layout.Memory
	list     []*ggml.Tensor // in the order of the file
	weights  map[string]*ggml.Tensor
	names    map[*ggml.Tensor]string // names in the file; SetName does not change them
	repacked *fused.Repacked         // nil if sessions use the weights as they are
}

// LoadOptions are the settings of [Load].
type LoadOptions struct {
	Layout   layout.Layout // where the weights go; see [layout.On]
	NoMmap   bool          // read the file instead of mapping it
	Progress func(done, total int64)
	// Repack reads the matrices at once, into the memory and the layouts that the processor multiplies fastest:
	// decoding then takes 50 to 80 % of the time. Experts are read if the system has memory for the whole file, and
	// mapped otherwise. Without Repack, weights are read when they are first used.
	Repack bool
	// Override changes the file's hyper-parameters before they are used; nil changes none.
	Override func(c *arch.Config)
	// Sequences is the number of sequences computed at once, as in a session; 0 means 1. It selects the layouts of
	// Repack: the best one for several sequences is not the best for one.
	Sequences int
}

// Load reads a model from a GGUF file. Weights on the CPU are mapped into memory: they are not copied, and unused
// ones are not read.
func Load(path string, o LoadOptions) (*Model, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	m := &Model{gguf: g, ctx: ggml.NewContext(), weights: map[string]*ggml.Tensor{}, names: map[*ggml.Tensor]string{}}
	loaded := false
	defer func() {
		if !loaded { // also if Progress panics
			m.Close()
		}
	}()
	if err := m.load(o); err != nil {
		return nil, err
	}
	loaded, m.Path = true, path
	return m, nil
}

func (m *Model) load(o LoadOptions) error {
	g := m.gguf
	c, err := arch.ReadConfig(g)
	if err != nil {
		return err
	}
	if o.Override != nil {
		o.Override(&c)
	}
	if m.arch, err = arch.Resolve(c); err != nil {
		return fmt.Errorf("%s: %w", g.Name(), err)
	}
	if err := checkTensors(g, m.arch); err != nil {
		return err
	}
	m.arch = m.arch.Having(func(name string) bool {
		_, ok := g.Tensor(name)
		return ok
	})
	if arch.HasVocabulary(g) {
		if m.Tokenizer, err = tokenizer.FromMetadata(g); err != nil {
			return fmt.Errorf("%s: %w", g.Name(), err)
		}
		if n := m.Tokenizer.NumTokens(); n != c.Vocab {
			return fmt.Errorf("%s: the vocabulary has %d tokens, but the embedding has %d", g.Name(), n, c.Vocab)
		}
	}
	m.memory = layout.NewMemory(o.Layout)
	m.memory.Resident = m.resident(o)
	if err := m.memory.Load(g, m.ctx, ggml.LoadOptions{NoMmap: o.NoMmap, Progress: o.Progress, Shape: m.shape}, m.place); err != nil {
		return err
	}
	m.index()
	if err := m.checkTables(); err != nil {
		return fmt.Errorf("%s: %w", g.Name(), err)
	}
	m.list = m.list[:0] // index lists the tensors by device
	for t := range g.Tensors() {
		m.list = append(m.list, m.weights[t.Name])
	}
	if o.Repack {
		return m.repack(o)
	}
	return nil
}

// index lists the tensors of the context, and maps names to them.
func (m *Model) index() {
	m.list = slices.Collect(m.ctx.Tensors())
	for _, t := range m.list {
		m.weights[t.Name()], m.names[t] = t, t.Name()
	}
}

// place returns the layer and kind of a tensor of the file.
func (m *Model) place(name string) (layer int, kind layout.Kind) {
	w := m.arch.Weight(name)
	return w.Layer, w.Kind
}

// shape returns the shape of a tensor of the file in the model.
func (m *Model) shape(t ggml.GGUFTensor) []int64 {
	if w := m.arch.Weight(t.Name); w.Stacked {
		return w.Shape
	}
	return t.Shape
}

// FileShape returns the shape of a tensor of the model in files, which may have the matrices of experts as one.
func (m *Model) FileShape(t *ggml.Tensor) []int64 {
	if m != nil && m.gguf != nil {
		if info, ok := m.gguf.Tensor(m.names[t]); ok {
			return info.Shape
		}
	}
	return t.Shape()
}

// checkTables validates the tables of experts: each token needs different experts that exist.
func (m *Model) checkTables() error {
	for _, w := range m.arch.Weights() {
		if w.Role != arch.ExpertTable {
			continue
		}
		used, experts := int(w.Shape[0]), int32(m.Config().Experts)
		table, err := ggml.Read[int32](m.weights[w.Name])
		if err != nil {
			return err
		}
		for i, expert := range table {
			switch earlier := table[i-i%used : i]; {
			case expert < 0 || expert >= experts:
				return fmt.Errorf("%w: %s names expert %d for token %d, but there are %d", arch.ErrUnsupported, w.Name, expert, i/used, experts)
			case slices.Contains(earlier, expert):
				return fmt.Errorf("%w: %s names expert %d twice for token %d", arch.ErrUnsupported, w.Name, expert, i/used)
			}
		}
	}
	return nil
}

// checkTensors reports tensors that are missing, have a wrong shape or type, or that no graph uses: the model
// without them would compute another function.
func checkTensors(g *ggml.GGUF, a *arch.Architecture) error {
	var faults []string
	known := map[string]bool{}
	for _, want := range a.Weights() {
		known[want.Name] = true
		got, ok := g.Tensor(want.Name)
		switch {
		case !ok && want.Optional:
		case !ok:
			faults = append(faults, want.Name+" is missing")
		case want.Role != arch.Unused && !slices.Equal(trimmed(got.Shape), trimmed(want.Shape)) && !isFlat(want, got) && !isStacked(want, got):
			faults = append(faults, fmt.Sprintf("%s is %v, not %v", want.Name, got.Shape, want.Shape))
		case !want.CanHave(got.Type):
			faults = append(faults, fmt.Sprintf("%s has the type %v, which this kind of weight cannot have", want.Name, got.Type))
		}
	}
	for t := range g.Tensors() {
		if !known[t.Name] {
			faults = append(faults, fmt.Sprintf("%s does not belong to a model of kind %q", t.Name, a.Config().Arch))
		}
	}
	const shown = 10
	if more := len(faults) - shown; more > 0 {
		faults = append(faults[:shown], fmt.Sprintf("and %d more", more))
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s: %w: %s", g.Name(), arch.ErrUnsupported, strings.Join(faults, "; "))
	}
	return nil
}

// isFlat reports whether a norm's factors, a vector, have another shape in the file.
func isFlat(want *arch.Weight, got ggml.GGUFTensor) bool {
	n := int64(1)
	for _, d := range got.Shape {
		n *= d
	}
	return want.Role == arch.Norm && len(want.Shape) == 1 && n == want.NumElements() && got.Shape[0] > 1
}

// isStacked reports whether the file has the matrices of experts as one, one below the other.
func isStacked(want *arch.Weight, got ggml.GGUFTensor) bool {
	s := want.Shape
	return want.Stacked && slices.Equal(trimmed(got.Shape), []int64{s[0], s[1] * s[2]})
}

func trimmed(shape []int64) []int64 {
	for len(shape) > 1 && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return shape
}

// New makes a model with random weights, initialised as in GPT-2: normal with a standard deviation of 0.02, divided by √(2·layers)
// for matrices that add to the residual stream, and 1 for the norms. All are F32, except tables of experts.
func New(c arch.Config, t *tokenizer.Tokenizer, seed uint64) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a, err := arch.Resolve(c)
	if err != nil {
		return nil, err
	}
	return NewOf(a, t, seed)
}

// NewOf is New for an architecture, whose layers need not be ones of any GGUF file.
func NewOf(a *arch.Architecture, t *tokenizer.Tokenizer, seed uint64) (*Model, error) {
	return NewIn(layout.Layout{}, a, t, seed)
}

// NewIn is NewOf with the weights placed by a layout. Their values do not depend on the layout.
func NewIn(l layout.Layout, a *arch.Architecture, t *tokenizer.Tokenizer, seed uint64) (*Model, error) {
	if vocab := a.Config().Vocab; t != nil && t.NumTokens() != vocab {
		return nil, fmt.Errorf("the vocabulary has %d tokens, but the model has %d", t.NumTokens(), vocab)
	}
	a = a.Having(nil)
	m := &Model{arch: a, Tokenizer: t, ctx: ggml.NewContext(), memory: layout.NewMemory(l), weights: map[string]*ggml.Tensor{}, names: map[*ggml.Tensor]string{}}
	made := false
	defer func() {
		if !made { // also if the layout's function panics
			m.Close()
		}
	}()
	for _, w := range a.Weights() {
		m.memory.Add(w.Layer, w.Kind, m.ctx.NewTensor(w.Role.Type(), w.Shape...).SetName(w.Name))
	}
	m.index()
	if err := m.memory.Allocate(); err != nil {
		return nil, err
	}
	if err := m.randomise(seed); err != nil {
		return nil, err
	}
	made = true
	return m, nil
}

func (m *Model) randomise(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, declared := range m.arch.Weights() {
		w := m.weights[declared.Name]
		if w == nil {
			continue
		}
		values := make([]float32, w.NumElements())
		initial := declared.Init
		if initial == nil {
			initial = m.usual(declared)
		}
		initial(rng, values)
		if err := write(w, values); err != nil {
			return err
		}
	}
	return nil
}

// write sets the values of a weight, which are whole if its type is I32.
func write(w *ggml.Tensor, values []float32) error {
	if w.Type() != ggml.I32 {
		return ggml.Write(w, values)
	}
	whole := make([]int32, len(values))
	for i, x := range values {
		whole[i] = int32(x)
	}
	return ggml.Write(w, whole)
}

// usual returns the initialisation of a weight that declares none.
func (m *Model) usual(w *arch.Weight) func(rng *rand.Rand, values []float32) {
	sigma := 0.02
	if w.Residual {
		sigma /= math.Sqrt(float64(2 * m.arch.Config().Layers))
	}
	return func(rng *rand.Rand, values []float32) {
		for i := range values {
			if w.Role == arch.Norm {
				values[i] = 1
			} else {
				values[i] = float32(sigma * rng.NormFloat64())
			}
		}
	}
}

// Architecture returns the layers of the model.
func (m *Model) Architecture() *arch.Architecture { return m.arch }

// Config returns the hyper-parameters.
func (m *Model) Config() arch.Config { return m.arch.Config() }

// Weights iterates over the tensors of the model, in the order of its file.
func (m *Model) Weights() iter.Seq[*ggml.Tensor] { return slices.Values(m.list) }

// Weight returns a tensor by its name in the file, or nil.
func (m *Model) Weight(name string) *ggml.Tensor { return m.weights[name] }

// Declared returns the architecture's declaration of a tensor of the model, or nil if t is not a tensor of the
// model.
func (m *Model) Declared(t *ggml.Tensor) *arch.Weight {
	name, ok := m.names[t]
	if !ok {
		return nil
	}
	return m.arch.Weight(name)
}

// GGUF returns the metadata of the file, or nil if New made the model.
func (m *Model) GGUF() *ggml.GGUF { return m.gguf }

// Layout returns the layout of the weights.
func (m *Model) Layout() layout.Layout { return m.memory.Layout() }

// Repacked reports whether sessions compute with copies of matrices, see
// LoadOptions.Repack.
func (m *Model) Repacked() bool { return m.repacked != nil }

// CheckOpen returns an error for a model that is nil, a zero value or closed.
func (m *Model) CheckOpen() error {
	release, err := m.Retain()
	if err == nil {
		release()
	}
	return err
}

// Retain keeps the model from being freed until release is called, even if it is closed meanwhile. It fails as
// CheckOpen does.
func (m *Model) Retain() (release func(), err error) {
	switch {
	case m == nil:
		return nil, errors.New("the model is nil")
	case m.ctx == nil:
		return nil, fmt.Errorf("the model is a zero value; Load or New makes one: %w", ggml.ErrZeroValue)
	case !m.life.Retain():
		return nil, fmt.Errorf("model %s: %w", m.Path, ggml.ErrClosed)
	}
	return m.life.Release, nil
}

// Sizes returns the sizes of the weights.
func (m *Model) Sizes() layout.Sizes { return m.memory.Sizes() }

// Close frees the weights once no computation uses them and nothing writes them. It never fails.
func (m *Model) Close() error {
	if m != nil {
		m.life.Close(m.free)
	}
	return nil
}

func (m *Model) free() {
	if m.repacked != nil {
		m.repacked.Close()
	}
	m.memory.Close()
	m.ctx.Close()
	m.gguf.Close()
}

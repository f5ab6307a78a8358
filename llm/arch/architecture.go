package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// An Architecture is a model without its values: hyper-parameters, layers, and the weights that the
// layers use. It is immutable. Two models have the same architecture if their pointers are equal.
type Architecture struct {
	config   Config
	layers   []Layer
	blocks   []int        // block of the file that holds each layer's weights
	sharesKV map[int]bool // layers whose keys and values other layers read
	weights  []*Weight
	groups   [][]*Weight
	byName   map[string]*Weight
	modules  []Module

	resolved      bool // weights and groups are known
	bidirectional bool // tokens see later tokens
}

// Resolve returns the architecture for these hyper-parameters, by the table's row of their name. The
// error lists all contradictions.
func Resolve(c Config) (*Architecture, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return New(c, specs[c.Arch].layers(c))
}

// New is Resolve with the caller's layers. The hyper-parameters describe the rest, embedding and
// output; their number of layers is ignored.
func New(c Config, layers []Layer) (*Architecture, error) {
	c.Layers = len(layers)
	for i, l := range layers {
		if slices.ContainsFunc(l, func(r Residual) bool { return r.Part == nil }) {
			return nil, fmt.Errorf("%w: a residual of layer %d has no part", ErrUnsupported, i)
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if faults := c.partFaults(layers); len(faults) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(faults, "; "))
	}
	shares, err := shareKV(layers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	a := &Architecture{config: c, layers: layers, blocks: c.blocks(), sharesKV: shares, byName: map[string]*Weight{}}
	if err := a.takeInventory(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	a.modules = modulesOf(a.weights)
	return a, nil
}

// Having returns the architecture of a model whose only optional weights have these names; a nil has keeps
// none.
func (a *Architecture) Having(has func(name string) bool) *Architecture {
	of := *a.get()
	of.weights = slices.DeleteFunc(slices.Clone(of.weights), func(w *Weight) bool { return w.Optional && (has == nil || !has(w.Name)) })
	of.byName = map[string]*Weight{}
	for _, w := range of.weights {
		of.byName[w.Name] = w
	}
	return &of
}

// Config returns the hyper-parameters.
func (a *Architecture) Config() Config { return a.get().config }

// get returns a, or an empty architecture if a is nil.
func (a *Architecture) get() *Architecture {
	if a == nil {
		return &Architecture{}
	}
	return a
}

// Layers returns the layers of the residual stream, which the caller must not change.
func (a *Architecture) Layers() []Layer { return a.get().layers }

// Blocks returns for each layer the block of the file, "blk.0" and so on, that holds its weights: some
// models run their blocks several times. The caller must not change the list.
func (a *Architecture) Blocks() []int { return a.get().blocks }

// NumBlocks returns the number of blocks.
func (a *Architecture) NumBlocks() int {
	if a == nil || len(a.blocks) == 0 {
		return 0
	}
	return slices.Max(a.blocks) + 1
}

// Weights returns the tensors of a model, in the order of computation. The caller must not change them.
func (a *Architecture) Weights() []*Weight { return a.get().weights }

// Weight returns the tensor of a name in files, or nil.
func (a *Architecture) Weight(name string) *Weight { return a.get().byName[name] }

// Experts returns for each block the kinds of weight that belong to experts of its feed-forward network.
func (a *Architecture) Experts() map[int][]Kind {
	kinds := map[int][]Kind{}
	for _, w := range a.get().weights {
		if w.Role == ExpertMatrices && strings.HasPrefix(string(w.Kind), "ffn_") && strings.HasSuffix(string(w.Kind), "exps") {
			kinds[w.Layer] = append(kinds[w.Layer], w.Kind)
		}
	}
	return kinds
}

// Groups returns the groups of matrices that multiply the same input, in the order of computation.
func (a *Architecture) Groups() [][]*Weight { return a.get().groups }

// Modules returns the modules of transformers that LoRA can adapt, in the order of computation.
func (a *Architecture) Modules() []Module { return a.get().modules }

// Linears names the matrices of layers that LoRA can adapt, such as "attn_q", in the order
// of computation.
func (a *Architecture) Linears() []string {
	var list []string
	for _, w := range a.Weights() {
		if w.IsAdaptable() && w.Layer >= 0 && !slices.Contains(list, string(w.Kind)) {
			list = append(list, string(w.Kind))
		}
	}
	return list
}

// takeInventory lists the weights and groups: it builds the graph of one token from tensors
// without memory, and notes each weight that the graph requests.
func (a *Architecture) takeInventory() error {
	ctx := ggml.NewContext()
	defer ctx.Close()
	seen := map[string]*ggml.Tensor{}
	b := &Builder{
		Architecture: a,
		Source: func(name string) *ggml.Tensor {
			if w := a.byName[name]; seen[name] == nil && !w.Optional {
				seen[name] = ctx.NewTensor(w.Role.Type(), w.Shape...)
			}
			return seen[name]
		},
		NumTokens: 1, Rows: 1,
	}
	lister := nn.Stock().With(nn.Linear.By(func(t *nn.Tape, o nn.LinearOperands) []*nn.Value {
		a.noteGroup(o.Matrices)
		return nn.Linear.Plain(t, o)
	}))
	t := &nn.Tape{C: ctx, Graph: ctx.NewGraph(), Lowering: lister, Inputs: nn.NewInputs(ctx)}
	x := b.Hidden(t)
	if b.HasLogits() {
		b.Logits(t, x)
	} else {
		b.declareUnused()
	}
	b.Project(t, x)
	b.Classify(t, x)
	a.resolved = true
	return ctx.Err()
}

// note adds a requested weight to the list.
func (a *Architecture) note(w Weight) {
	if !a.resolved && a.byName[w.Name] == nil {
		listed := w // so that only these are allocated
		a.weights = append(a.weights, &listed)
		a.byName[w.Name] = &listed
	}
}

// noteGroup lists matrices that multiply the same input.
func (a *Architecture) noteGroup(matrices []nn.Matrix) {
	var group []*Weight
	for _, m := range matrices {
		group = append(group, a.byName[m.Name])
	}
	if !slices.ContainsFunc(a.groups, func(g []*Weight) bool { return g[0] == group[0] }) { // layers may share a block
		a.groups = append(a.groups, group)
	}
}

// modulesOf groups the rows of matrices by transformers' modules.
func modulesOf(weights []*Weight) []Module {
	var list []Module
	place := map[string]int{}
	for _, w := range weights {
		for _, r := range w.Rows {
			if r.Module == "" {
				continue
			}
			i, known := place[r.Module]
			if !known {
				i = len(list)
				place[r.Module] = i
				list = append(list, Module{Path: r.Module, Layer: w.Layer})
			}
			list[i].Rows = append(list[i].Rows, r)
		}
	}
	return list
}

package weightcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// A Tier says which copies of frozen matrices a device keeps, in the form that GEMMs of training take.
type Tier int

// The tiers; each includes the ones before. A graph makes copies that are not kept at each use: it dequantises, casts
// or transposes.
//
// Adapters are fused into the copies of their matrix W, as [W|B] and [Wᵀ|Aᵀ] in the compute type, so that one GEMM
// computes the sum. They are not fused where the number of columns would not be a multiple of 8.
const (
	None   Tier = iota
	Matrix      // copies in the compute type of matrices that have another type in the file
	Both        // and transposed copies of all matrices, for the backward pass
	All         // and copies with fused adapters of matrices that have the compute type in the file
)

// String returns "none", "matrix", "both" or "all".
func (k Tier) String() string {
	names := []string{"none", "matrix", "both", "all"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Tier(%d)", int(k))
	}
	return names[k]
}

// A Cache holds low-precision copies of a model's frozen matrices, on the devices that hold the matrices. Graphs
// request copies as they are built; then Allocate allocates them, and Fill computes them. Close it after the graphs.
// It is used by one goroutine.
type Cache struct {
	m      *model.Model
	engine *device.Engine
	typ    ggml.Type
	kept   []Tier // by device
	ctx    *ggml.Context
	memory *layout.Memory
	of     map[*ggml.Tensor]*copies
	list   []*copies // in the order of the requests
	made   bool

	updateCtx *ggml.Context
	update    device.Work
	access    exclusive.Access
}

// copies holds the copies of one matrix and the adapters fused into them.
type copies struct {
	w, matrix, transposed  *ggml.Tensor
	declared               *arch.Weight
	place                  int // index of the device
	inMatrix, inTransposed []nn.LoRAPair
}

// New returns a cache of copies in the compute type; kept has the tier of each device of the engine. The cache is
// empty until graphs request copies.
func New(m *model.Model, e *device.Engine, compute ggml.Type, kept []Tier) (*Cache, error) {
	if err := errors.Join(m.CheckOpen(), e.CheckOpen()); err != nil {
		return nil, err
	}
	if n := len(e.Devices()); len(kept) != n {
		return nil, fmt.Errorf("kept has tiers for %d devices, but the engine has %d devices", len(kept), n)
	}
	for _, k := range kept {
		switch {
		case k < None || k > All:
			return nil, fmt.Errorf("the tier is %d; use None, Matrix, Both or All", int(k))
		case k != None && !e.TakesCopies():
			return nil, errors.New("the CPU's kernels multiply the weights directly and use no copies")
		}
	}
	return &Cache{
		m: m, engine: e, typ: compute, kept: slices.Clone(kept),
		ctx: ggml.NewContext(), updateCtx: ggml.NewContext(), memory: layout.NewMemory(e.Layout()), of: map[*ggml.Tensor]*copies{},
	}, nil
}

// copiesOfGraph requests copies for a graph; each method declares the copy that it returns.
type copiesOfGraph struct{ *Cache }

// Matrix returns a copy of a frozen matrix, or nil if the device keeps none.
func (c copiesOfGraph) Matrix(w *ggml.Tensor) *ggml.Tensor {
	of := c.copiesOf(w)
	if of == nil || of.inMatrix != nil {
		return nil
	}
	if of.matrix == nil && !c.made && w.Type() != c.typ && c.keeps(of) >= Matrix {
		of.matrix = c.newCopy(w, w.Dim(0), w.Dim(1))
	}
	return of.matrix
}

// Transposed returns a transposed copy of a frozen matrix, or nil if the device keeps none.
func (c copiesOfGraph) Transposed(w *ggml.Tensor) *ggml.Tensor {
	of := c.copiesOf(w)
	if of == nil || of.inTransposed != nil {
		return nil
	}
	if of.transposed == nil && !c.made && c.keeps(of) >= Both {
		of.transposed = c.newCopy(w, w.Dim(1), w.Dim(0))
	}
	return of.transposed
}

// Folded returns [W|B], a copy of a frozen matrix W with the B of its adapters, or nil if the device keeps none.
func (c copiesOfGraph) Folded(w *ggml.Tensor, adapters []nn.LoRAPair) *ggml.Tensor {
	of := c.copiesOf(w)
	switch {
	case of == nil || c.keeps(of) < c.tierOfMatrix(of) || !folds(of.w, adapters):
		return nil
	case of.matrix == nil && !c.made:
		of.inMatrix = slices.Clone(adapters)
		of.matrix = c.newCopy(w, w.Dim(0)+ranks(adapters), w.Dim(1))
	}
	if !slices.Equal(of.inMatrix, adapters) {
		return nil
	}
	return of.matrix
}

// FoldedTransposed returns [Wᵀ|Aᵀ], a transposed copy of a frozen matrix W with the A of its adapters, or nil if the
// device keeps none.
func (c copiesOfGraph) FoldedTransposed(w *ggml.Tensor, adapters []nn.LoRAPair) *ggml.Tensor {
	of := c.copiesOf(w)
	switch {
	case of == nil || c.keeps(of) < Both || !folds(of.w, adapters):
		return nil
	case of.transposed == nil && !c.made:
		of.inTransposed = slices.Clone(adapters)
		of.transposed = c.newCopy(w, w.Dim(1)+ranks(adapters), w.Dim(0))
	}
	if !slices.Equal(of.inTransposed, adapters) {
		return nil
	}
	return of.transposed
}

// keeps returns the tier of the device that holds the matrix.
func (c *Cache) keeps(of *copies) Tier { return c.kept[of.place] }

// tierOfMatrix returns the lowest tier with a copy of a matrix that has adapters.
func (c *Cache) tierOfMatrix(of *copies) Tier {
	if of.w.Type() == c.typ {
		return All
	}
	return Matrix
}

// folds reports whether copies of a matrix can have fused adapters: 16-bit GEMMs are fast if rows are aligned to 16
// bytes.
func folds(w *ggml.Tensor, adapters []nn.LoRAPair) bool {
	const multiple = 8
	r := ranks(adapters)
	return (w.Dim(0)+r)%multiple == 0 && (w.Dim(1)+r)%multiple == 0
}

// ranks returns the sum of the adapters' ranks.
func ranks(adapters []nn.LoRAPair) int64 {
	var n int64
	for _, p := range adapters {
		n += p.B.Dim(0)
	}
	return n
}

func (c *Cache) newCopy(w *ggml.Tensor, rowLen, rows int64) *ggml.Tensor {
	return c.ctx.NewTensor(c.typ, rowLen, rows).SetName(w.Name() + " copy")
}

// copiesOf returns the copies of a matrix; nil if the model has no such matrix.
func (c *Cache) copiesOf(w *ggml.Tensor) *copies {
	of := c.of[w]
	if declared := c.m.Declared(w); declared != nil && of == nil && !c.made {
		place, _ := c.engine.Place(declared.Layer, declared.Kind) // CheckEngine has found it
		of = &copies{w: w, declared: declared, place: place}
		c.of[w] = of
		c.list = append(c.list, of)
	}
	return of
}

// tensors returns the copies that are not nil.
func (of *copies) tensors() []*ggml.Tensor {
	return slices.DeleteFunc([]*ggml.Tensor{of.matrix, of.transposed}, func(x *ggml.Tensor) bool { return x == nil })
}

// checkMade returns an error if the cache is nil or a zero value.
func (c *Cache) checkMade() error {
	switch {
	case c == nil:
		return errors.New("the weight cache is nil")
	case c.ctx == nil:
		return fmt.Errorf("the weight cache is a zero value; New makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// acquire locks the cache for a call.
func (c *Cache) acquire(method string) error {
	if err := c.checkMade(); err != nil {
		return err
	}
	return c.access.Acquire(method, "Cache")
}

// SizesOf returns the sizes of the requested copies if each device keeps at most tier k.
func (c *Cache) SizesOf(k Tier) layout.Sizes {
	if c.checkMade() != nil {
		return nil
	}
	sizes := make(layout.Sizes, len(c.kept))
	for _, of := range c.list {
		if of.matrix != nil && k >= c.tierOfMatrix(of) {
			sizes[of.place] += of.matrix.NumBytes()
		}
		if of.transposed != nil && k >= Both {
			sizes[of.place] += of.transposed.NumBytes()
		}
	}
	return sizes
}

// Tiers returns the tier of each device.
func (c *Cache) Tiers() []Tier {
	if c.checkMade() != nil {
		return nil
	}
	return slices.Clone(c.kept)
}

// Sizes returns the sizes of all copies, once they are allocated.
func (c *Cache) Sizes() layout.Sizes {
	if c.checkMade() != nil {
		return nil
	}
	return c.memory.Sizes().Plus(c.update.Workspace.Sizes())
}

// AddEstimate adds the copies to a memory estimate.
func (c *Cache) AddEstimate(to *estimate.Memory) error {
	if err := c.acquire("Cache.AddEstimate"); err != nil {
		return err
	}
	defer c.access.Release()
	for _, of := range c.list {
		to.Hold(of.declared.Layer, of.declared.Kind, of.tensors()...)
	}
	if nodes := c.foldNodes(c.updateCtx); nodes != nil {
		to.Compute(c.updateCtx.NewGraph(nodes...))
	}
	return to.Check()
}

// Allocate allocates the requested copies; graphs cannot request others afterwards.
func (c *Cache) Allocate() error {
	if err := c.acquire("Cache.Allocate"); err != nil {
		return err
	}
	defer c.access.Release()
	if c.made {
		return errors.New("the copies have memory already")
	}
	c.made = true
	for _, of := range c.list {
		c.memory.Add(of.declared.Layer, of.declared.Kind, of.tensors()...)
	}
	nodes := c.foldNodes(c.updateCtx)
	if err := c.memory.Allocate(); err != nil || nodes == nil {
		return err
	}
	var err error
	if c.update.Workspace, err = c.engine.NewWorkspace(); err != nil {
		return err
	}
	c.update.Graph = c.updateCtx.NewGraph(nodes...)
	return c.update.Workspace.Allocate(c.update.Graph)
}

// foldNodes returns nodes that copy the adapters into their matrices' copies.
func (c *Cache) foldNodes(to *ggml.Context) []*ggml.Tensor {
	var nodes []*ggml.Tensor
	for _, of := range c.list {
		column := of.w.Dim(0)
		for _, p := range of.inMatrix {
			nodes = append(nodes, to.Copy(p.B, columns(to, of.matrix, column, p.B.Dim(0))))
			column += p.B.Dim(0)
		}
		column = of.w.Dim(1)
		for _, p := range of.inTransposed {
			nodes = append(nodes, to.Copy(to.Transpose(p.A), columns(to, of.transposed, column, p.A.Dim(1))))
			column += p.A.Dim(1)
		}
	}
	return nodes
}

// columns returns a view of n columns of x, starting at from.
func columns(c *ggml.Context, x *ggml.Tensor, from, n int64) *ggml.Tensor {
	return c.View(x, []int64{n, x.Dim(1)}, []int64{x.Stride(1)}, from*x.Stride(0))
}

// Fill computes the copies, one matrix after the other.
func (c *Cache) Fill(ctx context.Context) error {
	if err := c.acquire("Cache.Fill"); err != nil {
		return err
	}
	defer c.access.Release()
	if !c.made {
		return errors.New("the weight copies are not allocated; call Allocate first")
	}
	if err := c.fill(ctx); err != nil {
		return err
	}
	return c.computeUpdates(ctx)
}

// fill computes the copies without their adapters. It frees its graph before other graphs are computed: an RPC server
// forgets the graphs it was sent when memory is freed.
func (c *Cache) fill(ctx context.Context) error {
	workspace, err := c.engine.NewWorkspace()
	if err != nil {
		return err
	}
	defer workspace.Close()
	for _, of := range c.list {
		if err := of.fill(ctx, workspace); err != nil {
			return err
		}
	}
	return nil
}

func (of *copies) fill(ctx context.Context, workspace *device.Workspace) error {
	c := ggml.NewContext()
	defer c.Close()
	part := func(x *ggml.Tensor, n int64) *ggml.Tensor {
		if x == nil || x.Dim(0) == n {
			return x
		}
		return columns(c, x, 0, n)
	}
	nodes := nn.FillCopies(c, of.w, part(of.matrix, of.w.Dim(0)), part(of.transposed, of.w.Dim(1)))
	if nodes == nil {
		return nil
	}
	g := c.NewGraph(nodes...)
	if err := workspace.Allocate(g); err != nil {
		return err
	}
	return workspace.Compute(ctx, g)
}

// Updates returns the work that copies changed adapters to where they are fused.
func (c *Cache) Updates() []device.Work {
	if c == nil || c.update.Graph == nil {
		return nil
	}
	return []device.Work{c.update}
}

// Update computes the work of Updates.
func (c *Cache) Update(ctx context.Context) error {
	if c == nil || c.update.Graph == nil {
		return nil
	}
	if err := c.acquire("Cache.Update"); err != nil {
		return err
	}
	defer c.access.Release()
	return c.computeUpdates(ctx)
}

func (c *Cache) computeUpdates(ctx context.Context) error {
	for _, w := range c.Updates() {
		if err := w.Workspace.Compute(ctx, w.Graph); err != nil {
			return err
		}
	}
	return nil
}

// String describes what each device keeps, such as "weights in bf16, also transposed, on CUDA0: 4.1 GiB"; it is "" if
// the cache is empty.
func (c *Cache) String() string {
	if c.checkMade() != nil {
		return ""
	}
	var parts []string
	for i, size := range c.memory.Sizes() {
		if size == 0 {
			continue
		}
		what := "weights in %v"
		if c.kept[i] >= Both {
			what = "weights in %v, also transposed,"
		}
		parts = append(parts, fmt.Sprintf(what+" on %s: %s", c.typ, c.engine.Devices()[i].Name(), layout.Bytes(size)))
	}
	return strings.Join(parts, "; ")
}

// Close frees the copies. It fails only while another call uses them.
func (c *Cache) Close() error {
	if c.checkMade() != nil {
		return nil
	}
	if err := c.acquire("Cache.Close"); err != nil {
		return err
	}
	defer c.access.Release()
	c.update.Workspace.Close()
	c.updateCtx.Close()
	c.memory.Close()
	return c.ctx.Close()
}

// Use checks that the copies suit a graph with this compute type, and retains them for the method that builds the
// graph until it calls release. A nil cache returns nil copies.
func (c *Cache) Use(method string, m *model.Model, e *device.Engine, compute ggml.Type) (copies nn.Copies, release func(), err error) {
	switch {
	case c == nil:
		return nil, func() {}, nil
	case c.checkMade() != nil:
		return nil, nil, c.checkMade()
	case c.m != m || c.engine != e:
		return nil, nil, errors.New("the copies belong to another model or another engine")
	case c.typ != compute:
		return nil, nil, fmt.Errorf("the copies have the type %v, but products the type %v", c.typ, compute)
	}
	if err := c.acquire(method); err != nil {
		return nil, nil, err
	}
	return copiesOfGraph{c}, c.access.Release, nil
}

package nn

import "github.com/goggml/ggml"

// A Lowering decides by which ops a device computes what layers are made of. It is a value
// of small interfaces: a new one starts as [Stock], and replaces what its device does better.
//
//	l := nn.Stock()
//	l.Name, l.AttentionOps = "flash", flash{}
//
// It is chosen, for a use and by where weights lie, by the engine of package
// [github.com/goggml/ggml/llm/device]; nothing else asks which device it is. Shapes are in ggml's
// order: a matrix W is [n_in, n_out], x is [n_in, n].
type Lowering struct {
	Name string        // "cpu", "stock"
	rows map[any][]any // kernels, by op
	OptimizerOps
	// TakesCopies multiplies with [Copies] of frozen matrices, which it would convert at each use.
	TakesCopies bool
	// AdamWResults is how many results as large as a parameter its AdamWStep has.
	AdamWResults int64
	// Keep is the form in which checkpoints keep their inputs.
	Keep KeepForm
	// Supports reports whether the device has an op, for those that have another form; nil is all.
	Supports func(op *ggml.Tensor) bool
	// Repacking prepares products of graphs without gradients; nil leaves them to LinearOps.
	Repacking RepackingOps
	// Fused makes them, where Repacking has prepared them.
	Fused FusedOps
}

// Lowerings returns the lowering of the device that holds a kind of weight of a layer, [NoLayer] for embedding
// and head. The kind "" stands for work without a particular matrix.
type Lowerings func(layer int, kind string) *Lowering

// NoLayer stands for the parts before and after the layers.
const NoLayer = -1

// AdamWOperands are a parameter with its gradient and its first and second moments, all F32,
// contiguous and of the same shape, and the settings of a step, F32 [8]: the learning rate, β₁, β₂,
// ε, the weight decay, 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ) for the step t = 1, 2, …, and a factor of the
// gradient. A skipped step has learning rate, decay and factor 0, and β 1.
type AdamWOperands struct{ Param, Grad, M, V, Settings *ggml.Tensor }

// GateOperands decide whether a step is taken; contiguous F32.
type GateOperands struct {
	Squares         *ggml.Tensor // [1], the square of the norm of all gradients
	Losses, Weights *ggml.Tensor // [n], of tokens; a loss with a weight of 0 does not count
	Settings        *ggml.Tensor // [8, groups + 1]: the settings of [AdamWOperands] for each group, and for a skipped step
	Clip            float64      // largest norm, of gradients times their factor; 0 for any
}

// Gradients are the gradients of all parameters, contiguous F32: one by one, and in runs of adjacent
// ones.
type Gradients struct{ Each, Runs []*ggml.Tensor }

// OptimizerOps are steps of an optimiser.
type OptimizerOps interface {
	// SumSquares adds up the squares of all gradients, to [1].
	SumSquares(c *ggml.Context, g Gradients) *ggml.Tensor
	// GateStep takes the step if the norm and all losses that count are finite. It returns the
	// square of the norm and whether the step is taken, 1 or 0, [2]; and the settings of each
	// group, or of a skipped step. A group's factor is lowered if the norm would exceed Clip.
	GateStep(c *ggml.Context, g GateOperands) (status *ggml.Tensor, settings []*ggml.Tensor)
	// AdamWStep updates the parameter and its moments in place and clears the gradient, which
	// for the settings of no step may hold what is no number. The nodes go into a graph in their order.
	AdamWStep(c *ggml.Context, a AdamWOperands) []*ggml.Tensor
}

// A MatrixGroup are matrices [n_in, n_out] that multiply the same input, of which W and the name in files are known.
type MatrixGroup struct {
	Matrices []Matrix
	Together bool // their products are used together, so they may lie in one
}

// RepackingOps prepare products of sessions: matrices and adapters that do not change.
type RepackingOps interface {
	// Repack copies matrices of a file into the layouts in which the device multiplies fastest for
	// this many sequences at once.
	Repack(file *ggml.GGUF, groups []MatrixGroup, sequences int) (Repacked, error)
	// Fuse prepares the products of groups with adapters, by repacked copies if there are any.
	Fuse(p Repacked, groups []MatrixGroup, adapters Adapters) (FusedOps, error)
}

// Repacked are matrices that [RepackingOps] copied. Close frees them.
type Repacked interface{ Close() error }

// FusedOps are whole linear layers without gradients. Close frees what was prepared for them.
type FusedOps interface {
	// Linear is [Tape.Linear] of the matrices of a group.
	Linear(t *Tape, x *Value, matrices ...Matrix) []*Value
	Close() error
}

// A KeepForm is one in which checkpoints keep their inputs [m, n].
type KeepForm int

// The forms.
const (
	KeepExact      KeepForm = iota
	KeepCompressed          // to 18 bits, in three quarters of the memory; exactly where m is no multiple of 32
	KeepBF16                // as products in BF16 round it anyway
)

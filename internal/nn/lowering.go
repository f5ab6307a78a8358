package nn

import (
	"io"

	"github.com/goggml/ggml"
)

// A Lowering is the table of a device: by which kernels it builds ops. A new one is another with rows before its own,
// such as the plain forms of [Stock] with a kernel for attention that it has for some operands:
//
//	l := nn.Stock().With(nn.Attention.When(takes, attend))
//
// It is chosen, for a use and by where weights lie, by the engine of package
// [github.com/goggml/ggml/llm/device]; nothing else asks which device it is. Shapes are in ggml's
// order: a matrix W is [n_in, n_out], x is [n_in, n].
type Lowering struct {
	Name string        // "cpu", "stock"
	rows map[any][]any // kernels, by op
	// TakesCopies multiplies with [Copies] of frozen matrices, which it would convert at each use.
	TakesCopies bool
	// AdamWResults is how many results as large as a parameter AdamWStep has.
	AdamWResults int64
	// Supports reports whether the device has an op, for those that have another form; nil is all.
	Supports func(op *ggml.Tensor) bool
	// Repacking prepares the products of sessions; nil prepares nothing.
	Repacking RepackingOps
}

// Lowerings returns the lowering of the device that holds a kind of weight of a layer, [NoLayer] for embedding
// and head. The kind "" stands for work without a particular matrix.
type Lowerings func(layer int, kind string) *Lowering

// NoLayer stands for the parts before and after the layers.
const NoLayer = -1

// A MatrixGroup are matrices [n_in, n_out] that multiply the same input, of which W and the name in files are known.
type MatrixGroup struct {
	Matrices []Matrix
	Together bool // their products are used together, so they may lie in one
}

// RepackingOps prepare products of sessions: matrices and adapters that do not change.
type RepackingOps interface {
	// Repack copies matrices of a file into the layouts in which the device multiplies them
	// fastest, for so many sequences at once.
	Repack(file *ggml.GGUF, groups []MatrixGroup, sequences int) (Repacked, error)
	// Fuse returns a row of products of groups with adapters, by their repacked copies if there are, without
	// gradients. It is valid until the closer frees what was prepared for it.
	Fuse(p Repacked, groups []MatrixGroup, adapters Adapters) (Row, io.Closer, error)
}

// Repacked are matrices that [RepackingOps] copied. Close frees them.
type Repacked io.Closer

package nn

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
)

// A Lowering is the table of a device's kernels. A new table adds rows in front of another's, such as a kernel for
// attention of some operands to the plain forms of [Stock]:
//
//	l := nn.Stock().With(nn.Attention.When(takes, attend))
//
// The engine of package [github.com/goggml/ggml/llm/device] chooses the table, by use and by the device
// that holds the weights; nothing else asks which device it is. Shapes are in ggml's order: a matrix W
// is [n_in, n_out], x is [n_in, n].
type Lowering struct {
	Name string        // "cpu", "stock"
	rows map[any][]any // kernels, by op
	// Supports reports whether the device has an op that also has another form; nil: all.
	Supports func(op *ggml.Tensor) bool
}

// Lowerings returns the lowering of the device that holds a kind of weight of a layer, [NoLayer] for embedding
// and head. The kind "" stands for work without a particular matrix.
type Lowerings func(layer int, kind layout.Kind) *Lowering

// NoLayer stands for the parts before and after the layers.
const NoLayer = -1

// A MatrixGroup lists matrices [n_in, n_out] that multiply the same input. Only W and the name are set.
type MatrixGroup struct {
	Matrices []Matrix
	Together bool // the products are used together, so one tensor may hold them
}

package arch

import (
	"math/rand/v2"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/layout"
)

// A Role is the purpose of a weight.
type Role int

// The roles of weights.
const (
	Linear         Role = iota // a matrix of products [n_in, n_out], which LoRA can adapt
	Embedding                  // a matrix whose rows are looked up; if tied, it is also the output matrix
	Norm                       // the factors of a norm
	Bias                       // the bias of a product [n_out]
	Scale                      // the factor [1] of a product, before adapters and bias are added
	OutScale                   // the factor of a product [1] with adapters and bias
	ExpertMatrices             // matrices of products [n_in, n_out, experts]; a router chooses some for each token
	Gate                       // a vector of products [n_in]
	ChoiceBias                 // added to the scores of experts for their choice alone [experts]
	RoPEFreqs                  // divisors of RoPE's frequencies [dims/2]
	Position                   // a matrix with a row for each position
	Kernel                     // the kernel of a convolution of each channel [taps, channels]
	Sink                       // attention sinks: scores without a key, in the sum of a softmax alone
	Decay                      // factors of the logarithms of decays [heads], [1, heads] or [states, heads]
	ExpertTable                // the experts of each token [used, vocab]
	Skip                       // factors of the input that bypasses a recurrence [heads] or [1, heads]
	Factors                    // elementwise factors [n, …], or matrices of RWKV's mixtures [n_in, n_out, mixtures]
	Unused                     // a tensor of the file that the text model does not compute with
)

// CanHave reports whether a weight of the role can be of a type: rows of a matrix are
// converted from any float or quantised type, and all else is F32.
func (r Role) CanHave(t ggml.Type) bool {
	switch r {
	case Unused:
		return true
	case Linear, Embedding, ExpertMatrices, Position:
		return t.CanDequantize()
	}
	return t == r.Type()
}

// Type returns the type of weights of the role in a new model.
func (r Role) Type() ggml.Type {
	if r == ExpertTable {
		return ggml.I32
	}
	return ggml.F32
}

// A Kind is a kind of weights, see [layout.Kind].
type Kind = layout.Kind

// A Presence says whether models have something.
type Presence int

// The presences.
const (
	Never Presence = iota
	Maybe          // a file has it or not
	Always
)

// A Weight is a tensor that a model has. Its name says nothing that is not in the other
// fields, and nobody has to take it apart.
type Weight struct {
	Name     string // in GGUF files, such as "blk.0.attn_q.weight"
	Kind     Kind   // "attn_q" for what belongs to this matrix: itself, its bias and its scales
	Layer    int    // -1 outside of the layers
	Shape    []int64
	Role     Role
	Optional bool // a file may lack it
	Residual bool // it makes what a layer adds to the residual stream
	Named    bool // it is adapted only where it is named: experts, and what chooses them
	KeepType bool // llama-quantize does not convert it with the matrices: routers, positions, and tensors that only look like matrices
	NoLoRA   bool // it is not adapted: stock llama.cpp would ignore it
	AnyType  bool // files may have it in any type, whatever its role
	Stacked  bool // files may have the matrices of experts as one, one below the other: [n_in, n_out·experts]
	Frozen   bool // it makes a choice alone, to which no gradient flows
	Used     int  // of matrices of experts, how many a token is computed with
	// Init makes the values of a new model; nil stands for ones in norms, and a normal distribution elsewhere.
	Init func(rng *rand.Rand, values []float32)
	// Rows are the row ranges of an adaptable matrix in order. A fused matrix has one for each matrix of other files.
	// Matrices of experts have none: they are not modules in transformers.
	Rows []Rows
}

// IsAdaptable reports whether LoRA can adapt the weight.
func (w *Weight) IsAdaptable() bool {
	return !w.NoLoRA && (w.Role == Linear || w.Role == Embedding || w.Role == ExpertMatrices)
}

// CanHave reports whether the weight can be of a type.
func (w *Weight) CanHave(t ggml.Type) bool {
	return w.Role.CanHave(t) || w.AnyType && t.CanDequantize()
}

// IsTrainable reports whether gradients flow to the weight: to all except divisors of frequencies, factors of products, and
// what makes a choice.
func (w *Weight) IsTrainable() bool {
	switch w.Role {
	case RoPEFreqs, Scale, OutScale, ChoiceBias, ExpertTable, Unused:
		return false
	}
	return !w.Frozen
}

// IsConvertible reports whether llama-quantize converts the weight with the model's matrices.
func (w *Weight) IsConvertible() bool {
	switch w.Role {
	case Linear, Embedding, ExpertMatrices, Position, Unused:
		return !w.KeepType && len(w.Shape) > 1
	}
	return false
}

// NumElements returns the number of elements of the tensor.
func (w *Weight) NumElements() int64 {
	n := int64(1)
	for _, d := range w.Shape {
		n *= d
	}
	return n
}

// Rows are rows of a matrix that some have as a matrix of their own. Where a GGUF file and
// transformers fuse different matrices, both have the same rows.
type Rows struct {
	Name   string // such as "blk.0.attn_q": the name of the matrix if none were fused
	Module string // the path of transformers' module that holds them, see [Module]; "" if transformers does not store them as rows
	Count  int64
	// PermutedHeads is the number of heads whose rows GGUF has in another order than
	// transformers, 0 if the order is the same: in each head, row 2i is transformers' row
	// i, and row 2i+1 is the one half a head below it. Transformers rotates halves of a
	// head, and GGUF neighbours where the mode of RoPE is [ggml.RoPENorm].
	PermutedHeads int
	// Tiled are heads whose rows GGUF has in another order than transformers; TiledInputs are heads whose elements the
	// matrix multiplies in another order.
	Tiled, TiledInputs Tiling
	// Parameter: the module is not a linear layer, but has a matrix as its weight (transformers 5's routers).
	Parameter bool
}

// A Tiling is the order in GGUF of heads that share queries and keys: the first of each group, then the second of each.
// Transformers has the heads of a group one after the other. The zero value is no heads.
type Tiling struct{ Groups, Each int }

// A Module is a matrix as transformers has it, and with it PEFT and mlx-lm.
type Module struct {
	// Path starts at the text model, such as "layers.0.self_attn.q_proj" or "embed_tokens";
	// "lm_head" stands beside the text model.
	Path  string
	Layer int // -1 outside of the layers
	Rows  []Rows
}

// Name is the last part of the path, such as "q_proj".
func (m Module) Name() string { return m.Path[strings.LastIndexByte(m.Path, '.')+1:] }

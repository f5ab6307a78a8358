package layout

// A Kind names weights that do the same in each layer, or outside of layers, as GGUF files name them: "attn_q". What
// belongs to a matrix, such as its bias, its adapter and its gradient, has the kind of the matrix.
type Kind string

// Kinds that code names: of weights, and of other memory beside them.
const (
	TokenEmbd Kind = "token_embd"
	Output    Kind = "output"      // outside of layers: the output matrix, losses and other results
	Most      Kind = "attn_output" // per layer: most intermediate results
	KVCache   Kind = "kv cache"    // per layer: keys and values of sessions; no weights
)

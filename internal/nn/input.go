package nn

import "github.com/goggml/ggml"

// WriteUsed writes an input that not every graph reads, and which has memory only then.
func WriteUsed[T ggml.Element](x *ggml.Tensor, values []T) error {
	if !x.IsAllocated() {
		return nil
	}
	return ggml.Write(x, values)
}

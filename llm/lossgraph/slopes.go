package lossgraph

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// TrainsHead reports whether the matrix of the logits, or an adapter on it, is among the trained tensors. Its gradients
// are added up with the logits' gradients, before all losses are known. A closed model trains nothing.
func TrainsHead(m *model.Model, adapters model.Adapters, grads map[*ggml.Tensor]*ggml.Tensor) bool {
	if m.CheckOpen() != nil {
		return false
	}
	b := &arch.Builder{Architecture: m.Architecture(), Source: m.Weight}
	return b.TrainsHead(&nn.Tape{Adapters: nn.AdaptersOf(adapters), Grads: grads})
}

// factors returns the function that gives the gradient of each token its factor by Options.Slopes; nil without.
func (l *Graph) factors(slopes func(logProbs []float64) ([]float64, error)) func(losses *ggml.Tensor) *ggml.Tensor {
	if slopes == nil {
		return nil
	}
	return func(losses *ggml.Tensor) *ggml.Tensor {
		return l.ctx.Custom(ggml.CustomOptions{Threads: 1, Type: ggml.F32, Shape: []int64{1, losses.Dim(0)}, Func: func(_ ggml.Worker, y ggml.CustomTensor, x ...ggml.CustomTensor) error {
			return l.computing.putFactors(ggml.CustomSlice[float32](y), ggml.CustomSlice[float32](x[0]), slopes)
		}}, losses)
	}
}

// putFactors sets the factor of each token to −slope of its sample; after an error to NaN, so that no step is taken by
// what runs before the error arrives.
func (b Batch) putFactors(factors, losses []float32, slopes func(logProbs []float64) ([]float64, error)) error {
	for i := range factors {
		factors[i] = float32(math.NaN())
	}
	logProbs, err := b.LogProbs(losses)
	if err != nil {
		return err
	}
	of, err := slopes(logProbs)
	if err == nil && len(of) != len(logProbs) {
		err = fmt.Errorf("the function Slopes returned %d slopes for the %d samples of the batch", len(of), len(logProbs))
	}
	if err != nil {
		return err
	}
	for i := range factors {
		factors[i] = float32(-of[b.sampleOf(i)])
	}
	return nil
}

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/goggml/ggml"
)

// A Batch is the input of a [LossGraph]: sequences of equal length, one after
// the other.
type Batch struct {
	Tokens  []int32   // what the model sees
	Targets []int32   // the token that follows each
	Weights []float32 // of each target in the loss; 0 leaves it out. nil: all 1/n
}

// An Engine computes graphs: a backend, and the memory for their results.
// Close both after use.
type Engine struct {
	Backend   *ggml.Backend
	Allocator *ggml.GraphAllocator
	allocated *ggml.Graph
}

// NewEngine opens a CPU engine with that many threads; 0 stands for
// [ggml.DefaultThreads].
func NewEngine(threads int) (*Engine, error) {
	b, err := ggml.NewCPUBackend(threads)
	if err != nil {
		return nil, err
	}
	a, err := ggml.NewGraphAllocator(b.BufferType())
	if err != nil {
		b.Close()
		return nil, err
	}
	return &Engine{Backend: b, Allocator: a}, nil
}

// Allocate gives memory to the graph, if it was not the last one to get it.
func (e *Engine) Allocate(g *ggml.Graph) error {
	if e.allocated == g {
		return nil
	}
	e.allocated = nil
	if err := e.Allocator.Alloc(g); err != nil {
		return err
	}
	e.allocated = g
	return nil
}

// Close frees the engine. It never fails.
func (e *Engine) Close() error {
	if e == nil {
		return nil
	}
	e.Allocator.Close()
	return e.Backend.Close()
}

// Compute runs the batch through the graph: it returns the loss of each token,
// −log p(target) in nats, and adds Σ weight·∂loss/∂parameter to the gradient
// accumulators when the graph has them.
func (l *LossGraph) Compute(ctx context.Context, e *Engine, b Batch) ([]float32, error) {
	if err := l.check(b); err != nil {
		return nil, err
	}
	if err := l.Allocate(e); err != nil {
		return nil, err
	}
	if err := l.write(b); err != nil {
		return nil, err
	}
	if err := e.Backend.Compute(ctx, l.Graph); err != nil {
		return nil, err
	}
	losses := make([]float32, 0, l.length*l.batch)
	for _, h := range l.heads {
		probs, err := ggml.Read[float32](h.probs)
		if err != nil {
			return nil, err
		}
		for _, p := range probs {
			losses = append(losses, float32(-math.Log(max(float64(p), math.SmallestNonzeroFloat32))))
		}
	}
	return losses, nil
}

// Allocate gives the graph memory of its own, if it has none yet; the first
// Compute does so too.
func (l *LossGraph) Allocate(e *Engine) error {
	if l.allocator != nil {
		return nil
	}
	a, err := ggml.NewGraphAllocator(e.Backend.BufferType())
	if err != nil {
		return err
	}
	if err := a.Alloc(l.Graph); err != nil {
		a.Close()
		return err
	}
	l.allocator = a
	return nil
}

// Memory is the size in bytes of the graph's results, known once it has been
// allocated.
func (l *LossGraph) Memory() int64 {
	if l.allocator == nil {
		return 0
	}
	return l.allocator.Size()
}

func (l *LossGraph) check(b Batch) error {
	n := int(l.length * l.batch)
	if len(b.Tokens) != n || len(b.Targets) != n || b.Weights != nil && len(b.Weights) != n {
		return fmt.Errorf("the batch has %d tokens, %d targets and %d weights; the graph takes %d of each", len(b.Tokens), len(b.Targets), len(b.Weights), n)
	}
	for i := range n {
		if t := b.Tokens[i]; t < 0 || int64(t) >= l.vocab {
			return fmt.Errorf("token %d of the batch is %d; the vocabulary has %d", i, t, l.vocab)
		}
		if t := b.Targets[i]; t < 0 || int64(t) >= l.vocab {
			return fmt.Errorf("target %d of the batch is %d; the vocabulary has %d", i, t, l.vocab)
		}
	}
	return nil
}

// write fills the inputs. All of them: the graph reuses their memory.
func (l *LossGraph) write(b Batch) error {
	positions := make([]int32, l.length)
	for i := range positions {
		positions[i] = int32(i)
	}
	if err := ggml.Write(l.tokens, b.Tokens); err != nil {
		return err
	}
	if err := ggml.Write(l.position, positions); err != nil {
		return err
	}
	from := 0
	for _, h := range l.heads {
		if err := h.write(b, from, l.vocab); err != nil {
			return err
		}
		from += int(h.labels.Dim(0))
	}
	return nil
}

func (h *headChunk) write(b Batch, from int, vocab int64) error {
	n := int(h.labels.Dim(0))
	labels := make([]int32, n)
	for i := range labels {
		labels[i] = int32(int64(i)*vocab + int64(b.Targets[from+i]))
	}
	if err := ggml.Write(h.labels, labels); err != nil {
		return err
	}
	if !h.weights.IsAllocated() {
		return nil // without gradients nothing reads them
	}
	weights := make([]float32, n)
	for i := range weights {
		if b.Weights == nil {
			weights[i] = 1 / float32(len(b.Tokens))
		} else {
			weights[i] = b.Weights[from+i]
		}
	}
	return ggml.Write(h.weights, weights)
}

package lossgraph

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/weightcache"
)

// Options describe a [Graph].
type Options struct {
	Length, Batch int // tokens of a row; rows
	// Packed lets rows hold several samples: a [Batch] may have Starts.
	Packed bool
	// Branched lets samples branch: several continuations share one prompt, and a Batch may have Hidden. It needs
	// Packed, and a model whose tokens affect each other by attention alone.
	Branched bool
	// Context is the sample length that selects the RoPE factors of models with factors for long contexts; 0 means
	// Length. Graphs with other lengths compute the same losses if Context is the same.
	Context  int
	Adapters model.Adapters
	// Workspace is memory that graphs share, one after the other; it must stay open as long as they do. nil gives
	// the graph a workspace of its own.
	Workspace *device.Workspace
	// Grads maps each trained tensor to the accumulator that its gradient is added to. nil builds no backward pass.
	Grads map[*ggml.Tensor]*ggml.Tensor
	// Hooks are called during the backward pass.
	Hooks []Hook
	// Layers are the layers that the graph computes; others pass their input on, which saves time. nil means all.
	// The computation calls LayerHook whenever it enters or leaves a layer, and waits for it; nil means none.
	Layers    []int
	LayerHook func(layer int, e arch.LayerEvent)
	// Teacher makes the loss the divergence from a teacher, for distillation; nil means cross-entropy.
	Teacher *Teacher
	// Slopes makes the graph compute a [SampleLoss] in one pass. It is called once all losses are known and before any
	// gradient, with [Batch.LogProbs], and returns the slope of each sample. Gradients are the same as with [Batch.WithSlopes], up
	// to rounding. The computation waits for it, and fails with its error. It needs Grads of other tensors than the head's,
	// see [TrainsHead]. nil means slopes of −1.
	Slopes func(logProbs []float64) (slopes []float64, err error)
	// Losses receives the loss of each token, for graphs that continue from it: F32, contiguous, with at least one
	// element per token. If it is nil, the graph allocates the tensor.
	Losses *ggml.Tensor
	// CrossEntropy is like Losses for the cross-entropy of each token, which graphs with a Teacher compute too.
	CrossEntropy *ggml.Tensor
	// Checkpoint recomputes results of layers in the backward pass instead of keeping them, except as many as take no
	// more than Keep bytes: those that save most work for their memory. With 0 a step is up to a third slower, in a
	// fraction of the memory. Losses and gradients are the same bytes whatever is kept.
	Checkpoint bool
	Keep       int64
	// ComputeType is the type of the GEMMs with frozen weights: F32, the zero value, is exact; BF16 rounds both
	// operands; F16 rounds the sums too. BF16 or F16 is faster if it is the [kernels.FastestType]. Adapters are
	// exact in the forward pass; their gradients use GEMMs in BF16 with BF16, and in F32 with F16. I16, on the CPU,
	// uses [kernels.GEMMInt] and [kernels.GEMMGradInputInt]. I8 uses [kernels.GEMMGradInputI8] except for gradients of
	// what attention returns, and forward BF16 if that is the FastestType, else GEMMInt.
	ComputeType ggml.Type
	// Copies are low-precision copies of the frozen matrices, which the graph requests as it is built and multiplies
	// with; nil means none.
	Copies *weightcache.Cache
	// Dropout is the probability of dropping each input of a trained adapter's A; the others are scaled by
	// 1/(1−Dropout). Adapters of the token embedding have none, as in PEFT. 0 means none; it needs Grads.
	Dropout float32
	// NEFTune is the alpha of noise on the embeddings (arXiv 2310.05914): uniform in ±alpha/√(L·d), for a sample of
	// L tokens and embeddings of width d. 0 means none; it needs Grads.
	NEFTune float32
	// LogitsChunk is the number of tokens whose logits exist at a time; 0 means 512. With smaller chunks the head's
	// matrix is read more often. There are at most 2³¹ logits at a time.
	LogitsChunk int
	// FeedForwardChunk is the number of tokens that go through a feed-forward network at a time in graphs with Grads;
	// 0 means 512.
	FeedForwardChunk int
}

// A BatchSizeError reports a batch with more tokens than a [Graph] can compute.
type BatchSizeError struct {
	Batch, Length int // number of rows; tokens per row
	MaxTokens     int // limit of the tokens of a batch
}

// Error states what is too large and the remedy.
func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("a batch of %d sequences of %d tokens is too large: at most %d tokens can be computed at a time; use smaller batches, and more of them per step", e.Batch, e.Length, e.MaxTokens)
}

func (o Options) check(m *model.Model) error {
	if o.Length < 1 || o.Batch < 1 {
		return fmt.Errorf("a batch of %d sequences of %d tokens is empty", o.Batch, o.Length)
	}
	most := 1 << 24 // tokens; their activations need far more than any memory
	if o.Grads != nil {
		most = min(most, nn.MaxColumns(m.Config().Embd)) // gradients are assembled from chunks
	}
	if o.Length > most || o.Batch > most/o.Length {
		return &BatchSizeError{Batch: o.Batch, Length: o.Length, MaxTokens: most}
	}
	for _, x := range []*ggml.Tensor{o.Losses, o.CrossEntropy} {
		if x != nil && (x.Type() != ggml.F32 || !x.IsContiguous() || x.NumElements() < int64(o.Length*o.Batch)) {
			return fmt.Errorf("the losses of %d tokens are written to %v, which must be contiguous F32 with an element for each", o.Length*o.Batch, x)
		}
	}
	if err := o.Teacher.check(m.Config().Vocab); err != nil {
		return err
	}
	if o.Branched {
		if !o.Packed {
			return errors.New("a branched graph holds packed samples; set Packed too")
		}
		if err := m.Architecture().CheckBranched(); err != nil {
			return err
		}
	}
	if o.Slopes != nil && (o.Grads == nil || o.Teacher != nil || TrainsHead(m, o.Adapters, o.Grads)) {
		return errors.New("the option Slopes needs a backward pass, no teacher, and a head that is not trained; compute the log-probabilities first, and then the batch of WithSlopes")
	}
	for _, i := range o.Layers {
		if n := m.Config().Layers; i < 0 || i >= n {
			return fmt.Errorf("layer %d does not exist; the model has %d, counted from 0", i, n)
		}
	}
	if err := m.CheckAdapters(o.Adapters); err != nil {
		return err
	}
	return o.checkNoise()
}

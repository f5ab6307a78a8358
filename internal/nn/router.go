package nn

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
)

// A Gating turns a router's logits into weights. The numbers are the ones in files.
type Gating int

// The gatings.
const (
	GatingSoftMax       Gating = 1 // over all experts
	GatingSigmoid       Gating = 2
	GatingSoftMaxChosen Gating = 3 // over the chosen ones
	GatingSqrtSoftplus  Gating = 4 // √log(1 + eˣ)
)

// RouterOptions are the differences between routers.
type RouterOptions struct {
	Used   int // experts that each token chooses
	Gating Gating
	// ChoiceBias [experts] is added to choose experts, and not to weigh them; nil: none.
	ChoiceBias *ggml.Tensor
	// ByLogits chooses by logits, whose order is the order of the probabilities.
	ByLogits   bool
	Normalized bool    // the weights of the chosen experts sum to one
	Scale      float32 // of the weights; 0 and 1: none
	// Groups is the number of groups of experts; experts are chosen from the GroupsUsed groups
	// whose two best scores have the largest sum. Up to 1 means no groups.
	Groups, GroupsUsed int
	// Chosen are the experts of each token, I32 [used, n]; nil: the ones with the best scores.
	Chosen *ggml.Tensor
}

// RouterOperands are logits [experts, n].
type RouterOperands struct {
	Logits *Value
	RouterOptions
}

// Routed holds the experts that each token chooses, I32 [used, n], and their weights [used, n].
type Routed struct {
	IDs     *ggml.Tensor
	Weights *Value
}

// Router chooses experts (arXiv 1701.06538). The choice is a saved tensor, see [Tape.Saved]; gradients flow through the
// weights.
var Router = &Op[RouterOperands, Routed]{func(t *Tape, o RouterOperands) Routed {
	scores := o.Logits
	switch o.Gating {
	case GatingSoftMax:
		scores = t.SoftMax(o.Logits)
	case GatingSigmoid:
		scores = t.Sigmoid(o.Logits)
	case GatingSqrtSoftplus:
		scores = t.Sqrt(t.Softplus(o.Logits))
	}
	ids := o.Chosen
	if ids == nil {
		ids = t.Saved(func() *ggml.Tensor {
			by := scores.T
			if o.ByLogits {
				by = o.Logits.T
			}
			return watchChoice(t.C, t.C.ArgSortTopK(o.inGroups(t.C, addBias(t.C, by, o.ChoiceBias)), o.Used))
		})
	}
	weights := t.Chosen(scores, ids)
	if o.Gating == GatingSoftMaxChosen {
		weights = t.SoftMax(weights)
	}
	if o.Normalized {
		weights = t.Normalized(weights)
	}
	return Routed{ids, t.Scale(weights, o.Scale)}
}}

// watchChoice passes the chosen experts [used, n] through [testhook.Routed].
func watchChoice(c *ggml.Context, ids *ggml.Tensor) *ggml.Tensor {
	if testhook.Routed == nil {
		return ids
	}
	pass := func(_ ggml.Worker, y ggml.CustomTensor, x ...ggml.CustomTensor) error {
		experts := ggml.CustomSlice[int32](y)
		copy(experts, ggml.CustomSlice[int32](x[0]))
		if testhook.Routed != nil {
			testhook.Routed(experts)
		}
		return nil
	}
	return c.Custom(ggml.CustomOptions{Func: pass, Threads: 1, Type: ggml.I32, Shape: ids.Shape()}, c.Cont(ids))
}

// inGroups returns the scores [experts, n], with the lowest value outside of the chosen groups.
func (o RouterOptions) inGroups(c *ggml.Context, scores *ggml.Tensor) *ggml.Tensor {
	if o.Groups <= 1 {
		return scores
	}
	groups, n := int64(o.Groups), scores.Dim(1)
	size := scores.Dim(0) / groups
	scores = c.Reshape(scores, size, groups, n)
	pairs := c.GetRows(c.Reshape(scores, 1, size, groups, n), c.ArgSortTopK(scores, 2))
	sums := c.Reshape(c.SumRows(c.Reshape(pairs, 2, groups, n)), groups, n)
	chosen := c.ArgSortTopK(sums, o.GroupsUsed)
	lowest := c.Fill(scores, float32(math.Inf(-1)))
	return c.Reshape(c.SetRows(lowest, c.GetRows(scores, chosen), chosen), size*groups, n)
}

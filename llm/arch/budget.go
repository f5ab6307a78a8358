package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// budgetFault is the error of texts in which an indexer would choose keys.
func (a Attention) budgetFault(length int) error {
	return fmt.Errorf("%w: the model's indexer chooses %d keys for each query, which is unsupported: use at most %d tokens instead of %d", ErrUnsupported, a.Budget, a.Budget, length)
}

// withinBudget returns the queries q [size, heads, n·rows], or an error in a graph of rows that are longer than the budget. Shorter
// ones attend to all keys, with an indexer as without.
func (a Attention) withinBudget(p Place, t *nn.Tape, q *nn.Value) *nn.Value {
	if n := int(q.T.Dim(2) / p.Rows); a.Budget > 0 && n > a.Budget && p.State(0) == nil {
		return nn.Input(t.C.BuildOp("attention", []*ggml.Tensor{q.T}, func(b *ggml.OpBuilder) *ggml.Tensor {
			b.Require(false, "%v", a.budgetFault(n))
			return nil
		}))
	}
	return q
}

// unusedIndexer are the weights of an indexer of queries and keys in a block, each with its norm, which no graph of texts within the
// budget uses.
func (c *Config) unusedIndexer(block int) []Weight {
	prefix, size := blockPrefix(block)+"indexer.", c.IndexHeadSize
	list := []Weight{
		unused(prefix+"q_proj.weight", c.Embd, c.IndexHeads*size), unused(prefix+"k_proj.weight", c.Embd, size),
		unused(prefix+"q_norm.weight", size), unused(prefix+"k_norm.weight", size),
	}
	for i := range list {
		list[i].KeepType = true
	}
	return list
}

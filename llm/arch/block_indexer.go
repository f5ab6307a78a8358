package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// A BlockIndexer chooses blocks of adjacent keys for the queries of a layer, by normalised queries and keys of its own. The choice
// has no gradient, so its weights are frozen. The zero value chooses all.
type BlockIndexer struct {
	Heads, HeadSize int
	Keys            int        // that each query chooses, in whole blocks, beside those that it always sees
	Blocks          nn.Pooling // see [nn.Indexer]
	// EachKVHead makes a choice for each KV head by a head of the indexer, whose score of a block is its largest product (MiniMax
	// M3). Otherwise all heads make one choice, by the mean key of each block (Qwen4).
	EachKVHead bool
	RoPE       ggml.RoPE
}

// is reports whether a layer has an indexer.
func (x BlockIndexer) is() bool { return x.Keys > 0 }

// choose returns the choices of keys for a layer's input: one, or one for each KV head; nil without an indexer.
func (x BlockIndexer) choose(p Place, t *nn.Tape, input *nn.Value) []*nn.Chosen {
	if !x.is() {
		return nil
	}
	n, size, heads := input.T.Dim(1), int64(x.HeadSize), int64(x.Heads)
	made := t.Linear(nn.Input(input.T), x.matrix(p, "indexer.q_proj", size*heads), x.matrix(p, "indexer.k_proj", size))
	q := t.Norm(t.Heads(t.Contiguous(made[0]), heads), x.norm(p, "indexer.q_norm"))
	index := nn.Indexer{Q: x.rotate(t, q, t.Positions(n), t.SectionPositions(n)), Keys: x.Keys, Pooling: x.Blocks}
	k, norm := t.Contiguous(made[1]), x.norm(p, "indexer.k_norm")
	if x.EachKVHead {
		return x.chooseEach(p, t, index, x.rotate(t, t.Norm(t.Heads(k, 1), norm), t.Positions(n), t.SectionPositions(n)))
	}
	index.Weights = nn.Input(t.Ones(heads, n))
	if m := p.gatherPools(t, 1, x.Blocks, k, nil); m != nil {
		index.K = x.rotate(t, t.Norm(t.Unflatten(t.Pool(*m), 1), norm), m.Positions, m.SectionPositions)
	}
	if kept, ok := p.State(1).(*state.Pools); ok {
		return []*nn.Chosen{state.ChooseKeys(t, p.Pass, index, kept.Write(t, p.Pass, n, index.K))}
	}
	return []*nn.Chosen{t.Choose(index, p.wholeRows())}
}

// chooseEach returns a choice for each head of the indexer, by the keys k [size, 1, n].
func (x BlockIndexer) chooseEach(p Place, t *nn.Tape, index nn.Indexer, k *nn.Value) (list []*nn.Chosen) {
	choose := func() *nn.Chosen { return t.Choose(index, p.wholeRows()) }
	if kept, ok := p.State(1).(state.PoolKeys); ok {
		keys := kept.Write(t, p.Pass, k)
		choose = func() *nn.Chosen { return state.ChooseKeys(t, p.Pass, index, keys) }
	} else {
		index.K = t.KeysOfPools(k, x.Blocks, p.Rows)
	}
	for _, index.Q = range t.HeadGroups(index.Q, int64(x.Heads)) {
		list = append(list, choose())
	}
	return list
}

// rotate rotates heads [size, heads, n] by positions, or by positions of sections if RoPE has sections.
func (x BlockIndexer) rotate(t *nn.Tape, heads *nn.Value, positions, ofSections nn.PositionInput) *nn.Value {
	if x.RoPE.Sections != [4]int{} {
		positions = ofSections
	}
	return t.RoPE(heads, nn.Rotation{RoPE: x.RoPE, Positions: positions})
}

// matrix declares a frozen matrix of a layer's input.
func (BlockIndexer) matrix(p Place, kind Kind, out int64) nn.Matrix {
	return p.Matrix(kind, int64(p.config.Embd), out, MatrixOptions{NoScale: true, NoLoRA: true, Frozen: true, KeepType: true})
}

// norm declares a frozen norm of heads.
func (x BlockIndexer) norm(p Place, kind Kind) nn.Norm {
	n := p.normOf()
	n.Weight = p.Weight(Weight{Kind: kind, Shape: []int64{int64(x.HeadSize)}, Role: Norm, Frozen: true})
	return n
}

// newState makes the cache of the indexer's keys.
func (x BlockIndexer) newState(o state.Options) (state.State, error) {
	if x.EachKVHead {
		return state.NewPoolKeys(o, x.Blocks, x.HeadSize)
	}
	return state.NewPools(o, x.Blocks, x.HeadSize, false)
}

// check reports sizes that are out of bounds or do not fit the KV heads.
func (x BlockIndexer) check(c Config, kvHeads int) []string {
	if !x.is() {
		return nil
	}
	faults := Indexer{Heads: x.Heads, HeadSize: x.HeadSize, Keys: x.Keys, RoPE: x.RoPE}.check(c)
	if x.EachKVHead && x.Heads != kvHeads {
		faults = append(faults, fmt.Sprintf("%s is %d; each of the %d KV heads needs one", c.key("attention.indexer.head_count"), x.Heads, kvHeads))
	}
	if x.Keys < x.Blocks.Every {
		faults = append(faults, fmt.Sprintf("%s is %d, but a block has %d keys", c.key("attention.indexer.top_k"), x.Keys, x.Blocks.Every))
	}
	return faults
}

// flops counts the products of queries with keys.
func (x BlockIndexer) flops(length int) float64 {
	flops := float64(x.Heads*x.HeadSize) * float64(length)
	if !x.EachKVHead {
		flops /= float64(max(1, x.Blocks.Every))
	}
	return flops
}

// wholeRows are the options of a choice in whole sequences.
func (p Place) wholeRows() nn.AttentionOptions {
	return nn.AttentionOptions{Rows: p.Rows, Packed: p.Packed, Branched: p.Branched}
}

// attendEach is the attention of each KV head to the keys that its queries chose, [size·heads, n].
func (a Attention) attendEach(p Place, t *nn.Tape, q, k, v *nn.Value, o nn.AttentionOptions, chosen []*nn.Chosen) (all *nn.Value) {
	groups := int64(a.KVHeads)
	queries := t.HeadGroups(q, groups)
	var attend func(group int) *nn.Value
	if kept, ok := p.State(0).(*state.KV); ok {
		written := kept.Write(t, p.Pass, k, v)
		attend = func(group int) *nn.Value { return written.Head(t, int64(group)).Attend(t, p.Pass, queries[group], o) }
	} else {
		keys, values := t.HeadGroups(k, groups), t.HeadGroups(v, groups)
		attend = func(group int) *nn.Value { return t.Attend(queries[group], keys[group], values[group], o) }
	}
	for group, x := range chosen {
		o.Chosen = x
		y := attend(group)
		if all != nil {
			y = t.Join(all, y)
		}
		all = y
	}
	return all
}

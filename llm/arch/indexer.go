package arch

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// An Indexer chooses the keys that the queries of a layer attend to: the best by the scores of small heads of its own (arXiv
// 2512.02556). The choice has no gradient, so its weights are frozen. The zero value chooses all.
type Indexer struct {
	Heads, HeadSize int
	Keys            int       // that each query chooses
	RoPE            ggml.RoPE // of the first elements of a head, or of the last ones
	RotatesLast     bool
	Eps             float32    // epsilon of the LayerNorm of keys
	Pool            int        // adjacent keys that it chooses together, by a key that it makes of theirs; 0: it chooses each
	Shared          LayersBack // takes the choice of an earlier layer, and has no weights; 0: its own
}

// mostIndexKeys bounds the keys that indexers choose.
const mostIndexKeys = 1 << 30

// is reports whether a layer has an indexer.
func (x Indexer) is() bool { return x.Keys > 0 }

// choose returns the keys for a layer's input x, and q, from which the queries of all heads are made.
func (x Indexer) choose(p Place, t *nn.Tape, input, q *nn.Value) *nn.Chosen {
	if !x.is() {
		return nil
	}
	if x.Shared > 0 {
		return p.beside.chosen[p.Layer-int(x.Shared)]
	}
	index := x.index(p, t, nn.Input(input.T), nn.Input(q.T))
	var chosen *nn.Chosen
	switch kept := p.State(1).(type) {
	case *state.KV:
		chosen = kept.Choose(t, p.Pass, index)
	case *state.Pools:
		chosen = state.ChooseKeys(t, p.Pass, index, kept.Write(t, p.Pass, input.T.Dim(1), index.K))
	default:
		chosen = t.Choose(index, p.wholeRows())
	}
	p.beside.chosen[p.Layer] = chosen
	return chosen
}

// index computes queries, keys and the weights of heads. Stock llama.cpp also rotates queries and keys by a Hadamard matrix,
// and scales weights, which changes no order of scores.
func (x Indexer) index(p Place, t *nn.Tape, input, q *nn.Value) nn.Indexer {
	embd, size, heads := int64(p.config.Embd), int64(x.HeadSize), int64(x.Heads)
	matrices := []nn.Matrix{x.matrix(p, "indexer.attn_k", embd, size), x.matrix(p, "indexer.proj", embd, heads)}
	if x.Pool > 0 {
		matrices = append(matrices, x.matrix(p, "indexer_compressor_gate", embd, size))
	}
	made := t.Linear(input, matrices...)
	queries := t.Linear(q, x.matrix(p, "indexer.attn_q_b", q.T.Dim(0), size*heads))[0]
	keys := t.Norm(t.Contiguous(made[0]), nn.Norm{
		Layer: true, Eps: x.Eps,
		Weight: p.Weight(Weight{Kind: "indexer.k_norm", Shape: []int64{size}, Role: Norm, Frozen: true}),
		Bias:   p.Weight(Weight{Kind: "indexer.k_norm", Shape: []int64{size}, Role: Bias, Frozen: true}),
	})
	r := nn.Rotation{RoPE: x.RoPE, Positions: t.Positions(input.T.Dim(1))}
	index := nn.Indexer{Q: x.rotate(t, t.Heads(t.Contiguous(queries), heads), r), Weights: t.Contiguous(made[1]), Keys: x.Keys, Pooling: x.pooling()}
	if x.Pool > 0 {
		offsets := p.Weight(Weight{Kind: "indexer_compressor_ape", Shape: []int64{size, int64(x.Pool)}, Role: Position, Frozen: true})
		if m := p.gatherPools(t, 1, x.pooling(), keys, t.AddByOffset(made[2], offsets)); m != nil {
			index.K = t.Unflatten(t.Pool(*m), 1)
		}
	} else {
		index.K = x.rotate(t, t.Heads(keys, 1), r)
	}
	return index
}

func (x Indexer) pooling() nn.Pooling { return nn.Pooling{Every: x.Pool} }

// gatherPools returns the members of pools, of values and scores of tokens, or of values alone; in a session with the tokens that a
// state has kept. It is nil if whole sequences are shorter than a pool.
func (p Place) gatherPools(t *nn.Tape, kept int, of nn.Pooling, values, scores *nn.Value) *nn.PoolMembers {
	if s, ok := p.State(kept).(*state.Pools); ok {
		m := s.Gather(t, p.Pass, values, scores)
		return &m
	}
	return t.GatherPools(values, scores, of, p.Rows)
}

// rotate rotates heads [size, heads, n] by position.
func (x Indexer) rotate(t *nn.Tape, heads *nn.Value, r nn.Rotation) *nn.Value {
	switch {
	case x.RoPE.Dims == 0:
		return heads
	case !x.RotatesLast:
		return t.RoPE(heads, r)
	}
	return rotateLast(t, heads, r)
}

// matrix declares a frozen matrix.
func (Indexer) matrix(p Place, kind Kind, in, out int64) nn.Matrix {
	return p.Matrix(kind, in, out, MatrixOptions{NoScale: true, NoLoRA: true, Frozen: true})
}

// newStates makes a cache of the keys, or of pools.
func (x Indexer) newStates(o state.Options) ([]state.State, error) {
	switch {
	case !x.is() || x.Shared > 0:
		return nil, nil
	case x.Pool > 0:
		return oneState(state.NewPools(o, x.pooling(), x.HeadSize, true))
	}
	return oneState(state.NewKeys(o, x.HeadSize, nn.Window{}))
}

// check reports sizes that are out of bounds.
func (x Indexer) check(c Config) []string {
	faults := c.sizeFaults([]sizeBound{
		{"attention.indexer.head_count", x.Heads, 1 << 12}, {"attention.indexer.key_length", x.HeadSize, 1 << 12}, {"attention.indexer.top_k", x.Keys, mostIndexKeys},
	})
	if dims := x.RoPE.Dims; len(faults) == 0 && dims > x.HeadSize {
		faults = append(faults, fmt.Sprintf("%s: RoPE cannot rotate %d elements of a head of %d", c.key("attention.indexer.key_length"), dims, x.HeadSize))
	}
	return faults
}

// flops counts the products of queries with keys.
func (x Indexer) flops(length int) float64 {
	if x.Shared > 0 {
		return 0
	}
	return float64(x.Heads*x.HeadSize) * float64(length) / float64(max(1, x.Pool))
}

// indexerKeys are the sizes of indexers.
var indexerKeys = []key{
	count("attention.indexer.head_count", func(c *Config) *int { return &c.IndexHeads }),
	count("attention.indexer.key_length", func(c *Config) *int { return &c.IndexHeadSize }),
	count("attention.indexer.top_k", func(c *Config) *int { return &c.IndexKeys }),
}

// optionalIndexerKeys are the sizes in models that may lack indexers.
var optionalIndexerKeys = []key{
	optional("attention.indexer.head_count", func(c *Config) *int { return &c.IndexHeads }, always(0)),
	optional("attention.indexer.key_length", func(c *Config) *int { return &c.IndexHeadSize }, always(0)),
	optional("attention.indexer.top_k", func(c *Config) *int { return &c.IndexKeys }, always(0)),
}

// unusedIndexer are the weights of an indexer, which a file may have in a block that computes without one.
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

const indexerTypes = "attention.indexer.types"

// indexerFlags are the values of indexerTypes: 1 for layers with an indexer of their own.
func indexerFlags(c *Config, own func(i int) bool) []uint32 {
	flags := make([]uint32, c.Layers)
	for i := range flags {
		if own(i) {
			flags[i] = 1
		}
	}
	return flags
}

// ownIndexers says of each layer whether it has an indexer, or takes the choice of one before it; where a file does not say it,
// the fallback does.
func ownIndexers(fallback func(c *Config, i int) bool) key {
	return key{
		name: indexerTypes,
		read: func(m *metadata, name string, c *Config) {
			if c.IndexKeys == 0 {
				return
			}
			own := make([]bool, c.Layers)
			list, isList := m.list(m.arch + "." + name)
			all, known := m.g.Value(m.arch + "." + name)
			for i := range own {
				switch {
				case isList && i < list.Len():
					own[i] = !list.Index(i).IsZero()
				case isList || !known:
					own[i] = !isList && fallback(c, i)
				default:
					own[i] = !reflect.ValueOf(all).IsZero()
				}
			}
			if isList && list.Len() < c.Layers {
				m.fault("%s.%s has %d values for %d layers", m.arch, name, list.Len(), c.Layers)
			}
			if first := c.firstAttention(); c.Layers > 0 && !own[first] {
				m.fault("%s.%s: there is no indexer before layer %d, whose choice it could take", m.arch, name, first)
			}
			if slices.Contains(own, false) {
				c.OwnIndexers = own
			}
		},
		write: func(c *Config) any {
			if c.IndexKeys == 0 {
				return nil
			}
			return indexerFlags(c, func(i int) bool { return c.OwnIndexers == nil || c.OwnIndexers[i] })
		},
	}
}

// indexer returns the indexer of a layer, whose RoPE is attention's in another mode.
func (c *Config) indexer(i int, r ggml.RoPE, mode ggml.RoPEMode, eps float32) Indexer {
	x := Indexer{Heads: c.IndexHeads, HeadSize: c.IndexHeadSize, Keys: c.IndexKeys, RoPE: r, Eps: eps}
	x.RoPE.Mode = mode
	for c.OwnIndexers != nil && int(x.Shared) < i && !c.OwnIndexers[i-int(x.Shared)] {
		x.Shared++
	}
	return x
}

// indexEps is the epsilon of the norm of an indexer's keys, which no file says. In models of GLM it is 0, as stock llama.cpp
// has it.
const indexEps = 1e-6

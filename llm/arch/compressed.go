package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// CompressedAttention sees a window of keys, and of the tokens before compressed keys, each of several tokens. Keys are the
// values too, and one head of them serves all queries. The positions of the result are rotated away, and matrices of groups of
// heads make it narrower before attn_output_b (DeepSeek-V4).
type CompressedAttention struct {
	Attention                  // to the window
	QRank           int        // of queries
	Groups, OutRank int        // groups of heads, and the width of what each makes
	Compressed      nn.Pooling // tokens of a compressed key; the zero value: there are none
	Indexer         Indexer    // chooses compressed keys; the zero value: all are seen
}

// The states of the part.
const (
	windowState = iota
	compressedState
	indexState
)

// Forward returns the output matrix times the heads' result.
func (a CompressedAttention) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, size, heads := int64(p.config.Embd), int64(a.HeadSize), int64(a.Heads)
	plain := MatrixOptions{NoScale: true}
	matrices := []nn.Matrix{p.Matrix("attn_q_a", embd, int64(a.QRank), plain), p.Matrix("attn_kv", embd, size, plain)}
	if a.Compressed.Every > 0 {
		width := size * int64(a.Compressed.Parts())
		matrices = append(matrices, p.Matrix("attn_compressor_kv", embd, width, plain), p.Matrix("attn_compressor_gate", embd, width, plain))
	}
	made := t.Linear(x, matrices...)
	low := p.Norm(t, "attn_q_a_norm", t.Contiguous(made[0]))
	q := t.Norm(t.Heads(t.Linear(low, p.Matrix("attn_q_b", int64(a.QRank), size*heads, plain))[0], heads), p.normOf())
	kv := t.Heads(p.Norm(t, "attn_kv_a_norm", t.Contiguous(made[1])), 1)
	r := nn.Rotation{RoPE: a.RoPE, Positions: t.Positions(x.T.Dim(1))}
	q, kv = rotateLast(t, q, r), rotateLast(t, kv, r)
	o := nn.AttentionOptions{
		Scale: a.Scale, Window: a.window(), Rows: p.Rows, Packed: p.Packed, Branched: p.Branched, Scores: nn.ScoreOptions{Sinks: a.sinks(p)},
	}
	y := a.attendCompressed(p, t, q, kv, o, made[2:], x, low)
	positions := r.Positions
	r.Positions = func(negated bool) *ggml.Tensor { return positions(!negated) }
	return a.join(p, t, t.Flat(rotateLast(t, t.Heads(y, heads), r)))
}

// attendCompressed is attention to the window and to compressed keys, [size·heads, n].
func (a CompressedAttention) attendCompressed(p Place, t *nn.Tape, q, kv *nn.Value, o nn.AttentionOptions, made []*nn.Value, x, low *nn.Value) *nn.Value {
	var pooled *nn.Value
	if a.Compressed.Every > 0 {
		pooled = a.compress(p, t, compressedState, "attn_compressor", made[0], made[1], a.HeadSize, false)
	}
	window, _ := p.State(windowState).(*state.KV)
	if window == nil {
		if a.Indexer.is() {
			index := a.index(p, t, nn.Input(x.T), nn.Input(low.T))
			o.Chosen = t.ChoosePools(index, o)
		}
		if pooled != nil {
			o.Pools = &nn.PooledKeys{K: pooled, Pooling: a.Compressed}
		}
		return t.Attend(q, kv, kv, o)
	}
	var pools, mask *ggml.Tensor
	n := q.T.Dim(2)
	if kept, ok := p.State(compressedState).(*state.Pools); ok {
		pools = kept.Write(t, p.Pass, n, pooled)
		var chosen *nn.Chosen
		if of, ok := p.State(indexState).(*state.Pools); ok {
			index := a.index(p, t, x, low)
			chosen = of.ChoosePools(t, p.Pass, index, of.Write(t, p.Pass, n, index.K))
		}
		if pools != nil {
			mask = chosen.Only(t.C, kept.Mask(t, p.Pass, n/p.Pass.Slots))
		}
	}
	return window.AttendKeys(t, p.Pass, q, kv, pools, mask, o)
}

// compress makes keys of pools of tokens, [size, 1, pools]; in a session those that a pass completes. It is nil if whole sequences
// are shorter than a pool.
func (a CompressedAttention) compress(p Place, t *nn.Tape, kept int, kind Kind, values, scores *nn.Value, size int, frozen bool) *nn.Value {
	offsets := p.Weight(Weight{Kind: kind + "_ape", Shape: []int64{int64(size * a.Compressed.Parts()), int64(a.Compressed.Every)}, Role: Position, Frozen: frozen})
	norm := p.normOf()
	norm.Weight = p.Weight(Weight{Kind: kind + "_norm", Shape: []int64{int64(size)}, Role: Norm, Frozen: frozen})
	m := p.gatherPools(t, kept, a.Compressed, t.Contiguous(values), t.AddByOffset(t.Contiguous(scores), offsets))
	if m == nil {
		return nil
	}
	keys := t.Unflatten(t.Norm(t.Pool(*m), norm), 1)
	return rotateLast(t, keys, nn.Rotation{RoPE: a.RoPE, Positions: m.Positions})
}

// index computes queries, keys of pools and the weights of heads, without gradients.
func (a CompressedAttention) index(p Place, t *nn.Tape, x, low *nn.Value) nn.Indexer {
	i := a.Indexer
	embd, size, heads := int64(p.config.Embd), int64(i.HeadSize), int64(i.Heads)
	width := size * int64(a.Compressed.Parts())
	made := t.Linear(x, i.matrix(p, "indexer_compressor_kv", embd, width), i.matrix(p, "indexer_compressor_gate", embd, width), i.matrix(p, "indexer.proj", embd, heads))
	queries := t.Linear(low, i.matrix(p, "indexer.attn_q_b", low.T.Dim(0), size*heads))[0]
	return nn.Indexer{
		Q:       rotateLast(t, t.Heads(t.Contiguous(queries), heads), nn.Rotation{RoPE: a.RoPE, Positions: t.Positions(x.T.Dim(1))}),
		K:       a.compress(p, t, indexState, "indexer_compressor", made[0], made[1], i.HeadSize, true),
		Weights: t.Contiguous(made[2]), Keys: i.Keys, Pooling: a.Compressed,
	}
}

// join multiplies each group of heads [size·heads, n] by a matrix of its own, and all of them by attn_output_b.
func (a CompressedAttention) join(p Place, t *nn.Tape, y *nn.Value) *nn.Value {
	y = p.Kept(t, y)
	groups, each := int64(a.Groups), int64(a.Heads/a.Groups*a.HeadSize)
	all := Router{Experts: a.Groups, Used: a.Groups}
	narrowing := all.matrix(p, "attn_output_a", each, int64(a.OutRank), MatrixOptions{NoScale: true, NoLoRA: true, Stacked: true})
	narrow := t.LinearID(t.Heads(t.Contiguous(y), groups), t.EachMatrix(groups, y.T.Dim(1)), narrowing)
	return t.Linear(t.Flat(narrow), p.Matrix("attn_output_b", groups*int64(a.OutRank), int64(p.config.Embd), MatrixOptions{NoScale: true, Residual: true}))[0]
}

// rotateLast rotates the last elements of heads [size, heads, n] by position.
func rotateLast(t *nn.Tape, heads *nn.Value, r nn.Rotation) *nn.Value {
	still, rotated := LatentAttention{}.split(t, heads, int(heads.T.Dim(0))-r.RoPE.Dims)
	if still == nil {
		return t.RoPE(rotated, r)
	}
	return t.Join(still, t.RoPE(rotated, r))
}

// NewStates makes a cache of the window's keys, and of compressed keys and an indexer's.
func (a CompressedAttention) NewStates(o state.Options) (list []state.State, err error) {
	keys, err := state.NewKeys(o, a.HeadSize, a.window())
	list = append(list, keys)
	if err == nil && a.Compressed.Every > 0 {
		var pools *state.Pools
		pools, err = state.NewPools(o, a.Compressed, a.HeadSize, true)
		list = append(list, pools)
	}
	if err == nil && a.Indexer.is() {
		var pools *state.Pools
		pools, err = state.NewPools(o, a.Compressed, a.Indexer.HeadSize, true)
		list = append(list, pools)
	}
	return list, err
}

// Check reports faults of the heads, of groups and of the indexer.
func (a CompressedAttention) Check(c Config) []string {
	faults := append(a.Attention.Check(c), c.sizeFaults([]sizeBound{
		{"attention.q_lora_rank", a.QRank, maxWidth}, {"attention.output_group_count", a.Groups, 1 << 12}, {"attention.output_lora_rank", a.OutRank, 1 << 14},
		{"attention.sliding_window", a.Window, 1 << 30},
	})...)
	if len(faults) == 0 && a.Heads%a.Groups != 0 {
		faults = append(faults, fmt.Sprintf("%s: %d heads make no %d groups", c.key("attention.output_group_count"), a.Heads, a.Groups))
	}
	if a.KVHeads != 1 {
		faults = append(faults, fmt.Sprintf("%s is %d; it must be 1", c.key("attention.head_count_kv"), a.KVHeads))
	}
	if a.Indexer.is() {
		faults = append(faults, a.Indexer.check(c)...)
	}
	return faults
}

// MixingFLOPs counts the products of queries with keys, and of weights with values.
func (a CompressedAttention) MixingFLOPs(length int) float64 {
	flops := a.Attention.MixingFLOPs(length)
	if every := a.Compressed.Every; every > 0 {
		flops += 2 * float64(a.Heads*a.HeadSize) * float64(length/every)
	}
	return flops + a.Indexer.flops(length)/float64(max(1, a.Compressed.Every))
}

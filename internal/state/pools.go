package state

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// Pools keep a vector for each pool of adjacent tokens, and of the last tokens the values and scores that the next pools are
// made of.
type Pools struct {
	nn.Pooling
	size   int
	tokens *KV // of the window of a pool, in F32
	pools  *KV // a row per pool; the last row of a slot takes what is none
}

// NewPools returns the state for pools whose vectors have a size. Without scores, the tokens of a pool weigh alike.
func NewPools(o Options, p nn.Pooling, size int, scores bool) (*Pools, error) {
	if p.Every < 1 || size < 1 {
		return nil, fmt.Errorf("pools of %d tokens of width %d are impossible", p.Every, size)
	}
	of, window, cache := o, nn.Window{Size: p.Every * p.Parts()}, NewKeys
	of.Type = ggml.F32
	if scores {
		cache = func(o Options, size int, w nn.Window) (*KV, error) { return NewKV(o, size, 1, w) }
	}
	tokens, err := cache(of, size*p.Parts(), window)
	if err != nil {
		return nil, err
	}
	o.Length = o.Length/p.Every + 1
	pools, err := NewKeys(o, size, nn.Window{})
	return &Pools{Pooling: p, size: size, tokens: tokens, pools: pools}, err
}

// Prepare zeroes the vectors of pools that the pass may read and does not write.
func (s *Pools) Prepare(slot, end, before int) error {
	if err := s.tokens.Prepare(slot, end, end); err != nil {
		return err
	}
	return s.pools.Prepare(slot, end/s.Every, before/s.Every)
}

// Commit does nothing: a pass writes its results in place.
func (s *Pools) Commit(int, int) error { return nil }

// Rewind restores any position for whose next pools the tokens are kept.
func (s *Pools) Rewind(slot, n int) (at int, err error) {
	if at, err = s.tokens.Rewind(slot, n); err != nil {
		return at, err
	}
	_, err = s.pools.Rewind(slot, at/s.Every)
	return at, err
}

// Copy copies the pools of the first n positions, and the tokens for the next ones.
func (s *Pools) Copy(dst, src, n int) (at int, err error) {
	if at, err = s.tokens.Copy(dst, src, n); err != nil {
		return at, err
	}
	_, err = s.pools.Copy(dst, src, at/s.Every)
	return at, err
}

// A poolPass is a pass over pools: each slot has room for as many new ones.
type poolPass struct {
	*Pools
	Pass
	room int
}

func (s *Pools) pass(p Pass, tokens int64) poolPass {
	return poolPass{s, p, (int(tokens/max(1, p.Slots))-1)/s.Every + 1}
}

// each calls f for each place of a new pool, with its slot, the index in the feed of its last token, and that token's position;
// of a place without a pool with the pass's last token and position −1.
func (s poolPass) each(f *nn.Feed, do func(place, slot, i, last int)) {
	for row := range f.Rows {
		begin, start := row*f.Length(), int(f.Positions[row*f.Length()])
		for j := range s.room {
			i, last := f.Length()-1, -1
			if end := (start/s.Every+j+1)*s.Every - 1; end < start+f.Length() {
				i, last = end-start, end
			}
			do(row*s.room+j, int(s.First)+row, begin+i, last)
		}
	}
}

func (s poolPass) name(what string) string {
	return fmt.Sprintf("%s of pools %v in %d rows", what, s.Pooling, s.tokens.length)
}

// Gather keeps the values and scores of the tokens of a pass, both [size·parts, n·slots], or the values alone, and returns the
// members of pools that they complete.
func (s *Pools) Gather(t *nn.Tape, p Pass, values, scores *nn.Value) nn.PoolMembers {
	n := values.T.Dim(1)
	of, rows := s.pass(p, n), s.tokens.rows(t, p, n)
	write := func(dst *ggml.Tensor, x *nn.Value) *nn.Value {
		written := setRows(t, dst, t.C.Reshape(x.T, x.T.Dim(0), 1, n), rows)
		t.Graph.Expand(written)
		return nn.Input(of.members(t, written))
	}
	m := nn.PoolMembers{Values: write(s.tokens.k, values), Positions: of.positions(t, "positions", 1, 1), SectionPositions: of.positions(t, "positions of sections", 4, 3)}
	if scores != nil {
		m.Scores = write(s.tokens.v, scores)
		m.Scores.T = of.hideAbsent(t, m.Scores.T)
	}
	return m
}

// members gathers rows of written tokens [size·parts, …] → [size, members, pools].
func (s poolPass) members(t *nn.Tape, written *ggml.Tensor) (all *ggml.Tensor) {
	size, every, places := int64(s.size), int64(s.Every), int64(s.room)*s.Slots
	for i := range s.Parts() {
		rows := nn.Declare(t.Inputs, s.name(fmt.Sprint("rows in part ", i)), ggml.I32, []int64{every * places}, func(f *nn.Feed, x []int32) {
			s.each(f, func(place, slot, at, last int) {
				for j := range s.Every {
					pos := last - (s.Parts()-i)*s.Every + 1 + j
					if last < 0 || pos < 0 { // what was written in this pass
						pos = int(f.Positions[at])
					}
					x[place*s.Every+j] = int32(s.tokens.row(slot, pos))
				}
			})
		})
		part := t.C.View(written, []int64{size, written.Dim(1)}, []int64{written.Stride(1)}, int64(i)*size*written.Stride(0))
		x := t.C.Reshape(t.C.GetRows(part, rows), size, every, places)
		if all != nil {
			x = t.C.Concat(all, x, 1)
		}
		all = x
	}
	return all
}

// hideAbsent lowers the scores of members before the sequence's first token.
func (s poolPass) hideAbsent(t *nn.Tape, scores *ggml.Tensor) *ggml.Tensor {
	if !s.Overlaps {
		return scores
	}
	members := 2 * s.Every
	return t.C.Add(scores, nn.Declare(t.Inputs, s.name("absent members"), ggml.F32, []int64{1, int64(members), scores.Dim(2)}, func(f *nn.Feed, x []float32) {
		s.each(f, func(place, _, _, last int) {
			for i := range members {
				if last >= 0 && last+1-members+i < 0 {
					x[place*members+i] = nn.AbsentScore
				}
			}
		})
	}))
}

// positions is an input: the positions of the new pools' first tokens, in sections. The first axes sections hold the positions.
func (s poolPass) positions(t *nn.Tape, name string, sections int64, axes int) nn.PositionInput {
	return func(bool) *ggml.Tensor {
		places := int64(s.room) * s.Slots
		return nn.Declare(t.Inputs, s.name(name), ggml.I32, []int64{sections * places}, func(f *nn.Feed, x []int32) {
			s.each(f, func(place, _, _, last int) {
				for axis := range axes {
					x[axis*int(places)+place] = int32(max(0, last+1-s.Every))
				}
			})
		})
	}
}

// Write adds the vectors of new pools [size, 1, pools] of a pass of n tokens, and returns the pools that its queries may see,
// [size, 1, pools, slots]; nil if there are none.
func (s *Pools) Write(t *nn.Tape, p Pass, n int64, x *nn.Value) *ggml.Tensor {
	of := s.pass(p, n)
	rows := nn.Declare(t.Inputs, of.name("rows"), ggml.I64, []int64{x.T.Dim(2)}, func(f *nn.Feed, x []int64) {
		of.each(f, func(place, slot, _, last int) {
			pool := s.pools.length - 1
			if last >= 0 {
				pool = last / s.Every
			}
			x[place] = s.pools.row(slot, pool)
		})
	})
	if p.Attended = s.attended(p); p.Attended == 0 {
		t.Graph.Expand(setRows(t, s.pools.k, x.T, rows))
		return nil
	}
	written := s.pools.store(t, p, s.pools.k, x.T, rows)
	t.Graph.Expand(written) // later passes read it, even if this one does not
	return t.C.Permute(written, [4]int{0, 2, 1, 3})
}

// attended is the number of pools of a slot that queries of a pass may see.
func (s *Pools) attended(p Pass) int64 {
	return min(p.Attended/int64(s.Every), int64(s.pools.length-1))
}

// Mask is the input of the pools that the queries of a pass see, n of each slot: F16 [pools, n, 1, slots], −∞ for those that
// end after the query.
func (s *Pools) Mask(t *nn.Tape, p Pass, n int64) *ggml.Tensor {
	return poolMask(t, p, s.Pooling, s.attended(p), n)
}

// poolMask is the mask of the first pools: −∞ for those that a query always sees, and those after them.
func poolMask(t *nn.Tape, p Pass, of nn.Pooling, pools, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, fmt.Sprintf("mask of pools %v, of %d", of, pools), ggml.F16, []int64{pools, n, 1, p.Slots}, func(f *nn.Feed, x []ggml.Float16) {
		for i, pos := range f.Positions {
			row := x[i*int(pools):][:pools]
			hide(row[min(int(pools), of.Before(int(pos))):])
		}
	})
}

// ChooseKeys returns the keys that the queries of a pass choose by the pools of an indexer, which Write returned.
func ChooseKeys(t *nn.Tape, p Pass, x nn.Indexer, keys *ggml.Tensor) *nn.Chosen {
	if keys == nil {
		return nil
	}
	n, of, pools := x.Q.T.Dim(2)/p.Slots, x.Pooling, keys.Dim(2)
	if x.Weights == nil {
		pools /= int64(of.Every)
	}
	ofKey := nn.Declare(t.Inputs, fmt.Sprintf("pools %v of keys", of), ggml.I32, []int64{p.Attended, p.Slots}, func(_ *nn.Feed, x []int32) {
		for i := range x {
			x[i] = min(int32(i%int(p.Attended)/of.Every), int32(pools-1))
		}
	})
	tail := nn.Declare(t.Inputs, fmt.Sprintf("tails of pools %v", of), ggml.F32, []int64{n, p.Slots}, func(f *nn.Feed, x []float32) {
		for i, pos := range f.Positions {
			x[i] = float32(of.Before(int(pos)) * of.Every)
		}
	})
	return t.ChooseCached(x, nn.CachedKeys{Keys: keys, Mask: poolMask(t, p, of, pools, n), PoolOfKey: ofKey, Tail: tail})
}

// ChoosePools returns the pools that the queries of a pass choose, of those that Write returned.
func (s *Pools) ChoosePools(t *nn.Tape, p Pass, x nn.Indexer, pools *ggml.Tensor) *nn.Chosen {
	if pools == nil {
		return nil
	}
	return t.ChooseCached(x, nn.CachedKeys{Keys: pools, Mask: s.Mask(t, p, x.Q.T.Dim(2)/p.Slots)})
}

// PoolKeys is the cache of an indexer that scores pools by all of their keys.
type PoolKeys struct {
	*KV
	nn.Pooling
}

// NewPoolKeys returns the state for keys of a size.
func NewPoolKeys(o Options, p nn.Pooling, size int) (PoolKeys, error) {
	keys, err := NewKeys(o, size, nn.Window{})
	return PoolKeys{keys, p}, err
}

// Write adds the keys of the tokens of a pass [size, 1, n·slots], and returns the keys of whole pools, [size, 1, keys, slots]; nil
// if there are none.
func (s PoolKeys) Write(t *nn.Tape, p Pass, k *nn.Value) *ggml.Tensor {
	rows := s.rows(t, p, k.T.Dim(2))
	every := int64(s.Every)
	if p.Attended = min(p.Attended, int64(s.length)) / every * every; p.Attended == 0 {
		t.Graph.Expand(setRows(t, s.k, k.T, rows))
		return nil
	}
	written := s.store(t, p, s.k, k.T, rows)
	t.Graph.Expand(written) // later passes read it, even if this one chooses all keys
	return t.C.Permute(written, [4]int{0, 2, 1, 3})
}

package arch

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// Attention is causal self-attention, in which heads of queries share keys and values
// (arXiv 2305.13245), with rotary positions (arXiv 2104.09864).
type Attention struct {
	Heads, KVHeads, HeadSize int
	Scale                    float32 // of q·k
	Window                   int     // keys that a query sees; 0 is all
	RoPE                     ggml.RoPE
	NoRoPE                   bool
	RoPEFactors              bool // may be in the file: one tensor, or one for short and one for long contexts
	Temperature              Temperature
	QKNorm                   QKNorm
	FusedQKV                 bool // queries, keys and values are one matrix
	FusedModules             bool // in transformers they are
	OutputBias               bool // attn_output may have one; the others may have in any model
}

// QKNorm says whether queries and keys are normalised, and over what.
type QKNorm int

// The norms of queries and keys.
const (
	NoQKNorm QKNorm = iota
	PerHead
	AllHeads
)

// A Temperature multiplies the query at a position by
// 1 + Scale · log(1 + ⌊(position + Offset) / Length⌋). The zero value is none.
type Temperature struct {
	Scale  float32
	Length int
	Offset float32
}

// At is the factor at a position.
func (x Temperature) At(position int) float32 {
	if x.Scale == 0 {
		return 1
	}
	times := math.Floor((float64(position) + float64(x.Offset)) / float64(x.Length))
	return float32(math.Log(times+1)*float64(x.Scale) + 1)
}

// input has the factors of n queries, [1, 1, n].
func (x Temperature) input(t *nn.Tape, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, fmt.Sprintf("temperature %v", x), ggml.F32, []int64{1, 1, n}, func(f *nn.Feed, values []float32) {
		for i, p := range f.Positions {
			values[i] = x.At(int(p))
		}
	})
}

// Forward returns the output matrix times what the heads gather.
func (a Attention) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := a.gather(p, t, x)
	if p.Keep > 0 && p.IsLast() {
		y = t.Last(y, p.Keep)
	}
	embd := int64(p.config.Embd)
	m := p.Matrix("attn_output", int64(a.Heads*a.HeadSize), embd, MatrixOptions{
		Bias: a.OutputBias, Residual: true, Rows: []Rows{a.rows(p, "attn_output", "o_proj", embd, 0)},
	})
	return t.Linear(y, m)[0]
}

// gather returns what the heads gather [size·heads, n].
func (a Attention) gather(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	q, k, v := a.queriesKeysValues(p, t, x)
	if a.QKNorm == AllHeads {
		q, k = p.Norm(t, "attn_q_norm", q), p.Norm(t, "attn_k_norm", k)
	}
	q, k, v = t.Heads(q, int64(a.Heads)), t.Heads(k, int64(a.KVHeads)), t.Heads(v, int64(a.KVHeads))
	if a.QKNorm == PerHead {
		q, k = p.Norm(t, "attn_q_norm", q), p.Norm(t, "attn_k_norm", k)
	}
	factors := a.ropeFactors(p) // files may have them without RoPE, too
	if !a.NoRoPE {
		positions, negated := t.Positions(q.T.Dim(2))
		r := nn.Rotation{RoPE: a.RoPE, Positions: positions, Negated: negated, Factors: factors}
		q, k = t.RoPE(q, r), t.RoPE(k, r)
	}
	if a.Temperature.Scale != 0 {
		q = t.MulInput(q, a.Temperature.input(t, q.T.Dim(2)))
	}
	o := nn.AttentionOptions{Scale: a.Scale, Window: a.Window, Rows: p.Rows, Packed: p.Packed}
	if kept := p.State(); kept != nil {
		return kept.(*state.KV).Attend(t, p.Pass, q, k, v, o)
	}
	return t.Attend(q, k, v, o)
}

// NewState makes a cache of keys and values.
func (a Attention) NewState(o state.Options) (state.State, error) {
	return state.NewKV(o, a.HeadSize, a.KVHeads)
}

func (a Attention) queriesKeysValues(p Place, t *nn.Tape, x *nn.Value) (q, k, v *nn.Value) {
	embd, queries, keys := int64(p.config.Embd), int64(a.Heads*a.HeadSize), int64(a.KVHeads*a.HeadSize)
	permuted := func(heads int) int {
		if a.RoPE.Mode == ggml.RoPENorm {
			return heads
		}
		return 0
	}
	rows := []Rows{
		a.rows(p, "attn_q", "q_proj", queries, permuted(a.Heads)), a.rows(p, "attn_k", "k_proj", keys, permuted(a.KVHeads)),
		a.rows(p, "attn_v", "v_proj", keys, 0),
	}
	if a.FusedQKV {
		qkv := p.Matrix("attn_qkv", embd, queries+2*keys, MatrixOptions{Bias: true, Rows: rows})
		parts := t.Split(t.Linear(x, qkv)[0], queries, keys, keys)
		return parts[0], parts[1], parts[2]
	}
	parts := t.Linear(x,
		p.Matrix("attn_q", embd, queries, MatrixOptions{Bias: true, Rows: rows[:1]}),
		p.Matrix("attn_k", embd, keys, MatrixOptions{Bias: true, Rows: rows[1:2]}),
		p.Matrix("attn_v", embd, keys, MatrixOptions{Bias: true, Rows: rows[2:]}))
	return parts[0], parts[1], parts[2]
}

// rows are those of a matrix, with the name that transformers has for it.
func (a Attention) rows(p Place, kind, module string, count int64, permutedHeads int) Rows {
	if a.FusedModules && module != "o_proj" {
		module = "qkv_proj"
	}
	return Rows{Name: p.prefix + kind, Module: p.modules + "self_attn." + module, Count: count, PermutedHeads: permutedHeads}
}

// ropeFactors are those of the frequencies, nil where a model has none.
func (a Attention) ropeFactors(p Place) *ggml.Tensor {
	if !a.RoPEFactors {
		return nil
	}
	factors := func(kind string) *ggml.Tensor {
		return p.outside().weight(Weight{Kind: kind, Shape: []int64{int64(a.RoPE.Dims / 2)}, Role: RoPEFreqs, Optional: true})
	}
	all, short, long := factors("rope_freqs"), factors("rope_factors_short"), factors("rope_factors_long")
	switch {
	case all != nil:
		return all
	case p.Context > a.RoPE.TrainedCtx:
		return long
	}
	return short
}

package arch

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// Attention is self-attention, causal as a rule, in which heads of queries share keys and values
// (arXiv 2305.13245), as a rule with rotary positions (arXiv 2104.09864).
type Attention struct {
	Heads, KVHeads, HeadSize int
	Scale                    float32 // of q·k
	Softcap                  float32 // limit of scores, by tanh; 0: none
	MaxALiBiBias             float32 // of ALiBi (arXiv 2108.12409); 0 means none
	Sinks                    bool    // each head has one (arXiv 2309.17453)
	Window                   int     // keys that a query sees; 0: all
	Chunked                  bool    // windows are fixed ranges of positions
	Bidirectional            bool    // tokens see later tokens too; a window is centred. Sequences keep no state
	Relative                 Relative
	RoPE                     ggml.RoPE
	NoRoPE                   bool
	RoPEFactors              bool // the file may have them: one tensor, or one for short and one for long contexts
	Temperature              Temperature
	ClampQKV                 float32 // limit of queries, keys and values; 0: none
	QKNorm                   QKNorm
	NormAfterRoPE            bool // queries and keys are rotated before they are normalised
	Gate                     OutputGate
	ValueRouter              Router       // chooses experts that make the values; the zero value is a matrix
	FusedQKV                 bool         // queries, keys and values are one matrix
	SharedKV                 LayersBack   // reads the keys and values of an earlier layer; 0: has its own
	ValuesOfKeys             bool         // the matrix of keys makes the values too
	ValueNorm                bool         // values are normalised over each head, without weights
	QKVBias, OutputBias      Presence     // of these matrices, and of attn_output
	SubNorm                  bool         // the heads' result is normalised before attn_output
	NoQKVScale               bool         // scales of the query, key and value matrices are ignored
	NoOutputScale            bool         // the scale of attn_output is ignored
	OutScale                 bool         // the scale of attn_output applies to adapters too, but not to its bias
	Blocks                   BlockIndexer // chooses the keys
	PlainOutput              bool         // stock llama.cpp multiplies attn_output without adapters and scale
	Switch                   Switch       // adapters in the file; then the matrices have no others
}

// A Temperature multiplies the query at a position by 1 + Scale · log(1 + ⌊(position + Offset) /
// Length⌋). The zero value changes nothing.
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
	return a.output(p, t, a.gather(p, t, x), a.HeadSize)
}

// output multiplies the heads' result [size·heads, n] by attn_output.
func (a Attention) output(p Place, t *nn.Tape, y *nn.Value, size int) *nn.Value {
	y = p.Kept(t, y)
	if a.SubNorm {
		y = p.Norm(t, "attn_sub_norm", y)
	}
	embd := int64(p.config.Embd)
	m := p.Matrix(cmp.Or(p.spec().attnOutput, "attn_output"), int64(a.Heads*size), embd, MatrixOptions{
		Bias: a.OutputBias, OutScale: a.OutScale, BiasLast: a.OutScale, Residual: true, NoScale: a.PlainOutput || a.NoOutputScale, NoLoRA: a.PlainOutput,
	})
	m.Attended = true
	return a.Switch.add(p, t, "attn_output", y, t.Linear(y, m)[0])
}

// gather returns the heads' result [size·heads, n].
func (a Attention) gather(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	q, k, v, gate := a.project(p, t, x)
	q, k, v = t.Clamp(q, a.ClampQKV), t.Clamp(k, a.ClampQKV), t.Clamp(v, a.ClampQKV)
	if a.QKNorm.isFlat() {
		q, k = a.norm(p, t, "attn_q_norm", q), a.norm(p, t, "attn_k_norm", k)
	}
	q = t.Heads(q, int64(a.Heads))
	if a.SharedKV == 0 {
		k, v = t.Heads(k, int64(a.KVHeads)), t.Heads(v, int64(a.KVHeads))
	}
	if a.ValueNorm && v != nil {
		v = t.Norm(v, p.normOf())
	}
	if a.NormAfterRoPE {
		q, k = a.rotate(p, t, q, k)
	}
	if !a.QKNorm.isFlat() {
		q, k = a.norm(p, t, "attn_q_norm", q), a.norm(p, t, "attn_k_norm", k)
	}
	if !a.NormAfterRoPE {
		q, k = a.rotate(p, t, q, k)
	}
	return a.Gate.apply(t, a.attend(p, t, q, k, v, a.Blocks.choose(p, t, x)...), gate, a.Heads)
}

// attend is the attention of queries to keys and values, [size·heads, n]. chosen is one choice of keys for all heads, or one for
// each KV head; nil stands for all keys.
func (a Attention) attend(p Place, t *nn.Tape, q, k, v *nn.Value, chosen ...*nn.Chosen) *nn.Value {
	if a.Temperature.Scale != 0 {
		q = t.MulInput(q, a.Temperature.input(t, q.T.Dim(2)))
	}
	if a.Bidirectional {
		p.noteBidirectional(t, a)
	}
	o := nn.AttentionOptions{
		Scale: a.Scale, Window: a.window(), Bidirectional: a.Bidirectional, Rows: p.Rows, Packed: p.Packed, Branched: p.Branched,
		Scores: nn.ScoreOptions{Softcap: a.Softcap, MaxBias: a.MaxALiBiBias, Sinks: a.sinks(p)}, Bias: a.Relative.bias(p, t, a.Heads, q.T.Dim(2)/p.Rows),
	}
	switch {
	case len(chosen) == 1:
		o.Chosen = chosen[0]
	case slices.ContainsFunc(chosen, func(x *nn.Chosen) bool { return x != nil }):
		return a.attendEach(p, t, q, k, v, o, chosen)
	}
	return a.attendTo(p, t, q, k, v, o)
}

// rotate rotates queries and keys by their positions.
func (a Attention) rotate(p Place, t *nn.Tape, q, k *nn.Value) (*nn.Value, *nn.Value) {
	factors := a.ropeFactors(p) // files may have them without RoPE, too
	if n := int64(a.RoPE.Dims / 2); factors != nil && factors.Dim(0) > n {
		factors = t.C.View(factors, []int64{n}, nil, 0)
	}
	if a.NoRoPE {
		return q, k
	}
	r := nn.Rotation{RoPE: a.RoPE, Positions: t.Positions(q.T.Dim(2)), Factors: factors}
	if a.RoPE.Sections != [4]int{} {
		r.Positions = t.SectionPositions(q.T.Dim(2))
	}
	if k == nil {
		return t.RoPE(q, r), nil
	}
	return t.RoPE(q, r), t.RoPE(k, r)
}

// scaledOutput applies the output matrix's scale after its adapters, as stock llama.cpp does for some
// models.
func scaledOutput(_ *Config, _ int, a *Attention) { a.OutScale = true }

func (a Attention) sinks(p Place) *ggml.Tensor {
	if !a.Sinks {
		return nil
	}
	return p.Weight(Weight{Kind: "attn_sinks", Shape: []int64{int64(a.Heads)}, Role: Sink})
}

func (a Attention) window() nn.Window {
	return nn.Window{Size: a.Window, Chunked: a.Chunked, Symmetric: a.Bidirectional}
}

// NewStates makes a cache of keys and values, unless attention is bidirectional or the cache is another layer's.
func (a Attention) NewStates(o state.Options) ([]state.State, error) {
	if a.Bidirectional || a.SharedKV > 0 {
		return nil, nil
	}
	list, err := oneState(state.NewKV(o, a.HeadSize, a.KVHeads, a.window()))
	if err != nil || !a.Blocks.is() {
		return list, err
	}
	index, err := a.Blocks.newState(o)
	return append(list, index), err
}

// Check reports heads that are missing or cannot share keys and values, and faults of the indexer.
func (a Attention) Check(c Config) (faults []string) {
	faults = a.Blocks.check(c, a.KVHeads)
	for _, n := range []struct {
		name  string
		value int
	}{{"attention.head_count", a.Heads}, {"attention.head_count_kv", a.KVHeads}, {"attention.key_length", a.HeadSize}} {
		if n.value <= 0 {
			faults = append(faults, fmt.Sprintf("%s is %d", c.key(n.name), n.value))
		}
	}
	if len(faults) == 0 && a.Heads%a.KVHeads != 0 {
		faults = append(faults, fmt.Sprintf("%s: %d heads cannot share %d KV heads", c.key("attention.head_count_kv"), a.Heads, a.KVHeads))
	}
	if dims := a.RoPE.Dims; dims < 0 || dims == 0 && !a.NoRoPE || dims%2 != 0 || dims > a.HeadSize {
		faults = append(faults, fmt.Sprintf("%s: RoPE cannot rotate %d elements of a head of %d", c.key("rope.dimension_count"), dims, a.HeadSize))
	}
	return faults
}

// MixingFLOPs counts the products of queries with keys, and of weights with values.
func (a Attention) MixingFLOPs(length int) float64 {
	seen := float64(length) / 2 // keys, on average
	if a.Bidirectional {
		seen = float64(length)
	}
	if w := float64(a.Window); w > 0 && w < float64(length) {
		seen = w - w*w/float64(length)/2
	}
	return 4*float64(a.Heads*a.HeadSize)*seen + a.Blocks.flops(length)
}

// project returns the products of x: queries, keys, values, and the gate if there is one; keys and values are nil if another
// layer has them.
func (a Attention) project(p Place, t *nn.Tape, x *nn.Value) (q, k, v, gate *nn.Value) {
	embd, queries, keys := int64(p.config.Embd), int64(a.Heads*a.HeadSize), int64(a.KVHeads*a.HeadSize)
	permuted := func(heads int) int {
		if a.RoPE.Mode == ggml.RoPENorm && !p.spec().noRoPE { // whether the layer has RoPE or not
			return heads
		}
		return 0
	}
	qRows := queries
	if a.Gate == QueryGate {
		qRows *= 2
	}
	rows := []Rows{
		p.rows("attn_q", qRows, permuted(a.Heads)), p.rows("attn_k", keys, permuted(a.KVHeads)), p.rows("attn_v", keys, 0),
	}
	matrix := func(kind Kind, out int64, rows ...Rows) nn.Matrix {
		return p.Matrix(kind, embd, out, MatrixOptions{Bias: a.QKVBias, NoScale: a.NoQKVScale, NoLoRA: a.Switch.is(), Rows: rows})
	}
	var matrices []nn.Matrix
	switch {
	case a.SharedKV > 0:
		matrices = append(matrices, matrix("attn_q", qRows, rows[0]))
	case a.ValuesOfKeys:
		matrices = append(matrices, matrix("attn_q", qRows, rows[0]), matrix("attn_k", keys, rows[1]))
	case a.FusedQKV:
		matrices = append(matrices, matrix("attn_qkv", qRows+2*keys, rows...))
	case a.ValueRouter.Experts > 0:
		matrices = append(matrices, matrix("attn_q", qRows, rows[0]), matrix("attn_k", keys, rows[1]))
		v = a.ValueRouter.values(p, t, x, keys)
	default:
		matrices = append(matrices, matrix("attn_q", qRows, rows[0]), matrix("attn_k", keys, rows[1]), matrix("attn_v", keys, rows[2]))
	}
	ownGate := a.Gate != NoGate && a.Gate != QueryGate
	if ownGate {
		matrices = append(matrices, a.Gate.matrix(p, a))
	}
	parts := t.Linear(x, matrices...)
	if ownGate {
		gate = parts[len(parts)-1]
	}
	if a.FusedQKV {
		parts = t.Split(parts[0], qRows, keys, keys)
	}
	if a.Gate == QueryGate {
		size := int64(a.HeadSize)
		of := t.SplitGroups(parts[0], int64(a.Heads), size, size)
		parts[0], gate = of[0], of[1]
	}
	switch {
	case a.SharedKV > 0:
		return parts[0], nil, nil, gate
	case a.ValuesOfKeys:
		v = parts[1]
	case v == nil:
		v = parts[2]
	}
	add := func(kind Kind, y *nn.Value) *nn.Value { return a.Switch.add(p, t, kind, x, y) }
	return add("attn_q", parts[0]), add("attn_k", parts[1]), add("attn_v", v), gate
}

// ropeFactors returns the factors of the frequencies; nil if the model has none.
func (a Attention) ropeFactors(p Place) *ggml.Tensor {
	if !a.RoPEFactors {
		return nil
	}
	n := max(p.config.RoPE.Dims, a.RoPE.Dims) / 2 // of the layers that rotate most
	factors := func(kind Kind) *ggml.Tensor {
		return p.outside().Weight(Weight{Kind: kind, Shape: []int64{int64(n)}, Role: RoPEFreqs, Optional: true})
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

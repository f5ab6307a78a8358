package arch

import (
	"math"
	"slices"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// LatentAttention stores a low-rank vector for each token, from which the keys and values of all heads are
// computed, and a key with the position that all heads share (arXiv 2405.04434).
type LatentAttention struct {
	Attention              // of the heads; if Absorbed, to the latent vectors
	QRank, KVRank      int // QRank 0: one matrix makes the queries
	KeySize, ValueSize int // of a head; the last RoPE.Dims elements of keys have the position; 0: none has
	// Absorbed: a matrix of each head maps queries to the space of latent vectors, and another one maps
	// the result to values, instead of mapping latent vectors to keys and values.
	Absorbed bool
	Indexer  Indexer // chooses the keys; it needs QRank
	// PositionNorm: the key with the position is normalised before it is rotated.
	PositionNorm bool
	GateLoRA     bool // stock llama.cpp multiplies the gate with adapters
}

// Forward returns the output matrix times the heads' result.
func (l LatentAttention) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	q, latent, position, gate, chosen := l.project(p, t, x)
	heads := int64(l.Heads)
	still := l.KeySize - l.RoPE.Dims
	own, rotated := l.split(t, t.Heads(q, heads), still)
	if position != nil {
		rotated, position = l.rotate(p, t, rotated, t.Unflatten(position, 1))
	}
	var keys, values *nn.Value
	if l.Absorbed {
		own = l.eachHead(p, t, own, "attn_k_b", still, l.KVRank)
		keys, values = t.Unflatten(latent, 1), t.Unflatten(latent, 1)
	} else {
		kv := t.Linear(latent, p.Matrix("attn_kv_b", int64(l.KVRank), heads*int64(still+l.ValueSize), latentMatrix))[0]
		keys, values = l.split(t, t.Heads(kv, heads), still)
		position = t.RepeatHeads(position, heads)
	}
	switch {
	case l.RoPE.Dims == 0:
		rotated, position = own, keys
	case still > 0:
		rotated, position = t.Join(own, rotated), t.Join(keys, position)
	}
	y := l.attend(p, t, rotated, position, t.Pad(values, int64(l.HeadSize)), chosen)
	size := l.ValueSize
	if l.Absorbed {
		size = l.KVRank
	}
	y, _ = l.split(t, t.Heads(y, heads), size)
	if l.Absorbed {
		y = l.eachHead(p, t, y, "attn_v_b", l.KVRank, l.ValueSize)
	}
	return l.output(p, t, l.Gate.apply(t, t.Flat(y), gate, l.Heads), l.ValueSize)
}

// latentMatrix are the options of matrices that stock llama.cpp multiplies without adapters.
var latentMatrix = MatrixOptions{NoScale: true, NoLoRA: true}

// project returns queries, latent vectors, the keys of positions, the gate if there is one, and the keys that
// the indexer has chosen.
func (l LatentAttention) project(p Place, t *nn.Tape, x *nn.Value) (q, latent, position, gate *nn.Value, chosen *nn.Chosen) {
	embd, queries := int64(p.config.Embd), int64(l.Heads*l.KeySize)
	matrices := []nn.Matrix{p.Matrix("attn_kv_a_mqa", embd, int64(l.KVRank+l.RoPE.Dims), latentMatrix)}
	if l.QRank == 0 {
		matrices = slices.Insert(matrices, 0, p.Matrix("attn_q", embd, queries, latentMatrix))
	} else {
		matrices = slices.Insert(matrices, 0, p.Matrix("attn_q_a", embd, int64(l.QRank), latentMatrix))
	}
	switch options := (MatrixOptions{NoScale: true, NoLoRA: !l.GateLoRA}); l.Gate {
	case HeadGate:
		matrices = append(matrices, p.Matrix("attn_gate", embd, int64(l.Heads), options))
	case SigmoidGate:
		matrices = append(matrices, p.Matrix("attn_gate", embd, int64(l.Heads*l.ValueSize), options))
	}
	made := t.Linear(x, matrices...)
	if l.Gate != NoGate {
		gate = made[2]
	}
	if l.QRank == 0 {
		q = t.Contiguous(made[0])
	} else {
		low := p.Norm(t, "attn_q_a_norm", made[0])
		q, chosen = t.Linear(low, p.Matrix("attn_q_b", int64(l.QRank), queries, latentMatrix))[0], l.Indexer.choose(p, t, x, low)
	}
	if l.RoPE.Dims == 0 {
		return q, p.Norm(t, "attn_kv_a_norm", t.Contiguous(made[1])), nil, gate, chosen
	}
	parts := t.Split(made[1], int64(l.KVRank), int64(l.RoPE.Dims))
	latent, position = p.Norm(t, "attn_kv_a_norm", t.Contiguous(parts[0])), t.Contiguous(parts[1])
	if l.PositionNorm {
		position = p.Norm(t, "attn_k_norm", position)
	}
	return q, latent, position, gate, chosen
}

// NewStates makes a cache of keys and values, and of an indexer's keys.
func (l LatentAttention) NewStates(o state.Options) ([]state.State, error) {
	list, err := l.Attention.NewStates(o)
	if err != nil {
		return nil, err
	}
	keys, err := l.Indexer.newStates(o)
	return append(list, keys...), err
}

// Check reports faults of the heads and of the indexer.
func (l LatentAttention) Check(c Config) []string {
	faults := l.Attention.Check(c)
	if l.Indexer.is() {
		faults = append(faults, l.Indexer.check(c)...)
	}
	return faults
}

// MixingFLOPs counts the products of queries with keys, and of weights with values.
func (l LatentAttention) MixingFLOPs(length int) float64 {
	return l.Attention.MixingFLOPs(length) + l.Indexer.flops(length)
}

// split divides x [size, heads, n] into the first elements of each head, and the others; nil if
// there are none.
func (l LatentAttention) split(t *nn.Tape, x *nn.Value, first int) (a, b *nn.Value) {
	heads, rest := x.T.Dim(1), x.T.Dim(0)-int64(first)
	switch {
	case first == 0:
		return nil, x
	case rest == 0:
		return x, nil
	}
	parts := t.Split(t.Flatten(x), int64(first), rest)
	return t.Unflatten(t.Contiguous(parts[0]), heads), t.Unflatten(t.Contiguous(parts[1]), heads)
}

// eachHead multiplies x [in, heads, n] by a matrix [in, out, heads] of each head.
func (l LatentAttention) eachHead(p Place, t *nn.Tape, x *nn.Value, kind Kind, in, out int) *nn.Value {
	all := Router{Experts: l.Heads, Used: l.Heads}
	return t.LinearID(x, t.EachMatrix(int64(l.Heads), x.T.Dim(2)), all.matrix(p, kind, int64(in), int64(out), latentMatrix))
}

// latentKeys are the keys of latent attention.
var latentKeys = append([]key{optional("attention.q_lora_rank", func(c *Config) *int { return &c.QRank }, always(0))}, latentValueKeys...)

// mlaSizes are the keys of the sizes of heads in files whose cache has latent vectors.
var mlaSizes = []key{
	optional("attention.key_length_mla", func(c *Config) *int { return &c.KeySizeMLA }, always(0)),
	optional("attention.value_length_mla", func(c *Config) *int { return &c.ValueSizeMLA }, always(0)),
}

// absorbedSizes are mlaSizes of files that have them always.
var absorbedSizes = []key{
	count("attention.key_length_mla", func(c *Config) *int { return &c.KeySizeMLA }),
	count("attention.value_length_mla", func(c *Config) *int { return &c.ValueSizeMLA }),
}

// latentValueKeys are the keys of models without latent queries.
var latentValueKeys = []key{
	count("attention.kv_lora_rank", func(c *Config) *int { return &c.KVRank }),
	{
		name:  "attention.value_length",
		read:  func(m *metadata, name string, c *Config) { c.ValueSize = m.size(name, c.HeadSize, true) },
		write: func(*Config) any { return nil }, // the common key writes it
	},
}

// latentAttention returns the latent attention of a model, which replaces a.
func latentAttention(c *Config, a Attention) LatentAttention {
	l := LatentAttention{Attention: a, QRank: c.QRank, KVRank: c.KVRank, KeySize: c.HeadSize, ValueSize: c.ValueSize}
	if c.KeySizeMLA > 0 {
		l.Absorbed, l.KeySize, l.ValueSize = true, c.KeySizeMLA, c.ValueSizeMLA
	}
	return l
}

// scaleYaRN scales scores by YaRN's magnitude, whose multiplier is ten times the file's. With same,
// rotated vectors use the multiplier 1.
func (l *LatentAttention) scaleYaRN(c *Config, same bool) {
	const tenth = float32(0.1)
	multiplier, grown := c.YaRNLogMul/tenth, math.Log(float64(1/c.RoPE.FreqScale))
	of := multiplier
	if same && multiplier != 0 {
		of = 1
	}
	l.RoPE.AttnFactor = c.RoPE.AttnFactor * yarnMagnitude(c.RoPE, of)
	scale := float64(l.RoPE.AttnFactor) * (1 + 0.1*grown) * (1 + 0.1*float64(multiplier)*grown)
	l.Scale = float32(scale * scale / math.Sqrt(float64(l.KeySize)))
}

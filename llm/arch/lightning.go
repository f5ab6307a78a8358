package arch

import (
	"fmt"
	"math"

	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// Lightning is linear attention whose heads forget at fixed rates, see [nn.Lightning], of activated queries, keys and values,
// which one matrix makes (arXiv 2501.08313). What the heads gather is normalised, and gated.
type Lightning struct {
	Heads, HeadSize int
	Slowness        float32 // the factor of all rates
}

// String describes the part.
func (Lightning) String() string { return "lightning attention" }

// Forward reads and changes the state of each head, token by token.
func (l Lightning) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, size, heads := int64(p.config.Embd), int64(l.HeadSize), int64(l.Heads)
	matrix := func(kind Kind, out int64) nn.Matrix { return p.Matrix(kind, embd, out, MatrixOptions{NoScale: true}) }
	made := t.Linear(x, matrix("attn_qkv", 3*size*heads), matrix("attn_gate", size*heads))
	parts := t.SplitGroups(t.SiLU(t.Contiguous(made[0])), heads, size, size, size)
	head := func(x *nn.Value) *nn.Value { return t.Heads(t.Contiguous(x), heads) }
	o := nn.Lightning{Q: head(parts[0]), K: head(parts[1]), V: head(parts[2]), G: l.rates(), Rows: p.Rows, Packed: p.Packed}
	y := t.Flat(recur(p, t, 0, o, t.LightningAttention, nn.LightningStep))
	y, gate := p.Norm(t, "attn_norm_2", p.Kept(t, y)), p.Kept(t, made[1])
	rows := p.rows("attn_output", embd, 0)
	rows.Module = p.modules + "self_attn.out_proj"
	return t.Linear(t.Mul(y, t.Sigmoid(gate)), p.Matrix("attn_output", size*heads, embd, MatrixOptions{NoScale: true, Residual: true, Rows: []Rows{rows}}))[0]
}

// rates are the logarithms of how much of a head's state is left after a token: ALiBi's slopes, negative.
func (l Lightning) rates() []float32 {
	first := math.Pow(2, -math.Pow(2, 3-math.Log2(float64(l.Heads))))
	list := make([]float32, l.Heads)
	for i := range list {
		list[i] = -l.Slowness * float32(math.Pow(first, float64(1+i)))
	}
	return list
}

// NewStates makes the state of the heads.
func (l Lightning) NewStates(o state.Options) ([]state.State, error) {
	return oneState(state.NewRecurrent(o, l.HeadSize*l.HeadSize*l.Heads, recurrentSnapshots))
}

// Check demands several layers, by which the rates fall.
func (l Lightning) Check(c Config) (faults []string) {
	faults = c.sizeFaults([]sizeBound{{"attention.head_count", l.Heads, 1 << 12}, {"attention.key_length", l.HeadSize, 1 << 12}})
	if c.Layers < 2 {
		faults = append(faults, fmt.Sprintf("%s is %d; lightning attention needs 2", c.key("block_count"), c.Layers))
	}
	return faults
}

// MixingFLOPs counts what a token does with the state of each head: to decay, to add, to read.
func (l Lightning) MixingFLOPs(int) float64 { return 5 * float64(l.Heads*l.HeadSize*l.HeadSize) }

package refmodel

import (
	"fmt"
	"math"
	"slices"
)

// rows is one vector per token.
type rows = [][]float64

// layerState is what the forward pass of a block leaves for its backward pass.
type layerState struct {
	in, attnIn rows // hidden state, and after attn_norm
	q, k, v    rows // q and k rotated
	probs      [][]rowTriangle
	attnOut    rows // before attn_output
	mid, ffnIn rows // hidden state after attention, and after ffn_norm
	gate, up   rows
	act        rows // silu(gate)·up
}

// rowTriangle holds the attention weights of one head and query over keys 0…t.
type rowTriangle = []float64

// trace is the forward pass of one sequence.
type trace struct {
	tokens []int32
	layers []layerState
	final  rows // after the last block
	normed rows // after output_norm
	logits rows
}

// Logits returns the logits [len(tokens)][Vocab] at all positions of one causal
// sequence that begins at position 0.
func (m *Model) Logits(tokens []int32) ([][]float64, error) {
	if err := m.checkTokens("token", tokens); err != nil {
		return nil, err
	}
	return m.forward(tokens).logits, nil
}

func (m *Model) checkTokens(what string, tokens []int32) error {
	for i, t := range tokens {
		if t < 0 || int(t) >= m.Vocab {
			return fmt.Errorf("refmodel: %s %d is %d, the vocabulary has %d", what, i, t, m.Vocab)
		}
	}
	return nil
}

func (m *Model) forward(tokens []int32) *trace {
	tr := &trace{tokens: tokens, layers: make([]layerState, m.Layers)}
	x := m.embed(tokens)
	for l := range tr.layers {
		x = m.forwardBlock(l, &tr.layers[l], x)
	}
	tr.final = x
	tr.normed = m.rmsNorm(outputNorm, x)
	tr.logits = m.linear(m.outputName(), tr.normed)
	return tr
}

func (m *Model) outputName() string {
	if _, ok := m.weights[output]; ok {
		return output
	}
	return tokenEmbd
}

func (m *Model) forwardBlock(l int, s *layerState, x rows) rows {
	s.in = x
	s.attnIn = m.rmsNorm(block(l, "attn_norm"), x)
	s.q = m.linear(block(l, "attn_q"), s.attnIn)
	s.k = m.linear(block(l, "attn_k"), s.attnIn)
	s.v = m.linear(block(l, "attn_v"), s.attnIn)
	m.rotate(s.q, 1)
	m.rotate(s.k, 1)
	m.attend(s)
	s.mid = add(x, m.linear(block(l, "attn_output"), s.attnOut))

	s.ffnIn = m.rmsNorm(block(l, "ffn_norm"), s.mid)
	s.gate = m.linear(block(l, "ffn_gate"), s.ffnIn)
	s.up = m.linear(block(l, "ffn_up"), s.ffnIn)
	s.act = newRows(len(x), m.FF)
	for t, out := range s.act {
		for i, g := range s.gate[t] {
			out[i] = g / (1 + math.Exp(-g)) * s.up[t][i]
		}
	}
	return add(s.mid, m.linear(block(l, "ffn_down"), s.act))
}

// embed looks up the tokens' rows, each with its adapter's part.
func (m *Model) embed(tokens []int32) rows {
	table := m.weights[tokenEmbd]
	lora, adapted := m.loras[tokenEmbd]
	x := make(rows, len(tokens))
	for t, id := range tokens {
		x[t] = slices.Clone(table.Row(int64(id)))
		if adapted {
			addScaled(x[t], lora.Scale, matVec(lora.B, lora.A.Row(int64(id))))
		}
	}
	return x
}

// linear returns W·x + bias + Scale·B(A·x) for every token.
func (m *Model) linear(name string, x rows) rows {
	w := m.weights[name]
	bias, biased := m.weights[biasOf(name)]
	lora, adapted := m.loras[name]
	adapted = adapted && name != tokenEmbd
	y := make(rows, len(x))
	for t, v := range x {
		y[t] = matVec(w, v)
		if biased {
			addScaled(y[t], 1, bias.Data)
		}
		if adapted {
			addScaled(y[t], lora.Scale, matVec(lora.B, matVec(lora.A, v)))
		}
	}
	return y
}

// rmsNorm returns w·x/√(mean(x²) + eps) for every token.
func (m *Model) rmsNorm(name string, x rows) rows {
	w := m.weights[name].Data
	y := newRows(len(x), m.Embd)
	for t, v := range x {
		r := m.rms(v)
		for i := range v {
			y[t][i] = v[i] * r * w[i]
		}
	}
	return y
}

// rms returns 1/√(mean(x²) + eps).
func (m *Model) rms(x []float64) float64 {
	return 1 / math.Sqrt(dot(x, x)/float64(len(x))+m.RMSEps)
}

// rotate applies RoPE in place to all heads; direction −1 undoes it, up to the
// magnitude, which is its backward.
func (m *Model) rotate(x rows, direction float64) {
	for t, v := range x {
		cos, sin := m.RoPE.Table(float64(t))
		for i := range sin {
			sin[i] *= direction
		}
		for h := 0; h < len(v); h += m.HeadDim {
			m.RoPE.Rotate(v[h:h+m.HeadDim], cos, sin)
		}
	}
}

// attend fills probs and attnOut from q, k and v.
func (m *Model) attend(s *layerState) {
	n := len(s.q)
	s.attnOut = newRows(n, m.Heads*m.HeadDim)
	s.probs = make([][]rowTriangle, m.Heads)
	for h := range m.Heads {
		s.probs[h] = make([]rowTriangle, n)
		for t := range n {
			p := make(rowTriangle, t+1)
			for u := range p {
				p[u] = dot(m.head(s.q[t], h), m.kvHead(s.k[u], h)) * rsqrt(m.HeadDim)
			}
			softmax(p)
			s.probs[h][t] = p
			for u, weight := range p {
				addScaled(m.head(s.attnOut[t], h), weight, m.kvHead(s.v[u], h))
			}
		}
	}
}

// head returns query head h's part of a vector.
func (m *Model) head(v []float64, h int) []float64 { return v[h*m.HeadDim : (h+1)*m.HeadDim] }

// kvHead returns the part of a key or value vector that query head h uses.
func (m *Model) kvHead(v []float64, h int) []float64 {
	return m.head(v, h*m.KVHeads/m.Heads)
}

func softmax(x []float64) {
	lse := logSumExp(x)
	for i := range x {
		x[i] = math.Exp(x[i] - lse)
	}
}

func logSumExp(x []float64) float64 {
	top := slices.Max(x)
	total := 0.0
	for _, v := range x {
		total += math.Exp(v - top)
	}
	return top + math.Log(total)
}

// matVec returns W·x for W [len(x), out].
func matVec(w Tensor, x []float64) []float64 {
	y := make([]float64, w.Ne[1])
	for o := range y {
		y[o] = dot(w.Row(int64(o)), x)
	}
	return y
}

func newRows(n, width int) rows {
	x := make(rows, n)
	for t := range x {
		x[t] = make([]float64, width)
	}
	return x
}

func add(a, b rows) rows {
	sum := make(rows, len(a))
	for t := range a {
		sum[t] = slices.Clone(a[t])
		addScaled(sum[t], 1, b[t])
	}
	return sum
}

// addScaled adds s·x to dst.
func addScaled(dst []float64, s float64, x []float64) {
	for i, v := range x {
		dst[i] += s * v
	}
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

func rsqrt[T int | int64](n T) float64 { return 1 / math.Sqrt(float64(n)) }

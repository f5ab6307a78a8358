package refmodel

import (
	"fmt"
	"math"
)

// Gradients maps parameter names, as Model.Weight takes them, to dLoss/dparam.
type Gradients map[string]Tensor

// Gradient returns Loss and its exact gradient with respect to the named
// parameters, or with no names to all LoRA matrices. The gradient of a weight
// under an adapter is that of the base weight alone.
func (m *Model) Gradient(batch []Sequence, names ...string) (float64, Gradients, error) {
	total, err := m.checkBatch(batch)
	if err != nil {
		return 0, nil, err
	}
	if len(names) == 0 {
		names = m.LoRANames()
	}
	grads := Gradients{}
	for _, name := range names {
		if name == ropeFreqs {
			return 0, nil, fmt.Errorf("refmodel: no gradient with respect to %s; NumericGradient gives one", name)
		}
		w, err := m.Weight(name)
		if err != nil {
			return 0, nil, err
		}
		grads[name] = zerosLike(w)
	}
	loss := 0.0
	for _, s := range batch {
		tr := m.forward(s.Inputs)
		loss += sequenceLoss(s, tr.logits)
		m.backward(tr, lossGradient(s, tr.logits, total), grads)
	}
	return loss / total, grads, nil
}

func zerosLike(t Tensor) Tensor { return Tensor{Ne: t.Ne, Data: make([]float64, len(t.Data))} }

// lossGradient returns w·(softmax(logits) − onehot(target))/total.
func lossGradient(s Sequence, logits rows, total float64) rows {
	d := newRows(len(logits), 0)
	for t, row := range logits {
		d[t] = make([]float64, len(row))
		w := s.weight(t)
		if w == 0 {
			continue
		}
		lse := logSumExp(row)
		for i, v := range row {
			d[t][i] = w / total * math.Exp(v-lse)
		}
		d[t][s.Targets[t]] -= w / total
	}
	return d
}

func (m *Model) backward(tr *trace, dLogits rows, grads Gradients) {
	d := m.linearBack(m.outputName(), tr.normed, dLogits, grads)
	d = m.rmsNormBack(outputNorm, tr.final, d, grads)
	for l := m.Layers - 1; l >= 0; l-- {
		d = m.backwardBlock(l, &tr.layers[l], d, grads)
	}
	m.embedBack(tr.tokens, d, grads)
}

// backwardBlock returns the gradient of the block's input from that of its output.
func (m *Model) backwardBlock(l int, s *layerState, d rows, grads Gradients) rows {
	dAct := m.linearBack(block(l, "ffn_down"), s.act, d, grads)
	dGate, dUp := newRows(len(d), m.FF), newRows(len(d), m.FF)
	for t := range d {
		for i, g := range s.gate[t] {
			sig := 1 / (1 + math.Exp(-g))
			dUp[t][i] = dAct[t][i] * g * sig
			dGate[t][i] = dAct[t][i] * s.up[t][i] * sig * (1 + g*(1-sig))
		}
	}
	dFFN := add(m.linearBack(block(l, "ffn_gate"), s.ffnIn, dGate, grads),
		m.linearBack(block(l, "ffn_up"), s.ffnIn, dUp, grads))
	dMid := add(d, m.rmsNormBack(block(l, "ffn_norm"), s.mid, dFFN, grads))

	dAttn := m.linearBack(block(l, "attn_output"), s.attnOut, dMid, grads)
	dq, dk, dv := m.attendBack(s, dAttn)
	m.rotate(dq, -1)
	m.rotate(dk, -1)
	dIn := add(m.linearBack(block(l, "attn_q"), s.attnIn, dq, grads),
		m.linearBack(block(l, "attn_k"), s.attnIn, dk, grads))
	dIn = add(dIn, m.linearBack(block(l, "attn_v"), s.attnIn, dv, grads))
	return add(dMid, m.rmsNormBack(block(l, "attn_norm"), s.in, dIn, grads))
}

// attendBack returns the gradients of the rotated q and k and of v.
func (m *Model) attendBack(s *layerState, dOut rows) (dq, dk, dv rows) {
	n := len(dOut)
	dq, dk, dv = newRows(n, len(s.q[0])), newRows(n, len(s.k[0])), newRows(n, len(s.v[0]))
	for h := range m.Heads {
		for t := range n {
			p, d := s.probs[h][t], m.head(dOut[t], h)
			dp := make([]float64, len(p))
			for u, weight := range p {
				dp[u] = dot(d, m.kvHead(s.v[u], h))
				addScaled(m.kvHead(dv[u], h), weight, d)
			}
			along := dot(p, dp)
			for u, weight := range p {
				ds := weight * (dp[u] - along) * rsqrt(m.HeadDim)
				addScaled(m.head(dq[t], h), ds, m.kvHead(s.k[u], h))
				addScaled(m.kvHead(dk[u], h), ds, m.head(s.q[t], h))
			}
		}
	}
	return dq, dk, dv
}

// linearBack adds to the gradients of W, its bias and its adapter, and returns
// Wᵀ·dy + Scale·Aᵀ(Bᵀ·dy).
func (m *Model) linearBack(name string, x, dy rows, grads Gradients) rows {
	w := m.weights[name]
	lora, adapted := m.loras[name]
	adapted = adapted && name != tokenEmbd
	bias := biasOf(name)
	dx := newRows(len(x), int(w.Ne[0]))
	for t, d := range dy {
		addTransposed(dx[t], w, d)
		grads.addOuter(name, x[t], d, 1)
		grads.addOuter(bias, d, []float64{1}, 1)
		if adapted {
			m.adapterBack(name, lora, x[t], d, dx[t], grads)
		}
	}
	return dx
}

func (m *Model) adapterBack(name string, l LoRA, x, dy, dx []float64, grads Gradients) {
	dh := make([]float64, l.B.Ne[0])
	addTransposed(dh, l.B, dy)
	for i := range dh {
		dh[i] *= l.Scale
	}
	addTransposed(dx, l.A, dh)
	grads.addOuter(name+".lora_a", x, dh, 1)
	grads.addOuter(name+".lora_b", matVec(l.A, x), dy, l.Scale)
}

func (m *Model) rmsNormBack(name string, x, dy rows, grads Gradients) rows {
	w := m.weights[name].Data
	dw, wanted := grads[name]
	dx := newRows(len(x), m.Embd)
	for t, v := range x {
		r := m.rms(v)
		along := 0.0
		for i := range v {
			along += v[i] * dy[t][i] * w[i]
		}
		along *= r * r / float64(m.Embd)
		for i := range v {
			dx[t][i] = r * (dy[t][i]*w[i] - v[i]*along)
		}
		if wanted {
			addProduct(dw.Data, r, v, dy[t])
		}
	}
	return dx
}

func (m *Model) embedBack(tokens []int32, d rows, grads Gradients) {
	lora, adapted := m.loras[tokenEmbd]
	for t, id := range tokens {
		if dw, ok := grads[tokenEmbd]; ok {
			addScaled(dw.Row(int64(id)), 1, d[t])
		}
		if !adapted {
			continue
		}
		grads.addOuter(tokenEmbd+".lora_b", lora.A.Row(int64(id)), d[t], lora.Scale)
		if da, ok := grads[tokenEmbd+".lora_a"]; ok {
			dh := make([]float64, lora.B.Ne[0])
			addTransposed(dh, lora.B, d[t])
			addScaled(da.Row(int64(id)), lora.Scale, dh)
		}
	}
}

// addOuter adds s·x[i]·y[o] to element [i, o] of a gradient that is wanted.
func (g Gradients) addOuter(name string, x, y []float64, s float64) {
	dw, ok := g[name]
	if !ok {
		return
	}
	for o, v := range y {
		addScaled(dw.Row(int64(o)), s*v, x)
	}
}

// addTransposed adds Wᵀ·dy to dx.
func addTransposed(dx []float64, w Tensor, dy []float64) {
	for o, v := range dy {
		addScaled(dx, v, w.Row(int64(o)))
	}
}

// addProduct adds s·x·y, element by element, to dst.
func addProduct(dst []float64, s float64, x, y []float64) {
	for i := range dst {
		dst[i] += s * x[i] * y[i]
	}
}

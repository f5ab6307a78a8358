package nn

// Expose returns x, a result inside a checkpointed function, for use by later functions. Their gradients of x enter the
// backward pass of the function that made it.
func (t *Tape) Expose(x *Value) *Value {
	if t.memo == nil {
		return x
	}
	return t.memo.expose(t, x)
}

// expose keeps x in the forward pass. When the function is recomputed, the gradient of the kept value flows to x.
func (m *memoCursor) expose(t *Tape, x *Value) *Value {
	call := m.exposed
	m.exposed++
	if !m.recompute {
		m.memo.exposed = append(m.memo.exposed, &Value{T: x.T, needsGrad: x.needsGrad})
	}
	outer := m.memo.exposed[call]
	if d := t.gradient(outer); m.recompute && d != nil {
		t.addTo(x, d)
	}
	return outer
}

package nn

// Expose returns x, made by a function that may be a checkpoint, for functions after it. What they let flow back to x takes
// part in the gradients of the function that made it.
func (t *Tape) Expose(x *Value) *Value {
	if t.memo == nil {
		return x
	}
	return t.memo.expose(t, x)
}

// expose keeps x at the first time. When the function is computed again, the gradient that has reached what was kept flows
// to x.
func (m *memoCursor) expose(t *Tape, x *Value) *Value {
	call := m.exposed
	m.exposed++
	if !m.again {
		m.memo.exposed = append(m.memo.exposed, &Value{T: x.T, needsGrad: x.needsGrad})
	}
	outer := m.memo.exposed[call]
	if d := t.gradient(outer); m.again && d != nil {
		t.addTo(x, d)
	}
	return outer
}

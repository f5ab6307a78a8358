package nn

// Expose returns x, a result inside a checkpointed function, for use by later functions. Their gradients of x enter the
// backward pass of the function that made it.
func (t *Tape) Expose(x *Value) *Value {
	switch {
	case t.shown == nil:
		return x
	case t.memo != nil && t.memo.recompute:
		i := len(t.shown.inner)
		t.shown.inner = append(t.shown.inner, x)
		return t.shown.outer[i]
	}
	y := &Value{T: x.T, needsGrad: x.needsGrad}
	t.shown.outer = append(t.shown.outer, y)
	if t.memo == nil {
		t.shown.inner = append(t.shown.inner, x)
	}
	return y
}

// exposures are the exposed values of a checkpointed function, in order, and the values inside that their gradients flow to.
type exposures struct{ outer, inner []*Value }

// flow passes the gradients on.
func (e *exposures) flow(t *Tape) {
	if e == nil {
		return
	}
	for i, x := range e.inner {
		if d := t.gradient(e.outer[i]); d != nil {
			t.addTo(x, d)
		}
	}
	e.inner = nil // chunks have backward passes of their own
}

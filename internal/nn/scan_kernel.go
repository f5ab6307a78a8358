package nn

import "github.com/goggml/ggml/kernels"

// decaysByHead reports whether A is a number for each head.
func decaysByHead(_ *Tape, o Next[Scan]) bool { return o.In.A.NumElements() == o.In.X.T.Dim(1) }

// selectiveScanStep scans the next tokens of sequences by a kernel, which writes the states where they are kept.
func selectiveScanStep(t *Tape, o Next[Scan]) Stepped {
	c, s, slots := t.C, o.In, o.Slots
	states, read := o.Stored()
	y := kernels.SelectiveScan(c, kernels.ScanOperands{
		X: inRows(c, s.X.T, slots), DT: numbersInRows(c, s.DT.T, slots), A: s.A,
		B: inRows(c, s.B.T, slots), C: inRows(c, s.C.T, slots), D: s.D, States: states, Read: read, Written: o.Written(),
	})
	t.Graph.Expand(y) // for the states, even if nothing reads y
	return Stepped{Y: Input(c.Reshape(y, s.X.T.Shape()...))}
}

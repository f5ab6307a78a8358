package arch

// NumParameters counts the elements of the weights, without optional ones; 0 for a config that
// [Config.Validate] refuses.
func (c Config) NumParameters() int64 { return c.count((*Weight).NumElements) }

// NumActiveParameters returns the number of parameters that compute a token: of experts, only the
// chosen ones.
func (c Config) NumActiveParameters() int64 {
	return c.count(func(w *Weight) int64 {
		if w.Role == ExpertMatrices {
			return w.NumElements() / w.Shape[2] * int64(w.Used)
		}
		return w.NumElements()
	})
}

// AdapterFLOPs returns the floating-point operations that training adapters needs for each token of samples of a length:
// two for each weight of a matrix in the forward pass and two in the backward pass, and the operations of parts that mix
// tokens, which double in the backward pass. Recomputation is not counted.
func (c Config) AdapterFLOPs(length int) float64 {
	a, err := Resolve(c)
	if err != nil {
		return 0
	}
	matrices, mixing := c.NumActiveParameters(), 0.0
	if !c.Tied {
		matrices -= int64(c.Vocab) * int64(c.Embd) // only looked up
	}
	for _, l := range a.layers {
		parts(l, func(p Part) {
			if m, ok := p.(Mixing); ok {
				mixing += m.MixingFLOPs(length)
			}
		})
	}
	return 4*float64(matrices) + 3*mixing
}

// count sums a function of all weights that are not optional.
func (c Config) count(of func(w *Weight) int64) (n int64) {
	a, err := Resolve(c)
	if err != nil {
		return 0
	}
	for _, w := range a.Weights() {
		if !w.Optional {
			n += of(w)
		}
	}
	return n
}

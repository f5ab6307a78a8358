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

// AdapterFLOPs are the floating-point operations by which a token of samples of a length trains adapters, without those that
// some way of computing saves: two for each weight of a matrix that multiplies, forwards and back, and the operations of
// parts between tokens, which are twice as many back.
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

// count adds up what weights count that each model has.
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

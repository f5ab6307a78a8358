package train

// OrderAt is the sample at a position of the order of a run.
func OrderAt(seed uint64, samples, position int) int {
	o := order{seed: seed, n: samples}
	return o.at(position)
}

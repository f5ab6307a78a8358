package infer

// UsesWeight reports whether the graph computed last reads a weight.
func (s *Session) UsesWeight(name string) bool {
	w := s.d.m.Weight(name)
	for leaf := range s.d.graphs[0].Leaves() {
		if leaf.Key() == w.Key() {
			return true
		}
	}
	return false
}

// Computed returns the number of first tokens whose states are available.
func (q *Sequence) Computed() int { return q.computed }

// Mixed returns the number of adapters that a pass with different adapters computes; 0 before the first such pass.
func (s *Session) Mixed() int {
	if s.mixed == nil {
		return 0
	}
	return len(s.mixed.of)
}

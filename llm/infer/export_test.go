package infer

// UsesWeight reports whether the graph that was computed last has a weight.
func (s *Session) UsesWeight(name string) bool {
	w := s.d.m.Weight(name)
	for leaf := range s.d.graphs[0].Leaves() {
		if leaf.Key() == w.Key() {
			return true
		}
	}
	return false
}

// Computed counts the first tokens of the sequence that need not be computed again.
func (q *Sequence) Computed() int { return q.computed }

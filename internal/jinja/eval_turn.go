package jinja

// startTurn begins the turn of a marked dict that is looked up by index in a loop, unless the loop itself is over
// marked dicts.
func (s *state) startTurn(v Value) {
	if m := markOf(v); m != 0 && s.loops > 0 && !s.hasTurn {
		s.turn, s.hasTurn = m, true
	}
}

// markOf returns the mark of a dict, or of a dict in a tuple; 0 if there is none.
func markOf(v Value) int32 {
	switch v := v.(type) {
	case *Dict:
		return v.Mark
	case *Sequence:
		if v.kind != tupleKind {
			return 0
		}
		for _, item := range v.Items {
			if m, ok := item.(*Dict); ok && m.Mark != 0 {
				return m.Mark
			}
		}
	}
	return 0
}

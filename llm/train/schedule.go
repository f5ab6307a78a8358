package train

import "math"

// A Schedule gives the learning rate of each step: a linear warm-up, then a
// cosine from Peak to Floor at the last step. A run of one step has Peak.
type Schedule struct {
	Peak   float64 // learning rate after the warm-up
	Floor  float64 // learning rate of the last step
	Warmup int     // steps
	Steps  int     // of the whole run; see Options.Epochs
}

// At gives the learning rate of step 1, 2, …
func (s Schedule) At(step int) float64 {
	if step <= s.Warmup {
		return s.Peak * float64(step) / float64(s.Warmup)
	}
	if s.Steps <= max(1, s.Warmup) {
		return s.Peak
	}
	done := math.Min(1, float64(step-s.Warmup)/float64(s.Steps-s.Warmup))
	return s.Floor + (s.Peak-s.Floor)*(1+math.Cos(math.Pi*done))/2
}

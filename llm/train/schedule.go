package train

import (
	"fmt"
	"math"
	"strings"
)

// A Shape is the course of the learning rate after the warm-up.
type Shape int

// The shapes; the zero value is Cosine. The FromZero shapes equal transformers'
// get_*_schedule_with_warmup: the first warm-up step has rate 0 and changes nothing.
const (
	Cosine   Shape = iota // half a cosine from Peak to Floor
	Linear                // a straight line from Peak to Floor
	Constant              // Peak, regardless of Floor
	CosineFromZero
	LinearFromZero
	ConstantFromZero
	ConstantAtOnce // Peak from the first step on, regardless of Warmup and Floor: transformers' get_constant_schedule
)

var shapeNames = []string{"cosine", "linear", "constant", "cosine-from-0", "linear-from-0", "constant-from-0", "constant-at-once"}

// String returns the shape in lower case, such as "cosine".
func (s Shape) String() string {
	if s < 0 || int(s) >= len(shapeNames) {
		return fmt.Sprintf("Shape(%d)", int(s))
	}
	return shapeNames[s]
}

// ParseShape is the inverse of String.
func ParseShape(name string) (Shape, error) {
	for i, known := range shapeNames {
		if name == known {
			return Shape(i), nil
		}
	}
	return 0, fmt.Errorf("there is no schedule %q; use one of %s", name, strings.Join(shapeNames, ", "))
}

// A Schedule gives the learning rate of each step: a linear warm-up to Peak, then its Shape, which
// begins at Peak and would reach Floor one step after the last. So each step of a run changes the
// parameters, even if Floor is 0.
type Schedule struct {
	Shape  Shape
	Peak   float64 // learning rate after the warm-up
	Floor  float64 // learning rate to which the shape falls
	Warmup int     // number of steps
	Steps  int     // number of steps of the whole run; see Options.Epochs

	// Period is the number of steps after the warm-up in which the rate falls to Floor; 0 means all
	// remaining steps. Then it stays at Floor or, with Restart, falls from Peak again (SGDR, arXiv
	// 1608.03983), in cycles, each PeriodGrowth times as long as the previous one; 0 means 1. Cycle ends
	// are rounded to whole steps.
	Period       int
	PeriodGrowth float64
	Restart      bool

	// AtFloor makes the shape reach Floor one step earlier, in the last step, as in runs of earlier
	// versions. A resumed run keeps its rule, see [Trainer.LoadCheckpoint].
	AtFloor bool
}

// At returns the learning rate of step 1, 2, …; NaN if the schedule is invalid.
func (s Schedule) At(step int) float64 {
	if s.validate() != nil {
		return math.NaN()
	}
	if s.Shape == ConstantAtOnce {
		return s.Peak
	}
	shape := s.Shape % CosineFromZero
	if step <= s.Warmup {
		risen := step
		if s.Shape != shape {
			risen--
		}
		return s.Peak * float64(risen) / float64(s.Warmup)
	}
	place, length := step-s.Warmup, s.Steps-s.Warmup // counted from 1
	switch {
	case shape == Constant:
		return s.Peak
	case s.Period > 0 && s.Restart:
		place, length = s.cycle(place)
	case s.Period > 0:
		length = s.Period
	case s.Steps <= max(1, s.Warmup):
		return s.Peak
	}
	if !s.AtFloor {
		place--
	}
	fallen := math.Min(1, float64(place)/float64(length))
	left := (1 + math.Cos(math.Pi*fallen)) / 2
	if shape == Linear {
		left = 1 - fallen
	}
	return s.Floor + (s.Peak-s.Floor)*left
}

// never is a step later than the last step of any run.
const never = 1 << 62

// cycle returns the place of a step in its cycle and the cycle's length. Steps are counted from 1
// after the warm-up, places from 1.
func (s Schedule) cycle(step int) (place, length int) {
	step = min(step, never)
	k := s.cycleOf(float64(step - 1))
	for s.cycleEnd(k) >= step {
		k--
	}
	for s.cycleEnd(k+1) < step {
		k++
	}
	begin := s.cycleEnd(k)
	return step - begin, s.cycleEnd(k+1) - begin
}

// cycleOf returns approximately the number of cycles completed after a number of steps.
func (s Schedule) cycleOf(steps float64) int {
	cycles := steps / float64(s.Period)
	if more := s.growth() - 1; more > 0 {
		cycles = math.Log1p(cycles*more) / math.Log1p(more)
	}
	return int(cycles)
}

// cycleEnd returns the last step of the first k cycles: Period·(1 + g + … + gᵏ⁻¹).
func (s Schedule) cycleEnd(k int) int {
	lengths := float64(k)
	if more := s.growth() - 1; more > 0 {
		lengths = math.Expm1(float64(k)*math.Log1p(more)) / more
	}
	return int(math.Min(math.Round(float64(s.Period)*lengths), never))
}

func (s Schedule) growth() float64 {
	if s.PeriodGrowth == 0 {
		return 1
	}
	return s.PeriodGrowth
}

func (s Schedule) validate() error {
	switch {
	case s.Shape < 0 || int(s.Shape) >= len(shapeNames):
		return fmt.Errorf("the shape of the schedule is %d; use one of the constants Cosine to ConstantAtOnce", int(s.Shape))
	case s.Warmup < 0:
		return fmt.Errorf("the warm-up is %d steps", s.Warmup)
	case !positive(s.Peak) || !(s.Floor >= 0) || !finite(s.Floor):
		return fmt.Errorf("the learning rate goes from %v to %v; Peak must be positive, such as 2e-4, and both finite", s.Peak, s.Floor)
	case s.Period < 0 || s.Period > math.MaxInt32:
		return fmt.Errorf("the learning rate falls within %d steps; give 0, for the whole run, to %d", s.Period, math.MaxInt32)
	case s.PeriodGrowth != 0 && (!(s.PeriodGrowth >= 1) || !finite(s.PeriodGrowth)):
		return fmt.Errorf("PeriodGrowth is %v; it must be at least 1, or 0 for cycles of equal length", s.PeriodGrowth)
	case s.Restart && s.Period == 0:
		return fmt.Errorf("restarts of the learning rate need a Period, the steps of the first cycle")
	}
	return nil
}

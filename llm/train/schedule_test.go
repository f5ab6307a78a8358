package train

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

// rates returns the rates of steps 1 to n.
func rates(s Schedule, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = s.At(i + 1)
	}
	return list
}

// Rates of each step of transformers' schedules, from a PyTorch optimiser with rate 1 (version 5.24).
func TestScheduleOfTransformers(t *testing.T) {
	for name, c := range map[string]struct {
		s    Schedule
		want []float64
	}{
		"get_linear_schedule_with_warmup(3, 11)": {Schedule{Shape: LinearFromZero, Peak: 1, Warmup: 3, Steps: 11}, []float64{
			0.0, 0.333333333, 0.666666667, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125,
		}},
		"get_cosine_schedule_with_warmup(3, 11)": {Schedule{Shape: CosineFromZero, Peak: 1, Warmup: 3, Steps: 11}, []float64{
			0.0, 0.333333333, 0.666666667, 1.0, 0.961939766, 0.853553391, 0.691341716, 0.5, 0.308658284, 0.146446609, 0.038060234,
		}},
		"get_constant_schedule_with_warmup(3)": {Schedule{Shape: ConstantFromZero, Peak: 1, Floor: 0.5, Warmup: 3, Steps: 11}, []float64{
			0.0, 0.333333333, 0.666666667, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
		}},
		"get_constant_schedule()": {Schedule{Shape: ConstantAtOnce, Peak: 1, Floor: 0.5, Warmup: 3, Steps: 11}, []float64{
			1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
		}},
		"get_cosine_with_hard_restarts_schedule_with_warmup(2, 10, 2)": {Schedule{Shape: CosineFromZero, Peak: 1, Warmup: 2, Steps: 10, Period: 4, Restart: true}, []float64{
			0.0, 0.5, 1.0, 0.853553391, 0.5, 0.146446609, 1.0, 0.853553391, 0.5, 0.146446609,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			require.InDeltaSlice(t, c.want, rates(c.s, len(c.want)), 1e-9)
		})
	}
	// cosine_with_min_lr with min_lr=0.1 also warms up from 0.
	s := Schedule{Shape: CosineFromZero, Peak: 1, Floor: 0.1, Warmup: 3, Steps: 11}
	want := []float64{0.0, 0.333333333, 0.666666667, 1.0, 0.96574579, 0.868198052, 0.722207545, 0.55, 0.377792455, 0.231801948, 0.13425421}
	require.InDeltaSlice(t, want, rates(s, 11), 1e-9)
	// Other schedules are equal after the warm-up, whose first step has a nonzero rate.
	s.Shape = Cosine
	require.InDeltaSlice(t, append([]float64{0.333333333, 0.666666667, 1.0}, want[3:]...), rates(s, 11), 1e-9)
	// Runs of earlier versions reached the floor in the last step.
	s.AtFloor = true
	require.InDeltaSlice(t, append([]float64{0.333333333, 0.666666667, 1.0}, append(want[4:], 0.1)...), rates(s, 11), 1e-9)
}

// oldFinetune is the cosine of upstream's former program, which counted cycles in a loop.
func oldFinetune(step, period int, growth float64, restart bool) float64 {
	for restart && step > period {
		step -= period
		period = int(growth * float64(period))
	}
	return (1 + math.Cos(math.Pi*float64(min(step, period))/float64(period))) / 2
}

func TestScheduleOfOldFinetune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Peak: 1, Warmup: rapid.IntRange(0, 5).Draw(t, "warm-up"), Steps: 5000,
			Period: rapid.IntRange(1, 300).Draw(t, "period"), Restart: rapid.Bool().Draw(t, "restart"),
			PeriodGrowth: float64(rapid.IntRange(1, 3).Draw(t, "growth")), // integers only: the old program truncated
			AtFloor:      true,
		}
		step := rapid.IntRange(s.Warmup+1, s.Steps).Draw(t, "step")
		require.InDelta(t, oldFinetune(step-s.Warmup, s.Period, s.PeriodGrowth, s.Restart), s.At(step), 1e-9)
	})
}

// Cycles follow one another without gaps, each about PeriodGrowth times as long as the previous one,
// however many there are.
func TestScheduleCycles(t *testing.T) {
	s := Schedule{Period: 10, PeriodGrowth: 1.1, Restart: true}
	ends, length, sum := []int{}, 10.0, 0.0
	for range 8 {
		sum += length
		ends, length = append(ends, int(math.Round(sum))), length*1.1
	}
	require.Equal(t, []int{10, 21, 33, 46, 61, 77, 95, 114}, ends)
	for i, end := range ends {
		require.Equal(t, end, s.cycleEnd(i+1))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Period:       rapid.IntRange(1, 1000).Draw(t, "period"),
			PeriodGrowth: rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 1 + 1e-12, 1 + 1e-7, 1.1, 2, 1e30}), rapid.Float64Range(1, 3)).Draw(t, "growth"),
		}
		step := rapid.IntRange(1, math.MaxInt32).Draw(t, "step")
		place, length := s.cycle(step)
		require.GreaterOrEqual(t, place, 1)
		require.LessOrEqual(t, place, length)
		require.GreaterOrEqual(t, length, s.Period)
		next, nextLength := s.cycle(step + 1)
		if place < length {
			require.Equal(t, []int{place + 1, length}, []int{next, nextLength})
			return
		}
		require.Equal(t, 1, next)
		if nextLength < 1<<50 {
			require.InEpsilon(t, float64(length)*s.growth(), nextLength, 4/float64(length)+1e-6)
		}
	})
}

// The rate rises to its peak in the last warm-up step, then moves towards the floor, jumps only at the
// beginning of a cycle, and stays within its bounds.
func TestScheduleBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Shape: rapid.SampledFrom([]Shape{Cosine, Linear, Constant}).Draw(t, "shape"),
			Peak:  rapid.Float64Range(1e-6, 1).Draw(t, "peak"), Warmup: rapid.IntRange(0, 20).Draw(t, "warm-up"),
			Steps: rapid.IntRange(1, 60).Draw(t, "steps"), AtFloor: rapid.Bool().Draw(t, "at the floor"),
		}
		s.Floor = s.Peak * rapid.Float64Range(0, 1).Draw(t, "floor")
		if rapid.Bool().Draw(t, "periodic") {
			s.Period = rapid.IntRange(1, 20).Draw(t, "period")
			s.Restart = rapid.Bool().Draw(t, "restart")
			s.PeriodGrowth = rapid.Float64Range(1, 2).Draw(t, "growth")
		}
		require.NoError(t, s.validate())
		length := s.Steps - s.Warmup
		if s.Period > 0 {
			length = s.Period
		}
		last := 0.0
		for step := 1; step <= s.Steps; step++ {
			rate := s.At(step)
			require.Greater(t, rate, -1e-12)
			require.LessOrEqual(t, rate, s.Peak*(1+1e-12))
			switch {
			case step <= s.Warmup:
				require.InDelta(t, s.Peak/float64(s.Warmup), rate-last, 1e-12)
			case rate > last && step > s.Warmup+1:
				require.True(t, s.Restart)
				if s.AtFloor {
					require.InDelta(t, s.Floor, last, 1e-9, "a cycle ends at the floor")
				}
			case step > s.Warmup+1:
				require.LessOrEqual(t, last-rate, (s.Peak-s.Floor)*math.Pi/2/float64(length)+1e-12, "the steepest slope of a cosine")
			}
			last = rate
		}
		switch {
		case s.Shape == Constant && s.Steps > s.Warmup, s.Steps == 1 && s.Warmup == 0 && s.Period == 0:
			require.Equal(t, s.Peak, last)
		case s.Steps > s.Warmup && !s.Restart && (s.AtFloor && s.Steps >= s.Warmup+s.Period || s.Period > 0 && s.Steps > s.Warmup+s.Period):
			require.InDelta(t, s.Floor, last, 1e-9)
		case !s.AtFloor && s.Period == 0 && s.Floor < s.Peak && s.Steps > s.Warmup:
			require.Greater(t, last, s.Floor, "the last step moves something")
		}
	})
}

func TestScheduleErrors(t *testing.T) {
	good := Schedule{Peak: 1e-3, Steps: 10, Period: 4, PeriodGrowth: 1.1, Restart: true}
	require.NoError(t, good.validate())
	for want, change := range map[string]func(s *Schedule){
		"the shape of the schedule is 7; use one of the constants Cosine to ConstantAtOnce": func(s *Schedule) { s.Shape = 7 },
		"the warm-up is -1 steps": func(s *Schedule) { s.Warmup = -1 },
		"the learning rate goes from 0 to 0; Peak must be positive, such as 2e-4, and both finite": func(s *Schedule) { s.Peak = 0 },
		"the learning rate falls within -1 steps; give 0, for the whole run, to 2147483647":        func(s *Schedule) { s.Period = -1 },
		"PeriodGrowth is 0.5; it must be at least 1, or 0 for cycles of equal length":              func(s *Schedule) { s.PeriodGrowth = 0.5 },
		"PeriodGrowth is 1e+39; it must be at least 1, or 0 for cycles of equal length":            func(s *Schedule) { s.PeriodGrowth = 1e39 },
		"restarts of the learning rate need a Period, the steps of the first cycle":                func(s *Schedule) { s.Period = 0 },
	} {
		s := good
		change(&s)
		require.EqualError(t, s.validate(), want)
	}
}

func TestParseShape(t *testing.T) {
	for s := range ConstantAtOnce + 1 {
		got := need.Value(ParseShape(s.String()))(t)
		require.Equal(t, s, got)
	}
	_, err := ParseShape("square")
	require.EqualError(t, err, `there is no schedule "square"; use one of cosine, linear, constant, cosine-from-0, linear-from-0, constant-from-0, constant-at-once`)
	require.Equal(t, "Shape(7)", Shape(7).String())
}

// An invalid schedule has NaN rates, without looping for long.
func TestRatesOfNoSchedule(t *testing.T) {
	for _, s := range []Schedule{
		{},
		{Peak: 1, Warmup: -1, Steps: 1, Period: 1, PeriodGrowth: math.Inf(1), Restart: true},
		{Peak: 1, Period: math.MinInt, Restart: true},
	} {
		require.Error(t, s.validate())
		require.True(t, math.IsNaN(s.At(16)))
	}
}

// Any step beyond every run is in some cycle, although the end of that cycle would overflow.
func TestScheduleAtTheLargestStep(t *testing.T) {
	for _, growth := range []float64{0, 1.5} {
		s := Schedule{Peak: 1, Steps: 1, Period: 3, PeriodGrowth: growth, Restart: true}
		rate := s.At(math.MaxInt)
		require.True(t, rate >= 0 && rate <= 1, "growth %v: %v", growth, rate)
	}
}

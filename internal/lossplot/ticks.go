package lossplot

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// ticks places about n labelled marks at round numbers.
func ticks(n int) plot.TickerFunc {
	return func(lo, hi float64) []plot.Tick {
		step := roundStep((hi - lo) / float64(n))
		unit, suffix := unitFor(max(math.Abs(lo), math.Abs(hi)))
		decimals := decimalsFor(step / unit)
		var marks []plot.Tick
		first := math.Ceil(lo/step - 1e-9)
		for i := first; i*step <= hi+step*1e-9; i++ {
			v := i*step + 0 // adding zero turns -0 into 0
			label := strconv.FormatFloat(v/unit, 'f', decimals, 64) + suffix
			if v == 0 {
				label = "0"
			}
			marks = append(marks, plot.Tick{Value: v, Label: label})
		}
		return marks
	}
}

// roundStep is the smallest of 1, 2, 2.5 and 5 times a power of ten that is at
// least step.
func roundStep(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= step*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// unitFor shortens counts of tokens: 2M instead of 2000000.
func unitFor(largest float64) (unit float64, suffix string) {
	switch {
	case largest >= 1e13:
		return 1e12, "T"
	case largest >= 1e10:
		return 1e9, "G"
	case largest >= 2e6:
		return 1e6, "M"
	case largest >= 2e4:
		return 1e3, "k"
	}
	return 1, ""
}

// decimalsFor is how many decimals tell multiples of step apart.
func decimalsFor(step float64) int {
	for n := 0; n < 12; n++ {
		scaled := step * math.Pow10(n)
		if math.Abs(scaled-math.Round(scaled)) < 1e-6*scaled {
			return n
		}
	}
	return 12
}

// span is the range of an axis.
type span struct{ lo, hi float64 }

// pad widens the range by a share of it on both sides. Rounding errors alone
// are no range to show, nor is a single value.
func (s span) pad(share float64) span {
	size := s.hi - s.lo
	if least := 1e-6 * max(math.Abs(s.lo), math.Abs(s.hi), 1e-6); size < least {
		size = max(math.Abs(s.lo), 1)
		return span{s.lo - size/10, s.hi + size/10}
	}
	return span{s.lo - share*size, s.hi + share*size}
}

package progress

import "time"

// window measures the rate of a growing amount over the last span of time.
type window struct {
	span    time.Duration
	samples []sample // oldest first
}

type sample struct {
	at     time.Time
	amount float64
}

// resolution bounds how many samples a window keeps.
const resolution = 100

// add notes the amount reached. A smaller amount than before starts anew.
func (w *window) add(at time.Time, amount float64) {
	n := len(w.samples)
	if n > 0 && amount < w.samples[n-1].amount {
		w.samples, n = w.samples[:0], 0
	}
	next := sample{at, amount}
	if n >= 2 && w.samples[n-1].at.Sub(w.samples[n-2].at) < w.span/resolution {
		w.samples[n-1] = next
	} else {
		w.samples = append(w.samples, next)
	}
	// One sample from before the span stays, for the rate to cover it whole.
	old := 0
	for old+2 < len(w.samples) && at.Sub(w.samples[old+1].at) >= w.span {
		old++
	}
	w.samples = append(w.samples[:0], w.samples[old:]...)
}

// rate is the growth in a second, 0 if it is not known yet.
func (w *window) rate() float64 {
	if len(w.samples) < 2 {
		return 0
	}
	first, last := w.samples[0], w.samples[len(w.samples)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return (last.amount - first.amount) / seconds
}

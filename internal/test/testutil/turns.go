package testutil

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goggml/ggml/internal/test/need"
)

// Turns are the times of samplers over some rounds: a list per sampler.
type Turns [][]time.Duration

// longRound is the time from which the first round counts: warming up is a small part of it.
const longRound = 15 * time.Second

// InTurn takes samples in rounds, one of each sampler, for at least a number of rounds and a time. So all
// samplers run on the same machine, whose speed changes.
func InTurn(rounds int, budget time.Duration, samplers ...func() time.Duration) Turns {
	t := make(Turns, len(samplers))
	var spent time.Duration
	for first := true; len(t[0]) < max(1, rounds) || spent < budget; first = false {
		var round []time.Duration
		var took time.Duration
		for i, sample := range samplers {
			round = append(round, sample())
			took += round[i]
		}
		if first && took < longRound {
			continue
		}
		for i, d := range round {
			t[i] = append(t[i], d)
		}
		spent += took
	}
	return t
}

// Median returns the median of a sampler's times.
func (t Turns) Median(i int) time.Duration { return median(t[i]) }

// Ratio returns the median over rounds of time i divided by time j.
func (t Turns) Ratio(i, j int) float64 {
	var ratios []float64
	for round := range t[i] {
		ratios = append(ratios, t[i][round].Seconds()/t[j][round].Seconds())
	}
	return median(ratios)
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ProcessorTime returns the time that the process has computed. With one thread a busy machine hardly changes it.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchTime returns -test.benchtime: a number of runs, or their minimum duration.
func BenchTime(b *testing.B) (int, time.Duration) {
	b.Helper()
	text := flag.Lookup("test.benchtime").Value.String()
	if count, ok := strings.CutSuffix(text, "x"); ok {
		n := need.Value(strconv.Atoi(count))(b)
		return n, 0
	}
	d := need.Value(time.ParseDuration(text))(b)
	return 1, d
}

// Rounds returns how many rounds suffice to compare two programs: GOGGML_BENCH_ROUNDS.
func Rounds() int {
	if n, err := strconv.Atoi(os.Getenv("GOGGML_BENCH_ROUNDS")); err == nil {
		return n
	}
	return 5
}

// Once runs f once, which repeats its measurements itself, and excludes its time from the results.
func Once(b *testing.B, f func()) {
	done := false
	for b.Loop() {
		if !done {
			f()
			done = true
		}
	}
	b.ReportMetric(0, "ns/op")
}

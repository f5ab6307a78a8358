package train

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Early stopping, evaluation by evaluation.
func TestPatience(t *testing.T) {
	const one, three = "the validation loss has not improved for 1 evaluation", "the validation loss has not improved for 3 evaluations"
	for name, c := range map[string]struct {
		c      Convergence
		losses []float64
		at     int // index of the evaluation that ends the run; 0 for none
		why    string
	}{
		"off":                    {Convergence{}, []float64{1, 2, 3, 4, 5}, 0, ""},
		"falls":                  {Convergence{Patience: 1}, []float64{5, 4, 3, 2, 1}, 0, ""},
		"first rise":             {Convergence{Patience: 1}, []float64{5, 4, 4.5}, 3, one},
		"equal is none better":   {Convergence{Patience: 1}, []float64{5, 5}, 2, one},
		"three in a row":         {Convergence{Patience: 3}, []float64{5, 6, 6, 4.9, 5, 5, 4.95, 1}, 7, three},
		"only two in a row":      {Convergence{Patience: 3}, []float64{5, 6, 6, 4, 5, 5, 3, 4, 4}, 0, ""},
		"worse than the start":   {Convergence{Patience: 3}, []float64{5, 6, 7, 8}, 4, three},
		"falls by too little":    {Convergence{Patience: 2, MinDelta: 0.5}, []float64{5, 4, 3.75, 3.625}, 4, "the validation loss has not improved by 0.5 for 2 evaluations"},
		"falls little by little": {Convergence{Patience: 2, MinDelta: 0.5}, []float64{5, 4, 3.75, 3.5, 3.25, 3}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var list []Evaluation
			for i, loss := range c.losses {
				list = append(list, Evaluation{Step: 10 * i, Loss: loss})
				why := c.c.evaluated(list, BestByLoss)
				if len(list) == c.at {
					require.Equal(t, c.why, why)
					return
				}
				require.Empty(t, why, "evaluation %d", i)
			}
			require.Zero(t, c.at)
		})
	}
}

// A loss that is not a number is never the best one, not even the first, and every number is an improvement on it.
func TestNaNIsNeverBest(t *testing.T) {
	for _, by := range []BestBy{BestByLoss, BestByAccuracy} {
		tr := &Trainer{options: Options{BestBy: by}}
		for i, loss := range []float64{math.NaN(), math.NaN(), 5, math.NaN(), 6} {
			tr.Evaluations = append(tr.Evaluations, Evaluation{Step: i, Loss: loss, Accuracy: 0.5})
			best, ok := tr.Best()
			require.Equal(t, i >= 2, ok, "%v", by)
			if ok {
				require.Equal(t, 2, best.Step, "%v", by)
			}
		}
		ends := func(n int) bool { return Convergence{Patience: 2}.evaluated(tr.Evaluations[:n], by) != "" }
		require.Equal(t, []bool{false, false, false, false, true}, []bool{ends(1), ends(2), ends(3), ends(4), ends(5)}, "%v", by)
	}
}

// By accuracy, the loss decides between equal ones, unless the least improvement is positive.
func TestBestByAccuracy(t *testing.T) {
	tr := &Trainer{options: Options{BestBy: BestByAccuracy}, schedule: Schedule{Steps: 100}}
	for i, e := range []struct {
		loss, accuracy float64
		best           int // index of the best so far
		since, sinceBy int // evaluations since an improvement, and since one of at least 0.25
	}{
		{5, 0.5, 0, 0, 0}, {6, 0.625, 1, 0, 1}, {4, 0.5, 1, 1, 2}, {5.5, 0.625, 3, 0, 3}, {5.5, 0.625, 3, 1, 4}, {7, 0.75, 5, 0, 0}, {8, 1, 6, 0, 0}, {7, 1, 7, 0, 1},
	} {
		tr.Evaluations = append(tr.Evaluations, Evaluation{Step: i, Loss: e.loss, Accuracy: e.accuracy})
		best, ok := tr.Best()
		require.True(t, ok)
		require.Equal(t, e.best, best.Step)
		for _, c := range []struct {
			delta float64
			since int
		}{{0, e.since}, {0.25, e.sinceBy}} {
			ends := func(patience int) bool {
				return Convergence{Patience: patience, MinDelta: c.delta}.evaluated(tr.Evaluations, BestByAccuracy) != ""
			}
			require.False(t, ends(c.since+1), i)
			require.Equal(t, c.since > 0, c.since > 0 && ends(c.since), i)
		}
	}
	require.Equal(t, "the validation accuracy has not improved by 0.25 for 1 evaluation", Convergence{Patience: 1, MinDelta: 0.25}.evaluated(tr.Evaluations, BestByAccuracy))
}

// oldOptimizer implements the stopping rule of ggml's former Adam: it returns the index of the loss at
// which it stopped, or −1.
func oldOptimizer(losses []float64, c Convergence) int {
	best, noImprovement, past := losses[0], 0, map[int]float64{}
	for t, fx := range losses {
		if t > 0 && math.Abs(fx-losses[t-1])/fx < c.Epsilon {
			return t
		}
		if c.Past > 0 {
			if c.Past <= t && math.Abs((past[t%c.Past]-fx)/fx) < c.Delta {
				return t
			}
			past[t%c.Past] = fx
		}
		if c.MaxNoImprovement > 0 && t > 0 {
			if best > fx {
				best, noImprovement = fx, 0
			} else if noImprovement++; noImprovement >= c.MaxNoImprovement {
				return t
			}
		}
	}
	return -1
}

func TestConvergenceOfOldOptimizer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Convergence
		if rapid.Bool().Draw(t, "past") {
			c.Past, c.Delta = rapid.IntRange(1, 8).Draw(t, "steps"), rapid.Float64Range(1e-6, 0.05).Draw(t, "delta")
		}
		if rapid.Bool().Draw(t, "one step") {
			c.Epsilon = rapid.Float64Range(0, 0.02).Draw(t, "epsilon")
		}
		c.MaxNoImprovement = rapid.IntRange(0, 8).Draw(t, "no improvement")
		require.NoError(t, c.validate())
		losses := rapid.SliceOfN(rapid.Map(rapid.IntRange(100, 160), func(n int) float64 { return float64(n) / 50 }), 1, 40).Draw(t, "losses")
		want := oldOptimizer(losses, c)

		tr := &Trainer{}
		for i, loss := range losses {
			tr.record(StepMetrics{Step: i + 1, Loss: loss})
			why := c.trained(tr.History, tr.lowest)
			require.Equal(t, i == want, why != "", "step %d: %q", i+1, why)
			if why != "" {
				return
			}
		}
	})
}

func TestConvergenceInWords(t *testing.T) {
	for want, c := range map[string]Convergence{
		"the training loss has reached no new low for 2 steps":                     {MaxNoImprovement: 2},
		"the training loss has changed by less than 0.5 of itself within 2 steps":  {Past: 2, Delta: 0.5},
		"the training loss has changed by less than 0.5 of itself within 1 step":   {Past: 1, Delta: 0.5},
		"the training loss has changed by less than 0.01 of itself in a step":      {Epsilon: 0.01},
		"the training loss has changed by less than 0.25 of itself within 2 steps": {Past: 2, Delta: 0.25, Epsilon: 0.01},
		"": {MaxNoImprovement: 3, Past: 1, Delta: 1e-5, Epsilon: 1e-5},
	} {
		require.Equal(t, want, c.trained([]StepMetrics{{Loss: 2}, {Loss: 2.25}, {Loss: 2.25 + 1e-4}}, 0))
	}
	require.Empty(t, Convergence{MaxNoImprovement: 1, Past: 1, Delta: 1, Epsilon: 1}.trained(nil, 0))
}

func TestConvergenceErrors(t *testing.T) {
	for want, c := range map[string]Convergence{
		"the convergence has Patience -1; it must be finite, and positive, or 0 for none":                          {Patience: -1},
		"the convergence has Past -2; it must be finite, and positive, or 0 for none":                              {Past: -2},
		"the convergence has MaxNoImprovement -3; it must be finite, and positive, or 0 for none":                  {MaxNoImprovement: -3},
		"the convergence has MinDelta -1; it must be finite, and positive, or 0 for none":                          {MinDelta: -1},
		"the convergence has Delta NaN; it must be finite, and positive, or 0 for none":                            {Delta: math.NaN()},
		"the convergence has Epsilon +Inf; it must be finite, and positive, or 0 for none":                         {Epsilon: math.Inf(1)},
		"the convergence has Past but no Delta: the change of the loss within Past steps below which the run ends": {Past: 3},
	} {
		require.EqualError(t, c.validate(), want)
	}
}

func TestShortDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"2h": 2 * time.Hour, "1h30m": 90 * time.Minute, "10m": 10 * time.Minute, "40s": 40 * time.Second,
		"1h0m5s": time.Hour + 5*time.Second, "1.5s": 1500 * time.Millisecond, "20h": 20 * time.Hour,
	} {
		require.Equal(t, want, shortDuration(d))
	}
}

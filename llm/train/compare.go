package train

import (
	"fmt"
	"math"
)

// A Comparison is the difference of two losses on the same held-out rows, in nats per token, with a
// confidence interval for data like this. If the interval contains 0, the difference may be chance.
type Comparison struct {
	Mean       float64 // loss of A minus loss of B: positive if B is better
	Low, High  float64 // confidence interval
	Confidence float64 // probability that such an interval contains the true difference
	Rows       int     // number of rows with a trained token
}

// Decided reports whether the interval excludes 0.
func (d Comparison) Decided() bool { return d.Low > 0 || d.High < 0 }

// minCompared is the minimum number of rows for an interval.
const minCompared = 5

// Compare compares A and B, two evaluations of the same rows by [Evaluator.EvaluateRows]. Rows are
// paired: a row that is hard for A is hard for B too, and this cancels. The difference is a ratio of
// sums over rows; its variance is the variance of the rows' residuals (W. G. Cochran, Sampling
// Techniques, 6.4), and its interval is Student's t. Rows should be independent: rows of one long text
// nearly are, duplicates are not ([data.Dataset.Distinct]).
func Compare(a, b []RowEvaluation, confidence float64) (Comparison, error) {
	if !(confidence > 0 && confidence < 1) {
		return Comparison{}, fmt.Errorf("the confidence is %v; it must be above 0 and below 1, such as 0.95", confidence)
	}
	if len(a) != len(b) {
		return Comparison{}, fmt.Errorf("there are %d rows of A and %d of B: they are not of the same data", len(a), len(b))
	}
	d := Comparison{Confidence: confidence}
	var difference, weight float64
	for i := range a {
		if a[i].Weight != b[i].Weight || a[i].Tokens != b[i].Tokens {
			return Comparison{}, fmt.Errorf("row %d has %d trained tokens for A and %d for B: they are not of the same data", i, a[i].Tokens, b[i].Tokens)
		}
		if a[i].Tokens > 0 {
			d.Rows++
		}
		difference += a[i].Loss - b[i].Loss
		weight += a[i].Weight
	}
	if d.Rows < minCompared {
		return Comparison{}, fmt.Errorf("%d rows are too few to tell a difference from chance; at least %d are needed", d.Rows, minCompared)
	}
	d.Mean = difference / weight
	var squares float64
	for i := range a {
		residual := a[i].Loss - b[i].Loss - d.Mean*a[i].Weight
		squares += residual * residual
	}
	n := float64(d.Rows)
	half := quantileT(0.5+confidence/2, n-1) * math.Sqrt(squares*n/(n-1)) / weight
	d.Low, d.High = d.Mean-half, d.Mean+half
	return d, nil
}

// quantileT returns a quantile of Student's t distribution, by its expansion around the normal
// distribution's quantile (Abramowitz and Stegun, 26.7.5).
func quantileT(p, freedom float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	z2, v := z*z, freedom
	return z * (1 +
		(z2+1)/(4*v) +
		((5*z2+16)*z2+3)/(96*v*v) +
		(((3*z2+19)*z2+17)*z2-15)/(384*v*v*v) +
		((((79*z2+776)*z2+1482)*z2-1920)*z2-945)/(92160*v*v*v*v))
}

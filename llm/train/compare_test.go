package train_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// Over many repetitions, intervals contain the planted difference as often as they claim, for few and
// many rows of equal and very unequal lengths, where hard rows are hard for both.
func TestComparisonCovers(t *testing.T) {
	const planted, repetitions = 0.03, 2000
	for _, rows := range []int{5, 12, 200} {
		for _, uneven := range []bool{false, true} {
			for _, confidence := range []float64{0.8, 0.95} {
				if uneven && rows < 200 {
					continue // few rows, one of which outweighs the others, prove little by any formula
				}
				t.Run(fmt.Sprintf("%d rows, uneven %v, %v", rows, uneven, confidence), func(t *testing.T) {
					random := rand.New(rand.NewPCG(1, uint64(rows)))
					covered := 0
					for range repetitions {
						a, b := make([]train.RowEvaluation, rows), make([]train.RowEvaluation, rows)
						for i := range a {
							tokens := 40
							if uneven {
								tokens = 10 + random.IntN(200)
							}
							hard, n := random.NormFloat64(), float64(tokens)
							a[i] = train.RowEvaluation{Loss: n * (2 + hard), Weight: n, Tokens: tokens}
							b[i] = train.RowEvaluation{Loss: n * (2 + hard - planted - 0.1*random.NormFloat64()), Weight: n, Tokens: tokens}
						}
						c := need.Value(train.Compare(a, b, confidence))(t)
						if c.Low <= planted && planted <= c.High {
							covered++
						}
					}
					deviation := math.Sqrt(confidence * (1 - confidence) / repetitions)
					require.InDelta(t, confidence, float64(covered)/repetitions, 4*deviation)
				})
			}
		}
	}
}

// If all rows have equally many tokens, the interval is the paired t-test's.
func TestComparisonOfEqualRows(t *testing.T) {
	var a, b []train.RowEvaluation
	for i, d := range []float64{0.3, -0.1, 0.2, 0.4, 0.0, 0.1} { // mean 0.15, standard deviation 0.1871
		a = append(a, train.RowEvaluation{Loss: 2 * (float64(i) + d), Weight: 2, Tokens: 2})
		b = append(b, train.RowEvaluation{Loss: 2 * float64(i), Weight: 2, Tokens: 2})
	}
	c := need.Value(train.Compare(a, b, 0.95))(t)
	require.InDelta(t, 0.15, c.Mean, 1e-12)
	half := 2.5706 * math.Sqrt(0.035/6) // Student's t with five degrees of freedom
	require.InDelta(t, 0.15-half, c.Low, 1e-4)
	require.InDelta(t, 0.15+half, c.High, 1e-4)
	require.False(t, c.Decided())
	c = need.Value(train.Compare(a, b, 0.5))(t)
	require.True(t, c.Decided())

	same := need.Value(train.Compare(a, a, 0.95))(t)
	require.Equal(t, train.Comparison{Confidence: 0.95, Rows: 6}, same)
	require.False(t, same.Decided())

	_, err := train.Compare(a, b, 1)
	require.EqualError(t, err, "the confidence is 1; it must be above 0 and below 1, such as 0.95")
	_, err = train.Compare(a, b[:5], 0.95)
	require.EqualError(t, err, "there are 6 rows of A and 5 of B: they are not of the same data")
	_, err = train.Compare(a[:4], b[:4], 0.95)
	require.EqualError(t, err, "4 rows are too few to tell a difference from chance; at least 5 are needed")
	b[3].Tokens = 1
	_, err = train.Compare(a, b, 0.95)
	require.EqualError(t, err, "row 3 has 2 trained tokens for A and 1 for B: they are not of the same data")
}

// The sums of rows add up to the evaluation, equal the sums of each row alone, and do not depend on
// the number of rows computed together.
func TestEvaluationOfRows(t *testing.T) {
	m := tinyModel(t)
	samples := patternSamples(9, 20)
	for i := range samples {
		samples[i].Tokens = samples[i].Tokens[:20-2*i]
	}
	samples[4].LossWeights = make([]float32, samples[4].Predicted()) // no token is trained
	d, ctx := data.New(20, samples), context.Background()
	for _, batch := range []int{1, 4} {
		e := need.Value(train.NewEvaluator(m, train.EvaluatorOptions{Batch: batch, Threads: 1}))(t)
		rows := need.Value(e.EvaluateRows(ctx, nil, d))(t)
		require.Len(t, rows, 9)
		require.Equal(t, train.RowEvaluation{}, rows[4])
		var loss, weight float64
		for i, r := range rows {
			loss, weight = loss+r.Loss, weight+r.Weight
			if i == 4 {
				continue
			}
			alone := need.Value(e.Evaluate(ctx, nil, data.New(20, samples[i:i+1])))(t)
			require.InEpsilon(t, alone.Loss, r.Loss/r.Weight, 1e-5)
			require.Equal(t, alone.Tokens, r.Tokens)
			require.InDelta(t, alone.Accuracy, float64(r.Correct)/float64(r.Tokens), 1e-12)
		}
		all := need.Value(e.Evaluate(ctx, nil, d))(t)
		require.Equal(t, loss/weight, all.Loss)
		require.NoError(t, e.Close())
	}
}

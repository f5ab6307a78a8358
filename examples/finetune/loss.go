package main

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
)

// lossChunk is how many tokens have logits in memory at once.
const lossChunk = 128

// meanLoss is the mean cross-entropy of a data set in nats a token, of the logits that
// a session samples from.
func meanLoss(ctx context.Context, s *infer.Session, d *data.Dataset) (float64, error) {
	var sum, total float64
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return 0, err
		}
		for _, sample := range row {
			ofSample, weight, err := sampleLoss(ctx, s, sample)
			if err != nil {
				return 0, err
			}
			sum, total = sum+ofSample, total+weight
		}
	}
	if total == 0 {
		return 0, errors.New("the data set has no token to learn")
	}
	return sum / total, s.Truncate(0)
}

// sampleLoss adds up the weighted cross-entropies of a sample, and their weights.
func sampleLoss(ctx context.Context, s *infer.Session, sample data.Sample) (sum, total float64, err error) {
	if err := s.Truncate(0); err != nil {
		return 0, 0, err
	}
	for inputs := range slices.Chunk(sample.Tokens[:sample.Predicted()], lossChunk) {
		from := s.Pos()
		logits, err := s.DecodeAll(ctx, inputs)
		if err != nil {
			return 0, 0, err
		}
		for i, l := range logits {
			weight := 1.0
			if sample.Weights != nil {
				weight = float64(sample.Weights[from+i])
			}
			if weight != 0 {
				sum += weight * crossEntropy(l, sample.Tokens[from+i+1])
				total += weight
			}
		}
	}
	return sum, total, nil
}

// crossEntropy is −log of the probability of a token.
func crossEntropy(logits []float32, token int32) float64 {
	most := float64(slices.Max(logits))
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return math.Log(sum) + most - float64(logits[token])
}

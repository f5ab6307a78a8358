package data

import (
	"fmt"

	"github.com/goggml/ggml/internal/counted"
)

// Findings about answers that a loss compares or judges.
const (
	contradicting = "contradicting-labels"
	oneLabel      = "one-label"
	lengthBias    = "length-bias"
)

// A PairInspection describes answers that a loss compares or judges.
type PairInspection struct {
	Desirable, Undesirable float64 // mean number of trained tokens of the preferred answers, and of the others
	Pairs                  int     // number of pairs; 0 for labelled answers
	// Of pairs, the fraction whose chosen answer has more trained tokens, and how much of the shorter answer, on
	// average, is equal to the beginning of the other.
	Longer, Shared float64
	Contradictions int // records that contradict an earlier one, see Loaded
}

// encodePair encodes both answers of a pair with the notes of an inspection.
func (x *inspector) encodePair(e Example) (Row, error) {
	return x.encoder.encodePair(e, x.encode)
}

// comparePairs reads all rows, and describes their answers.
func (x *inspector) comparePairs(d *Dataset) error {
	p := &PairInspection{}
	var tokens, answers [2]float64
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		for _, s := range row {
			side := 0
			if s.Label == Undesirable {
				side = 1
			}
			answers[side]++
			tokens[side] += float64(s.Targets())
		}
		if len(row) != 2 {
			continue
		}
		p.Pairs++
		if row[0].Targets() > row[1].Targets() {
			p.Longer++
		}
		p.Shared += sharedBeginning(row[0], row[1])
	}
	var err error
	if _, p.Contradictions, err = d.compareRows(); err != nil {
		return err
	}
	p.Desirable, p.Undesirable = tokens[0]/max(1, answers[0]), tokens[1]/max(1, answers[1])
	p.Longer, p.Shared = p.Longer/max(1, float64(p.Pairs)), p.Shared/max(1, float64(p.Pairs))
	x.Pairs, x.labelled = p, [2]int{int(answers[0]), int(answers[1])}
	return nil
}

// sharedBeginning returns the fraction of the shorter answer that equals the beginning of the other.
func sharedBeginning(a, b Sample) float64 {
	shared, shorter := 0, min(a.Targets(), b.Targets())
	for i := 0; i < min(a.Predicted(), b.Predicted()) && a.Tokens[i+1] == b.Tokens[i+1]; i++ {
		if a.LossWeights == nil || a.LossWeights[i] != 0 {
			shared++
		}
	}
	return float64(min(shared, shorter)) / float64(max(1, shorter))
}

// findPairs reports pairs that contradict each other, and data in which the length alone tells the better answer.
func (x *inspector) findPairs(add addFinding) {
	p := x.Pairs
	if p == nil {
		return
	}
	if p.Contradictions > 0 {
		add(contradicting, true, p.Contradictions, fmt.Sprintf("%s contradict an earlier one: the same answers are judged the other way round", counted.Of(p.Contradictions, "record")))
	}
	if n := x.labelled; x.o.Labels && (n[0] == 0 || n[1] == 0) {
		add(oneLabel, true, n[0]+n[1], "all labels are the same: the model learns that any answer is good, or that none is")
	}
	const most, few = 0.95, 20
	if p.Pairs >= few && (p.Longer >= most || p.Longer <= 1-most) {
		longer := "longer"
		if p.Longer <= 1-most {
			longer = "shorter"
		}
		add(lengthBias, false, 0, fmt.Sprintf("the chosen answer is the %s one in nearly all pairs: the model learns its length before anything else", longer))
	}
}

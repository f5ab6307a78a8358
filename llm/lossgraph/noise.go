package lossgraph

import (
	"errors"
	"fmt"
	"math"
)

// A Noise seeds the random numbers of dropout and NEFTune in a batch: equal values draw the same numbers.
type Noise struct {
	Seed uint64
	Step int // of the run
	// Rows are the ids of the batch's rows in the step. They seed each row's numbers, which therefore do not depend
	// on how the step's rows are divided into batches or among processes. nil means 0, 1, 2, ….
	Rows []int
}

// checkNoise validates the settings of dropout and NEFTune.
func (o Options) checkNoise() error {
	switch {
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return fmt.Errorf("the dropout is %v; it must be at least 0 and below 1", o.Dropout)
	case !(o.NEFTune >= 0) || math.IsInf(float64(o.NEFTune), 0):
		return fmt.Errorf("the NEFTune alpha is %v; it must be a finite number of at least 0", o.NEFTune)
	case o.Grads == nil && (o.Dropout > 0 || o.NEFTune > 0):
		return errors.New("dropout and NEFTune need a graph with Grads; leave them out")
	}
	if pairs, _ := o.dropped(); o.Dropout > 0 && pairs == 0 {
		return errors.New("dropout acts on adapters of linear layers, and none is trained; leave it out")
	}
	return nil
}

// dropped returns the number of pairs with dropout and the largest width of their inputs.
func (o Options) dropped() (pairs int, width int64) {
	for base, list := range o.Adapters {
		for _, p := range list {
			if base == "token_embd.weight" || o.Grads[p.A] == nil && o.Grads[p.B] == nil {
				continue
			}
			pairs++
			width = max(width, p.A.Dim(0))
		}
	}
	return pairs, width
}

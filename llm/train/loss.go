package train

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
)

// A Loss is a loss of steps other than cross-entropy, such as a preference between two answers. If the
// slopes of the loss depend on further batches, or processes, a step computes its batches twice: first the
// log-probabilities, without gradients, and then the gradients, by the slopes. So it does if the matrix of
// the logits is trained, and on devices that scale the loss. Evaluations measure cross-entropy, unless the
// loss has Rewards.
type Loss struct {
	// Name identifies the loss with its settings, such as "dpo, beta 0.1". A checkpoint of a run with
	// another name is of another run.
	Name string
	// Of returns the loss of a step as a function of the log-probabilities of its samples, which are given
	// in this order: Σ weight · log p(target) of each, with the sample's own weights. The samples of a row
	// follow each other, so a row of two samples keeps a pair together ([data.NewRows]); Origin says which
	// records they are. It must return the same for the same samples: each process of a group calls it with
	// all samples of the step, and with ByRow it is called again for each batch.
	Of func(samples []data.Sample) lossgraph.SampleLoss
	// ByRow says that the slopes of a row's samples depend on no log-probabilities of other rows, as in a mean over
	// pairs, so that a step of several batches computes each once. The function that Of returns is then called after
	// each batch, with 0 for the log-probabilities that are not known yet.
	ByRow bool
	// Rewards judges the samples of a step, and of held-out data, given as to Of; nil for losses without
	// preferences. With it, evaluations measure this loss.
	Rewards func(samples []data.Sample, logProbs []float64) Rewards
	// Teacher, instead of Of, makes the loss of each token the divergence from a teacher, in evaluations too. A step then
	// computes its batches once.
	Teacher *Teacher
}

// isOfSamples reports whether the weights of tokens follow from the log-probabilities of samples.
func (l *Loss) isOfSamples() bool { return l.Of != nil }

func (o *Options) validateLoss() error {
	switch {
	case o.Loss.Of != nil && o.Loss.Teacher != nil:
		return errors.New("the loss has a function of samples and a teacher; leave one of them out")
	case (o.Loss.Name == "") != (o.Loss.Of == nil && o.Loss.Teacher == nil):
		return errors.New("the loss has a name and no function, or a function and no name; checkpoints need the name")
	case (o.Loss.Rewards != nil || o.Loss.ByRow) && o.Loss.Of == nil:
		return errors.New("the loss has rewards, or is by row, and has no function of samples")
	case o.Loss.Of != nil && (o.Dropout != 0 || o.NEFTune != 0):
		return fmt.Errorf("the loss %q depends on log-probabilities, which are computed without noise; set Dropout and NEFTune to 0", o.Loss.Name)
	}
	return nil
}

// compute returns the loss of samples and its slopes.
func (l *Loss) compute(samples []data.Sample, logProbs []float64) (loss float64, slopes []float64, err error) {
	of := l.Of(samples)
	if of == nil {
		return 0, nil, fmt.Errorf("the loss %q returns no function of the log-probabilities: it is nil", l.Name)
	}
	if loss, slopes = of(logProbs); len(slopes) != len(samples) {
		return 0, nil, fmt.Errorf("the loss %q returns %d slopes for %d samples", l.Name, len(slopes), len(samples))
	}
	return loss, slopes, nil
}

package lossgraph

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/goggml/ggml/internal/nn"
)

// A Teacher makes the loss of a token the divergence of the model's probabilities q from a teacher's p, for
// distillation. The teacher's TopK most likely tokens each have a term, and all other tokens together one more, whose
// probability is what the others leave of 1. So the loss is at most the divergence over the whole vocabulary, and
// equals it if TopK is the size of the vocabulary.
type Teacher struct {
	TopK int // tokens of the teacher for each token
	// Temperature divides the logits before the softmax; 0 means 1. Probs must be of the same temperature. The loss is
	// not multiplied by its square.
	Temperature float32
	// Beta selects the divergence, as in TRL's GKD trainer: 0 is the forward KL divergence Σ p · log(p/q), 1 the reverse
	// one Σ q · log(q/p), and between is the generalised Jensen-Shannon divergence (arXiv 2306.13649).
	Beta float32
	// CrossEntropy is the weight of the cross-entropy of Batch.Targets, which is added to the loss.
	CrossEntropy float32
}

func (t *Teacher) topK() int {
	if t == nil {
		return 0
	}
	return t.TopK
}

// options returns the options of the loss; nil without a teacher.
func (t *Teacher) options() *nn.TeacherOptions {
	if t == nil {
		return nil
	}
	return &nn.TeacherOptions{TopK: int64(t.TopK), Temperature: cmp.Or(t.Temperature, 1), Beta: t.Beta, CrossEntropy: t.CrossEntropy}
}

func (t *Teacher) check(vocab int) error {
	switch {
	case t == nil:
		return nil
	case t.TopK < 1 || t.TopK > vocab:
		return fmt.Errorf("the graph takes the %d most likely tokens of a teacher; at least 1 is needed, and the vocabulary has %d", t.TopK, vocab)
	case !(t.Temperature >= 0) || math.IsInf(float64(t.Temperature), 0):
		return fmt.Errorf("the temperature is %v; it must be finite and positive, or 0 for 1", t.Temperature)
	case !(t.Beta >= 0 && t.Beta <= 1):
		return fmt.Errorf("beta is %v; it must be from 0, forward KL, to 1, reverse KL", t.Beta)
	case !(t.CrossEntropy >= 0) || math.IsInf(float64(t.CrossEntropy), 0):
		return fmt.Errorf("the weight of cross-entropy is %v; it must be finite and not negative", t.CrossEntropy)
	}
	return nil
}

// checkTaught validates a teacher's tokens and probabilities of a batch.
func (l *Graph) checkTaught(b Batch) error {
	n, k := len(b.Tokens), l.topK
	switch {
	case k == 0 && b.Taught == nil && b.Probs == nil:
		return nil
	case k == 0:
		return errors.New("the batch has tokens of a teacher; build the graph with Teacher")
	case len(b.Taught) != n*k || len(b.Probs) != n*(k+1):
		return fmt.Errorf("the batch has %d tokens of a teacher and %d probabilities; the graph takes %d and %d", len(b.Taught), len(b.Probs), n*k, n*(k+1))
	}
	for i, p := range b.Probs {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("token %d of the batch has a probability of %v by the teacher; it must be from 0 to 1", i/(k+1), p)
		}
	}
	vocab := l.m.Config().Vocab
	seenAt := make([]int, vocab) // the token, from 1, that has it
	for i, t := range b.Taught {
		token := i / k
		switch {
		case t < 0 || int(t) >= vocab:
			return fmt.Errorf("token %d of the batch has the teacher's token %d; the vocabulary has %d", token, t, vocab)
		case seenAt[t] == token+1 && b.weight(token) != 0:
			return fmt.Errorf("token %d of the batch has the teacher's token %d twice", token, t)
		}
		seenAt[t] = token + 1
	}
	return nil
}

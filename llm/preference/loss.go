package preference

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/train"
)

// A Term is a loss by name with its weight in a sum.
type Term struct {
	Name   string  // one of Names
	Weight float64 // 0 means 1
}

// Options are the settings of a loss. The settings of TRL have the same meaning and defaults.
type Options struct {
	Terms     []Term  // their sum is the loss; at least one compares answers
	Beta      float64 // scale of rewards; 0 means 0.1
	Smoothing float64 // of dpo and simpo: the probability, below 0.5, that the sides of a pair are swapped
	Gamma     float64 // of simpo: the margin of rewards that it asks for
}

// defaultBeta is TRL's.
const defaultBeta = 0.1

// A side is an answer of a pair.
type side struct {
	logProb   float64
	reference float64 // log-probability by the reference
	length    float64 // Σ of its loss weights
}

// ratio is the logarithm of how much likelier the answer has become.
func (s side) ratio() float64 { return s.logProb - s.reference }

// A kind is a loss of pairs.
type kind struct {
	comparesMeans bool // per token, so that length does not count
	hasReference  bool
	onlyImitates  bool // it has no rewards
	// of returns the loss of a pair, and its slopes along the compared values: the ratio to the reference or, without
	// one, the log-probability, of the whole answer or per token.
	of func(o *Options, chosen, rejected float64) (loss, dChosen, dRejected float64)
	// imitates is the weight of the chosen answers' cross-entropy per token.
	imitates float64
}

// kinds are the losses by name.
var kinds = map[string]kind{
	"dpo": {hasReference: true, of: func(o *Options, c, r float64) (float64, float64, float64) { // arXiv 2305.18290
		return o.prefer(o.Beta * (c - r))
	}},
	"hinge": {hasReference: true, of: func(o *Options, c, r float64) (float64, float64, float64) { // arXiv 2305.10425
		loss := max(0, 1-o.Beta*(c-r))
		if loss == 0 {
			return 0, 0, 0
		}
		return loss, -o.Beta, o.Beta
	}},
	"ipo": {hasReference: true, comparesMeans: true, of: func(o *Options, c, r float64) (float64, float64, float64) { // arXiv 2310.12036
		off := c - r - 1/(2*o.Beta)
		return off * off, 2 * off, -2 * off
	}},
	"apo-zero": {hasReference: true, of: func(o *Options, c, r float64) (float64, float64, float64) { // arXiv 2408.06266
		x, y := sigmoid(o.Beta*c), sigmoid(o.Beta*r)
		return 1 - x + y, -o.Beta * x * (1 - x), o.Beta * y * (1 - y)
	}},
	"simpo": {comparesMeans: true, of: func(o *Options, c, r float64) (float64, float64, float64) { // arXiv 2405.14734
		return o.prefer(o.Beta*(c-r) - o.Gamma)
	}},
	"orpo": {comparesMeans: true, imitates: 1, of: func(o *Options, c, r float64) (float64, float64, float64) { // arXiv 2403.07691
		// log odds(p) = log p − log(1 − p), with slope 1/(1 − p) along log p
		const most = -1e-12 // the odds of a probability of 1 are infinite
		c, r = min(c, most), min(r, most)
		odds := c - r - math.Log(-math.Expm1(c)) + math.Log(-math.Expm1(r))
		slope := -o.Beta * sigmoid(-odds)
		return -o.Beta * logSigmoid(odds), -slope / math.Expm1(c), slope / math.Expm1(r)
	}},
	"sft": {onlyImitates: true, imitates: 1},
}

// Names returns the names of all losses.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// prefer returns −log σ(x), for a probability Smoothing of −log σ(−x), and its slopes for x = Beta · (chosen − rejected) + constant.
func (o *Options) prefer(x float64) (loss, dChosen, dRejected float64) {
	slope := o.Beta * (o.Smoothing*sigmoid(x) - (1-o.Smoothing)*sigmoid(-x))
	return -(1-o.Smoothing)*logSigmoid(x) - o.Smoothing*logSigmoid(-x), slope, -slope
}

func sigmoid(x float64) float64 { return math.Exp(logSigmoid(x)) }

// logSigmoid returns log(1 / (1 + e⁻ˣ)), exact for any x.
func logSigmoid(x float64) float64 { return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }

// complete sets defaults and validates the options.
func (o Options) complete() (Options, error) {
	o.Beta = cmp.Or(o.Beta, defaultBeta)
	o.Terms = slices.Clone(o.Terms)
	compares := false
	for i, t := range o.Terms {
		k, known := kinds[t.Name]
		if !known {
			return o, fmt.Errorf("there is no loss %q; the losses are %s", t.Name, strings.Join(Names(), ", "))
		}
		o.Terms[i].Weight = cmp.Or(t.Weight, 1)
		if w := o.Terms[i].Weight; !(w > 0) || math.IsInf(w, 0) {
			return o, fmt.Errorf("the weight of the loss %s is %v; it must be positive and finite", t.Name, t.Weight)
		}
		if slices.ContainsFunc(o.Terms[:i], func(other Term) bool { return other.Name == t.Name }) {
			return o, fmt.Errorf("the loss %s is given twice; give it once, with the sum of the weights", t.Name)
		}
		compares = compares || !k.onlyImitates
	}
	switch {
	case !compares:
		return o, errors.New("no loss compares the answers of a pair; add one, such as dpo")
	case !(o.Beta > 0) || math.IsInf(o.Beta, 0):
		return o, fmt.Errorf("beta is %v; it must be positive and finite", o.Beta)
	case !(o.Smoothing >= 0 && o.Smoothing < 0.5):
		return o, fmt.Errorf("the label smoothing is %v; it must be at least 0 and below 0.5", o.Smoothing)
	case math.IsNaN(o.Gamma) || math.IsInf(o.Gamma, 0):
		return o, fmt.Errorf("gamma is %v; it must be finite", o.Gamma)
	}
	return o, nil
}

// HasReference reports whether the loss compares log-probabilities with a reference's.
func (o Options) HasReference() bool {
	return slices.ContainsFunc(o.Terms, func(t Term) bool { return kinds[t.Name].hasReference })
}

// String returns the loss with its settings, such as "dpo, beta 0.1".
func (o Options) String() string {
	var names []string
	for _, t := range o.Terms {
		name := t.Name
		if w := cmp.Or(t.Weight, 1); w != 1 {
			name = fmt.Sprintf("%v %s", w, name)
		}
		names = append(names, name)
	}
	text := fmt.Sprintf("%s, beta %v", strings.Join(names, " + "), cmp.Or(o.Beta, defaultBeta))
	if o.Smoothing != 0 {
		text += fmt.Sprintf(", label smoothing %v", o.Smoothing)
	}
	if o.Gamma != 0 {
		text += fmt.Sprintf(", gamma %v", o.Gamma)
	}
	return text
}

// New returns the loss of a trainer whose rows are pairs, chosen first: the mean over the pairs of a step. reference
// has the log-probabilities of all samples of the trainer's data and of held-out data; losses without a reference
// ignore it. A sample that it lacks makes the loss NaN.
func New(o Options, reference *Reference) (train.Loss, error) {
	o, err := o.complete()
	if err != nil {
		return train.Loss{}, err
	}
	if o.HasReference() && reference == nil {
		return train.Loss{}, fmt.Errorf("the loss %v compares with a reference, which is nil", o)
	}
	return train.Loss{
		Name: o.String(),
		Of: func(samples []data.Sample) lossgraph.SampleLoss {
			return func(logProbs []float64) (loss float64, slopes []float64) {
				return o.loss(o.sides(samples, logProbs, reference))
			}
		},
		Rewards: func(samples []data.Sample, logProbs []float64) train.Rewards {
			return o.rewards(o.sides(samples, logProbs, reference))
		},
	}, nil
}

// sides returns the answers with their log-probabilities.
func (o *Options) sides(samples []data.Sample, logProbs []float64, reference *Reference) []side {
	sides, hasReference := make([]side, len(samples)), o.HasReference()
	for i, s := range samples {
		sides[i] = side{logProb: logProbs[i], length: length(s)}
		if hasReference {
			sides[i].reference = reference.logProb(s)
		}
	}
	return sides
}

// length returns the sum of a sample's loss weights: the number of trained tokens, if these weigh 1.
func length(s data.Sample) (sum float64) {
	if s.LossWeights == nil {
		return float64(s.Predicted())
	}
	for _, w := range s.LossWeights {
		sum += float64(w)
	}
	return sum
}

// compared returns an answer's compared value, and its slope along the log-probability.
func (k *kind) compared(s side) (x, slope float64) {
	x, slope = s.logProb, 1
	if k.hasReference {
		x = s.ratio()
	}
	if k.comparesMeans {
		x, slope = x/s.length, 1/s.length
	}
	return x, slope
}

// loss returns the mean loss of pairs, and its slope along each log-probability.
func (o *Options) loss(sides []side) (loss float64, slopes []float64) {
	slopes = make([]float64, len(sides))
	pairs, imitated := float64(len(sides)/2), 0.0
	for i := 0; i+1 < len(sides); i += 2 {
		imitated += sides[i].length
	}
	for _, t := range o.Terms {
		k := kinds[t.Name]
		for i := 0; i+1 < len(sides); i += 2 {
			chosen, rejected := sides[i], sides[i+1]
			if k.imitates != 0 {
				w := t.Weight * k.imitates / imitated
				loss, slopes[i] = loss-w*chosen.logProb, slopes[i]-w
			}
			if k.of == nil {
				continue
			}
			c, cSlope := k.compared(chosen)
			r, rSlope := k.compared(rejected)
			l, dc, dr := k.of(o, c, r)
			w := t.Weight / pairs
			loss += w * l
			slopes[i] += w * dc * cSlope
			slopes[i+1] += w * dr * rSlope
		}
	}
	return loss, slopes
}

// rewards returns the rewards by the first term that compares answers: Beta times the compared value.
func (o *Options) rewards(sides []side) (sum train.Rewards) {
	at := slices.IndexFunc(o.Terms, func(t Term) bool { return !kinds[t.Name].onlyImitates })
	k, pairs := kinds[o.Terms[at].Name], float64(len(sides)/2)
	for i := 0; i+1 < len(sides); i += 2 {
		c, _ := k.compared(sides[i])
		r, _ := k.compared(sides[i+1])
		sum.Chosen += o.Beta * c / pairs
		sum.Rejected += o.Beta * r / pairs
		if c > r {
			sum.Accuracy += 1 / pairs
		}
	}
	return sum
}

package preference

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
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

	// Weights of desirable and undesirable answers, of kto and apo-zero-unpaired; 0 means 1.
	DesirableWeight, UndesirableWeight float64
}

// defaultBeta is TRL's.
const defaultBeta = 0.1

// A side is an answer of a pair.
type side struct {
	logProb   float64
	reference float64 // log-probability by the reference
	length    float64 // Σ of its loss weights
	label     data.Label
}

// ratio is the logarithm of how much likelier the answer has become.
func (s side) ratio() float64 { return s.logProb - s.reference }

// A kind is a loss of pairs, or of labelled answers.
type kind struct {
	ofLabels    bool // it judges each answer by its label
	hasBaseline bool // beside the mean ratio of mismatched answers

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
	"sft":               {onlyImitates: true, imitates: 1},
	"kto":               {hasReference: true, ofLabels: true, hasBaseline: true}, // arXiv 2402.01306
	"apo-zero-unpaired": {hasReference: true, ofLabels: true},
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
	o.DesirableWeight, o.UndesirableWeight = cmp.Or(o.DesirableWeight, 1), cmp.Or(o.UndesirableWeight, 1)
	compares, others := "", ""
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
		switch {
		case k.onlyImitates:
		case k.ofLabels:
			others = t.Name
		default:
			compares = t.Name
		}
	}
	switch {
	case compares == "" && others == "":
		return o, errors.New("no loss compares answers; add one, such as dpo")
	case compares != "" && others != "":
		return o, fmt.Errorf("the loss %s compares the answers of pairs, and %s judges labelled answers; choose one of them", compares, others)
	case !(o.Beta > 0) || math.IsInf(o.Beta, 0):
		return o, fmt.Errorf("beta is %v; it must be positive and finite", o.Beta)
	case !(o.Smoothing >= 0 && o.Smoothing < 0.5):
		return o, fmt.Errorf("the label smoothing is %v; it must be at least 0 and below 0.5", o.Smoothing)
	case math.IsNaN(o.Gamma) || math.IsInf(o.Gamma, 0):
		return o, fmt.Errorf("gamma is %v; it must be finite", o.Gamma)
	}
	for _, w := range []float64{o.DesirableWeight, o.UndesirableWeight} {
		if !(w > 0) || math.IsInf(w, 0) {
			return o, fmt.Errorf("the weight of an answer is %v; it must be positive and finite", w)
		}
	}
	return o, nil
}

func (o *Options) has(what func(kind) bool) bool {
	return slices.ContainsFunc(o.Terms, func(t Term) bool { return what(kinds[t.Name]) })
}

// JudgesLabels reports whether the loss is of labelled answers instead of pairs, see [data.LoadOptions].Labels.
func (o Options) JudgesLabels() bool { return o.has(func(k kind) bool { return k.ofLabels }) }

// NeedsMismatched reports whether the loss needs mismatched answers, see [data.LoadOptions].Mismatched.
func (o Options) NeedsMismatched() bool { return o.has(func(k kind) bool { return k.hasBaseline }) }

// HasReference reports whether the loss compares log-probabilities with a reference's.
func (o Options) HasReference() bool {
	return o.has(func(k kind) bool { return k.hasReference })
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
	if d, u := cmp.Or(o.DesirableWeight, 1), cmp.Or(o.UndesirableWeight, 1); d != 1 || u != 1 {
		text += fmt.Sprintf(", weights %v and %v", d, u)
	}
	return text
}

// New returns the loss of a trainer whose rows are pairs, chosen first: the mean over the pairs of a step. Losses of
// labels are the mean over the desirable and undesirable answers of a step. reference has the log-probabilities of all
// samples of the trainer's data and of held-out data; losses without a reference ignore it. A sample that it lacks makes
// the loss NaN.
func New(o Options, reference *Reference) (train.Loss, error) {
	o, err := o.complete()
	if err != nil {
		return train.Loss{}, err
	}
	if o.HasReference() && reference == nil {
		return train.Loss{}, fmt.Errorf("the loss %v compares with a reference, which is nil", o)
	}
	return train.Loss{
		Name:  o.String(),
		ByRow: !o.NeedsMismatched(), // which all rows are compared with
		Of: func(samples []data.Sample) lossgraph.SampleLoss {
			return func(logProbs []float64) (loss float64, slopes []float64) {
				losses, slopes := o.losses(o.sides(samples, logProbs, reference))
				for _, l := range losses {
					loss += l
				}
				return loss, slopes
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
		sides[i] = side{logProb: logProbs[i], length: length(s), label: s.Label}
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

// losses returns what each answer adds to the mean loss of pairs or labelled answers, and the slope of the mean along
// each log-probability.
func (o *Options) losses(sides []side) (losses, slopes []float64) {
	losses, slopes = make([]float64, len(sides)), make([]float64, len(sides))
	add := func(i int, l, slope float64) { losses[i], slopes[i] = losses[i]+l, slopes[i]+slope }
	for _, t := range o.Terms {
		k := kinds[t.Name]
		if k.imitates != 0 {
			o.imitate(sides, t.Weight*k.imitates, add)
		}
		switch {
		case k.ofLabels:
			o.judge(&k, sides, t.Weight, add)
		case k.of != nil:
			o.compare(&k, sides, t.Weight, add)
		}
	}
	return losses, slopes
}

// imitate adds the cross-entropy per token of the chosen or desirable answers.
func (o *Options) imitate(sides []side, weight float64, add func(i int, loss, slope float64)) {
	isImitated := func(i int) bool { return i%2 == 0 && i+1 < len(sides) }
	if o.JudgesLabels() {
		isImitated = func(i int) bool { return sides[i].label == data.Desirable }
	}
	tokens := 0.0
	for i, s := range sides {
		if isImitated(i) {
			tokens += s.length
		}
	}
	for i, s := range sides {
		if isImitated(i) {
			add(i, -weight/tokens*s.logProb, -weight/tokens)
		}
	}
}

// compare adds the mean loss of pairs.
func (o *Options) compare(k *kind, sides []side, weight float64, add func(i int, loss, slope float64)) {
	weight /= float64(len(sides) / 2)
	for i := 0; i+1 < len(sides); i += 2 {
		c, cSlope := k.compared(sides[i])
		r, rSlope := k.compared(sides[i+1])
		l, dc, dr := k.of(o, c, r)
		add(i, weight*l, weight*dc*cSlope)
		add(i+1, 0, weight*dr*rSlope)
	}
}

// judge adds the mean loss of labelled answers. As in TRL, the baseline has no gradient.
func (o *Options) judge(k *kind, sides []side, weight float64, add func(i int, loss, slope float64)) {
	baseline, judged := k.baseline(sides), 0.0
	for _, s := range sides {
		if s.isJudged() {
			judged++
		}
	}
	for i, s := range sides {
		if !s.isJudged() {
			continue
		}
		sign, w := s.sign(), o.DesirableWeight
		if sign < 0 {
			w = o.UndesirableWeight
		}
		p := sigmoid(sign * o.Beta * (s.ratio() - baseline))
		w *= weight / judged
		add(i, w*(1-p), -w*sign*o.Beta*p*(1-p))
	}
}

func (s side) isJudged() bool { return s.label == data.Desirable || s.label == data.Undesirable }

// sign is 1 for an answer that should become likelier, and −1 for one that should not.
func (s side) sign() float64 {
	if s.label == data.Undesirable {
		return -1
	}
	return 1
}

// baseline returns the ratio that counts as no change: the mean of the mismatched answers, an estimate of the KL
// divergence from the reference, which is not negative; 0 for losses without one.
func (k *kind) baseline(sides []side) float64 {
	sum, n := 0.0, 0.0
	for _, s := range sides {
		if k.hasBaseline && s.label == data.Mismatched {
			sum, n = sum+s.ratio(), n+1
		}
	}
	return max(0, sum/max(1, n))
}

// rewarding returns the first term that compares or judges answers.
func (o *Options) rewarding() kind {
	at := slices.IndexFunc(o.Terms, func(t Term) bool { return !kinds[t.Name].onlyImitates })
	return kinds[o.Terms[at].Name]
}

// judged iterates over pairs, by the index of the chosen answer, or labelled answers, and reports whether each is
// judged rightly: the chosen answer of a pair has the larger reward, and the reward of a labelled answer lies on its
// label's side of the baseline.
func (o *Options) judged(sides []side) iter.Seq2[int, bool] {
	k := o.rewarding()
	baseline := k.baseline(sides)
	return func(yield func(int, bool) bool) {
		for i := range sides {
			isRight := false
			switch {
			case k.ofLabels && !sides[i].isJudged(), !k.ofLabels && (i%2 == 1 || i+1 == len(sides)):
				continue
			case k.ofLabels:
				isRight = sides[i].sign()*(sides[i].ratio()-baseline) > 0
			default:
				c, _ := k.compared(sides[i])
				r, _ := k.compared(sides[i+1])
				isRight = c > r
			}
			if !yield(i, isRight) {
				return
			}
		}
	}
}

// rewards returns the mean rewards of chosen or desirable answers, and of the others: Beta times the compared value.
func (o *Options) rewards(sides []side) train.Rewards {
	k, right, n := o.rewarding(), 0.0, 0.0
	sums, counts := map[bool]float64{}, map[bool]float64{} // by preferred or not
	add := func(preferred bool, s side) {
		x, _ := k.compared(s)
		sums[preferred], counts[preferred] = sums[preferred]+o.Beta*x, counts[preferred]+1
	}
	for i, isRight := range o.judged(sides) {
		if n++; isRight {
			right++
		}
		if k.ofLabels {
			add(sides[i].sign() > 0, sides[i])
			continue
		}
		add(true, sides[i])
		add(false, sides[i+1])
	}
	return train.Rewards{Chosen: sums[true] / counts[true], Rejected: sums[false] / counts[false], Accuracy: right / n, KL: k.baseline(sides)}
}

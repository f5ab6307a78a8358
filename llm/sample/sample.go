// Package sample samples tokens from the logits of a language model.
package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml/internal/exclusive"
)

// Options are the settings of a [Sampler]. The zero value takes the most likely token. The filters apply in the order
// of the fields, as in llama.cpp. Options whose 0 has a meaning of its own are pointers; nil means the default.
type Options struct {
	// RepeatPenalty divides positive logits of tokens that occurred, and multiplies negative ones; 0 and 1 mean off.
	RepeatPenalty float32
	// FrequencyPenalty is subtracted once per occurrence of a token, PresencePenalty once if it occurred.
	FrequencyPenalty, PresencePenalty float32
	// RepeatLast is the number of recent tokens that penalties consider: nil means 64, a negative number all.
	RepeatLast *int

	TopK int // keeps the K most likely tokens; 0 means off
	// TopP keeps the most likely tokens whose probabilities sum to at least TopP, and at least one token: 0 keeps one;
	// nil and 1 mean off.
	TopP        *float32
	MinP        float32 // keeps tokens with at least MinP times the probability of the most likely one; 0 means off
	Temperature float32 // divides the logits: 1 samples from the model's distribution, lower values sharpen it; 0 takes the most likely token
	Seed        uint64  // equal seeds sample equal tokens; 0 is a seed like any other
}

func (o Options) check() error {
	finite := func(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
	switch {
	case !finite(o.Temperature) || o.Temperature < 0:
		return fmt.Errorf("sample: temperature %v: it must not be negative", o.Temperature)
	case o.TopK < 0:
		return fmt.Errorf("sample: top-k %d: it must not be negative; 0 is off", o.TopK)
	case o.TopP != nil && !(*o.TopP >= 0 && *o.TopP <= 1):
		return fmt.Errorf("sample: top-p %v: it must be 0 to 1", *o.TopP)
	case !(o.MinP >= 0 && o.MinP <= 1):
		return fmt.Errorf("sample: min-p %v: it must be 0 to 1", o.MinP)
	case !finite(o.RepeatPenalty) || o.RepeatPenalty < 0:
		return fmt.Errorf("sample: repeat penalty %v: it must be positive; 1 is off", o.RepeatPenalty)
	case !finite(o.FrequencyPenalty) || !finite(o.PresencePenalty):
		return fmt.Errorf("sample: penalties of frequency %v and presence %v: they must be finite", o.FrequencyPenalty, o.PresencePenalty)
	}
	return nil
}

// ErrNoToken is the error of logits that exclude all tokens.
var ErrNoToken = errors.New("sample: no token has a logit above -Inf")

// A Sampler samples one token after another. It is used by one goroutine.
type Sampler struct {
	o       Options
	topP    float32 // 1 means off
	last    int     // number of tokens that penalties consider; < 0 means all
	rng     *rand.Rand
	history []int32
	scores  []float32   // logits after penalties; reused
	list    []candidate // reused
	masked  []float32   // logits of a constraint; reused
	access  exclusive.Access
}

// New returns a sampler, or an error if an option is out of range.
func New(o Options) (*Sampler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.RepeatPenalty == 0 {
		o.RepeatPenalty = 1
	}
	s := &Sampler{o: o, topP: 1, last: 64, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	if o.TopP != nil {
		s.topP = *o.TopP
	}
	if o.RepeatLast != nil {
		s.last = *o.RepeatLast
	}
	return s, nil
}

// Accept adds tokens that the penalties should consider, such as the prompt's. Sample adds its results itself.
func (s *Sampler) Accept(tokens ...int32) {
	if s.penalises() && s.access.Try("Sampler.Accept", "Sampler") {
		s.remember(tokens)
		s.access.Release()
	}
}

// remember appends tokens to the history.
func (s *Sampler) remember(tokens []int32) {
	s.history = append(s.history, tokens...)
	if n := s.last; n >= 0 && len(s.history) > n {
		s.history = slices.Delete(s.history, 0, len(s.history)-n)
	}
}

// Forget clears the tokens that the penalties consider, so that another text can begin. The random state is kept.
func (s *Sampler) Forget() {
	if s.access.Try("Sampler.Forget", "Sampler") {
		s.history = s.history[:0]
		s.access.Release()
	}
}

func (s *Sampler) penalises() bool {
	return s.o.RepeatPenalty != 1 || s.o.FrequencyPenalty != 0 || s.o.PresencePenalty != 0
}

var errNotMade = errors.New("the sampler is nil or a zero value; sample.New makes one")

// Sample samples a token from logits, which it does not change; −∞ excludes a token. It returns an error if a logit is
// NaN or +∞, or if no token is left.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	if s == nil || s.rng == nil {
		return 0, errNotMade
	}
	if err := s.access.Acquire("Sampler.Sample", "Sampler"); err != nil {
		return 0, err
	}
	defer s.access.Release()
	token, err := s.sample(logits)
	if err == nil && s.penalises() {
		s.remember([]int32{token})
	}
	return token, err
}

func (s *Sampler) sample(logits []float32) (int32, error) {
	if err := s.load(logits); err != nil {
		return 0, err
	}
	s.filter()
	return s.draw(), nil
}

// A candidate is a token that may be sampled.
type candidate struct {
	id    int32
	logit float32
	p     float64 // set by softmax
}

// before orders candidates by descending logit, ties by ascending ID, so that the order is the same everywhere.
func before(a, b candidate) int {
	switch {
	case a.logit > b.logit:
		return -1
	case a.logit < b.logit:
		return 1
	}
	return int(a.id) - int(b.id)
}

// load lists the candidates after penalties: all of them, or only the best few in order if the options need no more.
func (s *Sampler) load(logits []float32) error {
	s.scores = append(s.scores[:0], logits...)
	s.penalise()
	var err error
	if k := s.fewest(); k > 0 {
		err = s.loadBest(k)
	} else {
		err = s.loadAll()
	}
	if err == nil && len(s.list) == 0 {
		return ErrNoToken
	}
	return err
}

// maxInOrder is the maximum number of candidates that a single pass keeps sorted.
const maxInOrder = 256

// fewest returns the number of best candidates that the options need, or 0 if they are too many to keep sorted.
func (s *Sampler) fewest() int {
	switch {
	case s.o.Temperature == 0:
		return 1
	case s.o.TopK <= maxInOrder:
		return s.o.TopK
	}
	return 0
}

func (s *Sampler) loadAll() error {
	s.list = slices.Grow(s.list[:0], len(s.scores))
	for id, l := range s.scores {
		if err := checkLogit(id, l); err != nil {
			return err
		}
		if l >= -math.MaxFloat32 {
			s.list = append(s.list, candidate{id: int32(id), logit: l})
		}
	}
	return nil
}

// loadBest lists the k best in order. A single comparison rejects most of the vocabulary, so that this costs little
// beside the model.
func (s *Sampler) loadBest(k int) error {
	best, least := s.list[:0], float32(math.Inf(-1))
	for id, l := range s.scores {
		if l <= least { // ties keep the first; a NaN is not skipped
			continue
		}
		if err := checkLogit(id, l); err != nil {
			return err
		}
		if len(best) == k {
			best = best[:k-1]
		}
		c := candidate{id: int32(id), logit: l}
		i, _ := slices.BinarySearchFunc(best, c, before)
		best = slices.Insert(best, i, c)
		if len(best) == k {
			least = best[k-1].logit
		}
	}
	s.list = best
	return nil
}

func checkLogit(id int, l float32) error {
	if l != l || l > math.MaxFloat32 {
		return fmt.Errorf("sample: the logit of token %d is %v: the weights or adapters of the model may be damaged", id, l)
	}
	return nil
}

func (s *Sampler) penalise() {
	if len(s.history) == 0 {
		return
	}
	counts := map[int32]int{}
	for _, id := range s.history {
		if int(id) < len(s.scores) && id >= 0 {
			counts[id]++
		}
	}
	for id, n := range counts {
		l := &s.scores[id]
		if *l > 0 {
			*l /= s.o.RepeatPenalty
		} else {
			*l *= s.o.RepeatPenalty
		}
		*l -= float32(n)*s.o.FrequencyPenalty + s.o.PresencePenalty
	}
}

// filter removes the candidates that must not be sampled.
func (s *Sampler) filter() {
	if k := s.o.TopK; k > 0 && k < len(s.list) {
		slices.SortFunc(s.list, before)
		s.list = s.list[:k]
	}
	if s.topP < 1 {
		s.keepTopP(float64(s.topP))
	}
	if s.o.MinP > 0 {
		s.minP(float64(s.o.MinP))
	}
}

// keepTopP keeps the most likely candidates until their probabilities sum to p.
func (s *Sampler) keepTopP(p float64) {
	s.softmax(1)
	// Candidates below least have a total probability of less than 1 − p, so they are outside of the result and need
	// not be sorted.
	least := (1 - p) / float64(len(s.list))
	s.list = slices.DeleteFunc(s.list, func(c candidate) bool { return c.p < least })
	slices.SortFunc(s.list, before)
	sum := 0.0
	for i, c := range s.list {
		if sum += c.p; sum >= p {
			s.list = s.list[:i+1]
			return
		}
	}
}

// minP keeps candidates at least p times as likely as the best.
func (s *Sampler) minP(p float64) {
	least := float64(slices.MinFunc(s.list, before).logit) + math.Log(p)
	s.list = slices.DeleteFunc(s.list, func(c candidate) bool { return float64(c.logit) < least })
}

// softmax computes the probabilities at a temperature.
func (s *Sampler) softmax(temperature float64) {
	top := float64(slices.MinFunc(s.list, before).logit)
	sum := 0.0
	for i := range s.list {
		c := &s.list[i]
		c.p = math.Exp((float64(c.logit) - top) / temperature)
		sum += c.p
	}
	for i := range s.list {
		s.list[i].p /= sum
	}
}

// draw samples one of the candidates.
func (s *Sampler) draw() int32 {
	if len(s.list) == 1 {
		return s.list[0].id
	}
	s.softmax(float64(s.o.Temperature))
	at := s.rng.Float64()
	last := s.list[0].id
	for _, c := range s.list {
		if c.p == 0 {
			continue
		}
		last = c.id
		if at -= c.p; at < 0 {
			break
		}
	}
	return last // rounding can leave at > 0
}

package distill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/train"
)

// OnPolicyOptions are the settings of [NewOnPolicy].
type OnPolicyOptions struct {
	Share     float64 // of the samples that the student answers, drawn sample by sample; in (0, 1]
	MaxTokens int     // of an answer
	Sequences int     // answers that are computed together; 0: 8
	Seed      uint64
	// Teachers score the answers to samples that name another teacher than the first.
	Teachers map[string]*Scorer
	Adapters model.Adapters // of the student; answers are by their current values
	// Engine computes the answers, in the layout of the student; nil makes one of Threads threads for each step.
	Engine  *device.Engine
	Threads int
}

// OnPolicy lets the student answer prompts of the training data, and the teacher score what it said (on-policy
// distillation, arXiv 2306.13649). So the student learns from the mistakes that it makes. An answer is sampled from the
// student's probabilities. It follows from its parameters, the seed and the number of the step, so a run that resumes
// makes the same answers. Give [OnPolicy.Rows] and [OnPolicy.Longest] to [train.Teacher], and [OnPolicy.Of] before
// [Scores.Of]. It is used by one goroutine, and so are its engine and the teacher's session.
type OnPolicy struct {
	m       *model.Model
	teacher *Scorer
	options OnPolicyOptions
	longest int
	said    map[[16]byte]train.Taught // of the answers of the current step
	answers int
	tokens  int
	took    time.Duration
	access  exclusive.Access
}

// NewOnPolicy returns the answers of a student to the prompts of training data, without packed samples. The student, its
// adapters and the session of the teacher stay open as long. The teacher's session has room for
// [OnPolicyOptions.Longest] tokens.
func NewOnPolicy(student *model.Model, teacher *Scorer, d *data.Dataset, o OnPolicyOptions) (*OnPolicy, error) {
	if err := student.CheckOpen(); err != nil {
		return nil, err
	}
	switch {
	case teacher == nil || teacher.session == nil:
		return nil, errors.New("the teacher is nil or a zero value; NewScorer makes one")
	case student.Tokenizer == nil:
		return nil, errors.New("the student has no vocabulary in its file, so nobody knows which token ends its answers")
	case !(o.Share > 0 && o.Share <= 1):
		return nil, fmt.Errorf("the share of answers by the student is %v; it must be more than 0 and at most 1", o.Share)
	case o.MaxTokens < 1:
		return nil, fmt.Errorf("answers of %d tokens are empty", o.MaxTokens)
	case o.Sequences < 0:
		return nil, fmt.Errorf("%d answers cannot be computed together", o.Sequences)
	case d.IsPacked():
		return nil, errors.New("a row of the data packs several samples, and answers of the student may be longer than those that they replace; do not pack the data")
	}
	longest, err := o.Longest(d)
	if err != nil {
		return nil, err
	}
	p := &OnPolicy{m: student, teacher: teacher, options: o, longest: longest}
	err = eachSample([]*data.Dataset{d}, func(s data.Sample) error {
		of, err := p.teacherOf(s)
		if err != nil {
			return err
		}
		if room := of.session.Context(); longest > room {
			return fmt.Errorf("answers with their prompts have up to %d tokens, and the teacher's session holds %d", longest, room)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// teacherOf returns the teacher of a sample.
func (p *OnPolicy) teacherOf(s data.Sample) (*Scorer, error) {
	if s.Teacher == "" {
		return p.teacher, nil
	}
	of := p.options.Teachers[s.Teacher]
	if of == nil || of.session == nil {
		return nil, fmt.Errorf("a sample names the teacher %q, which is missing", s.Teacher)
	}
	return of, nil
}

// Session returns the settings of the session that computes answers of up to that many tokens with their prompts, to
// estimate its memory.
func (o *OnPolicyOptions) Session(longest int) infer.SessionOptions {
	if o == nil {
		return infer.SessionOptions{}
	}
	sequences := o.Sequences
	if sequences == 0 {
		sequences = 8
	}
	return infer.SessionOptions{Sequences: sequences, Context: max(1, longest), Adapters: o.Adapters, Engine: o.Engine, Threads: o.Threads}
}

// Longest returns the number of predicted tokens of the longest sample that the student may make of a prompt.
func (o *OnPolicyOptions) Longest(d *data.Dataset) (longest int, err error) {
	if o == nil {
		return 0, errors.New("the options are nil")
	}
	err = eachSample([]*data.Dataset{d}, func(s data.Sample) error {
		longest = max(longest, min(d.Length, promptOf(train.TrainedTokens(s))-1+min(d.Length, o.MaxTokens)))
		return nil
	})
	return longest, err
}

// promptOf returns the number of tokens before the last answer of a sample, whose tokens are the last trained ones that
// follow each other.
func promptOf(trained []int) int {
	i := len(trained) - 1
	for i > 0 && trained[i-1] == trained[i]-1 {
		i--
	}
	return trained[i] + 1
}

// An answer of the student replaces a sample.
type answer struct {
	to       *data.Sample
	tokens   []int32 // with the prompt
	prompt   int     // number of its tokens
	most     int     // tokens
	pick     *sample.Sampler
	sequence *infer.Sequence
	logits   []float32
}

// Rows returns the rows of a step with answers of the student instead of some samples' last answers.
func (p *OnPolicy) Rows(ctx context.Context, step int, rows []data.Row) ([]data.Row, error) {
	if p == nil || p.m == nil {
		return nil, errors.New("the answers are nil or a zero value; NewOnPolicy makes them")
	}
	if err := p.access.Acquire("OnPolicy.Rows", "OnPolicy"); err != nil {
		return nil, err
	}
	defer p.access.Release()
	rows, answers, err := p.choose(step, rows)
	if err != nil {
		return nil, err
	}
	p.said = map[[16]byte]train.Taught{}
	if len(answers) == 0 {
		return rows, nil
	}
	began := time.Now()
	o := p.options.Session(p.longest)
	o.Sequences = min(o.Sequences, len(answers))
	session, err := infer.NewSession(p.m, o) // with the adapters of this step
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(answers, session.Sequences()) {
		if err = p.answerAll(ctx, session, some); err != nil {
			break
		}
	}
	if err := errors.Join(err, session.Close()); err != nil {
		return nil, err
	}
	p.took += time.Since(began)
	for _, a := range answers {
		*a.to = a.sample()
		of, err := p.teacherOf(*a.to)
		if err != nil {
			return nil, err
		}
		if p.said[a.to.Hash()], err = of.Score(ctx, *a.to); err != nil {
			return nil, err
		}
		p.answers, p.tokens = p.answers+1, p.tokens+len(a.tokens)-a.prompt
	}
	return rows, nil
}

// choose draws the samples of a step that the student answers. Rows are copies.
func (p *OnPolicy) choose(step int, rows []data.Row) (copies []data.Row, list []*answer, err error) {
	for i, row := range rows {
		row = slices.Clone(row)
		random := rand.New(rand.NewPCG(p.options.Seed, uint64(step)<<32|uint64(i)))
		for j, s := range row {
			trained := train.TrainedTokens(s)
			if random.Float64() >= p.options.Share || len(trained) == 0 {
				continue
			}
			n := promptOf(trained)
			a := &answer{to: &row[j], tokens: slices.Clone(s.Tokens[:n]), prompt: n, most: n + min(p.longest+1-n, p.options.MaxTokens)}
			if a.pick, err = sample.New(sample.Options{Temperature: 1, Seed: random.Uint64()}); err != nil {
				return nil, nil, err
			}
			list = append(list, a)
		}
		copies = append(copies, row)
	}
	return copies, list, nil
}

// answerAll computes answers together, a token of each in a pass, until all have ended.
func (p *OnPolicy) answerAll(ctx context.Context, session *infer.Session, list []*answer) (err error) {
	for _, a := range list {
		if a.sequence, err = session.NewSequence(); err != nil {
			return err
		}
		if a.logits, err = a.sequence.Decode(ctx, a.tokens); err != nil {
			return err
		}
	}
	var next []infer.StepInput
	for going := slices.Clone(list); ; {
		next = next[:0]
		var still []*answer
		for _, a := range going {
			token, err := a.pick.Sample(a.logits)
			if err != nil {
				return err
			}
			if a.tokens = append(a.tokens, token); len(a.tokens) >= a.most || p.m.Tokenizer.IsEOG(token) {
				if err := a.sequence.Close(); err != nil {
					return err
				}
				continue
			}
			still, next = append(still, a), append(next, infer.StepInput{Sequence: a.sequence, Token: token, Logits: a.logits})
		}
		if going = still; len(going) == 0 {
			return nil
		}
		if err := session.Step(ctx, next); err != nil {
			return err
		}
	}
}

// sample returns the answer with its prompt as a sample that trains the answer.
func (a *answer) sample() data.Sample {
	s := data.Sample{Tokens: a.tokens, LossWeights: make([]float32, len(a.tokens)-1), Teacher: a.to.Teacher, Origin: a.to.Origin}
	for i := a.prompt - 1; i < len(s.LossWeights); i++ {
		s.LossWeights[i] = 1
	}
	return s
}

// Of returns what the teacher says of an answer of the current step; has is false for other samples.
func (p *OnPolicy) Of(x data.Sample) (t train.Taught, has bool) {
	if p == nil {
		return t, false
	}
	t, has = p.said[x.Hash()]
	return t, has
}

// Longest returns the number of predicted tokens of the longest sample that [OnPolicy.Rows] may make.
func (p *OnPolicy) Longest() int {
	if p == nil {
		return 0
	}
	return p.longest
}

// Generated returns how many answers the student has given since it was made, their tokens, and the time that it took.
func (p *OnPolicy) Generated() (answers, tokens int, took time.Duration) {
	if p == nil {
		return 0, 0, 0
	}
	return p.answers, p.tokens, p.took
}

package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

// usualSequences is how many texts a [Model] computes at once by default.
const usualSequences = 4

// A Model is open for requests of any number of goroutines: conversations, completions, embeddings and scores. All share
// its weights, and those that run at the same time share the passes over them, see [generate.Scheduler]. It is safe for
// concurrent use.
type Model struct {
	all       *opened
	scheduler *generate.Scheduler

	mu       sync.Mutex
	adapters map[*Adapter]bool // that are open
}

// Open opens a model. Options.Session.Sequences is the number of texts that are computed at once, 4 if it is 0; further
// requests wait. Each has Options.Session.Context tokens, whose memory is allocated at once, or on the CPU as they are used.
// The settings of requests are given with each request: Sampling, Chat.Variables and the like stay unused, but Chat.Template
// is the template of conversations. The caller closes the model.
func Open(path string, o Options) (*Model, error) {
	if o.Session.Sequences == 0 {
		o.Session.Sequences = usualSequences
	}
	all, err := open(path, o, model.LoadOptions{Layout: o.Layout, Repack: true, Sequences: o.Session.Sequences})
	if err != nil {
		return nil, err
	}
	return all.serve(o)
}

// New serves a model that the caller has opened, with the adapters of Options.Session, and closes after this one. Options are
// as for [Open], without Adapters and Layout.
func New(weights *model.Model, o Options) (*Model, error) {
	if len(o.Adapters) > 0 {
		return nil, errors.New("Options.Adapters are set: open them, and give them in Options.Session.Adapters")
	}
	if o.Session.Sequences == 0 {
		o.Session.Sequences = usualSequences
	}
	session, err := infer.NewSession(weights, o.Session)
	if err != nil {
		return nil, err
	}
	all := &opened{model: weights, session: session, closers: []io.Closer{session}}
	return all.serve(o)
}

// serve starts the scheduler of an opened model, which it closes if it fails.
func (a *opened) serve(o Options) (*Model, error) {
	if o.Scheduler.Template == nil {
		o.Scheduler.Template = o.Chat.Template
	}
	s, err := generate.NewScheduler(a.model, a.session, o.Scheduler)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &Model{all: a, scheduler: s, adapters: map[*Adapter]bool{}}, nil
}

// Close ends all requests with [ggml.ErrClosed], and frees the model.
func (m *Model) Close() error {
	if m == nil {
		return nil
	}
	if err := m.scheduler.Close(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all != nil && len(m.all.closers) > 0 {
		last := len(m.all.closers) - 1 // the session, which has copies of the adapters
		if err := m.all.closers[last].Close(); err != nil {
			return err
		}
	}
	for a := range m.adapters {
		if err := a.file.Close(); err != nil {
			return err
		}
		delete(m.adapters, a)
	}
	return m.all.Close()
}

func (m *Model) checkMade() error {
	switch {
	case m == nil:
		return errors.New("the model is nil")
	case m.scheduler == nil:
		return fmt.Errorf("the model is a zero value; Open makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// Weights returns the model with its configuration and vocabulary; nil for a zero Model.
func (m *Model) Weights() *model.Model {
	if m.checkMade() != nil {
		return nil
	}
	return m.all.model
}

// Context returns the largest number of tokens of a prompt and its answer.
func (m *Model) Context() int {
	if m.checkMade() != nil {
		return 0
	}
	return m.all.session.Context()
}

// Sequences returns how many texts are computed at once.
func (m *Model) Sequences() int {
	if m.checkMade() != nil {
		return 0
	}
	return m.all.session.Sequences()
}

// Memory returns the memory of the texts' states on each device, usually keys and values: what a model for more texts at
// once takes more of.
func (m *Model) Memory() layout.Sizes {
	if m.checkMade() != nil {
		return nil
	}
	return m.all.session.Memory()
}

// Load returns the counts of current and finished work.
func (m *Model) Load() generate.Load {
	if m.checkMade() != nil {
		return generate.Load{}
	}
	return m.scheduler.Load()
}

// Chat yields the tokens of the model's answer to a conversation, and returns the reply that collects them, as
// [generate.Chat.Stream]. A conversation is given as a whole: the tokens that an earlier one began with are found again. If
// the seed is 0, the answer has a random one.
func (m *Model) Chat(ctx context.Context, talk *chat.Conversation, s sample.Options, o generate.ChatOptions) (iter.Seq2[generate.Token, error], *generate.Reply) {
	pick, err := m.sampler(s)
	if err != nil {
		return failed(err), new(generate.Reply)
	}
	return m.scheduler.Chat(ctx, talk, pick, o)
}

// Prompt returns the text that the model answers for a conversation, rendered by its chat template.
func (m *Model) Prompt(talk *chat.Conversation, o generate.ChatOptions) (string, error) {
	if err := m.checkMade(); err != nil {
		return "", err
	}
	return m.scheduler.Prompt(talk, o)
}

// Complete yields the tokens of the model's continuation of a prompt, as [generate.Stream]. If the seed is 0, the text has
// a random one.
func (m *Model) Complete(ctx context.Context, prompt string, s sample.Options, o generate.Options) (iter.Seq2[generate.Token, error], *generate.Stats) {
	pick, err := m.sampler(s)
	if err != nil {
		return failed(err), new(generate.Stats)
	}
	return m.scheduler.Stream(ctx, generate.Request{Prompt: prompt, Sampler: pick, Options: o})
}

// Embed returns one vector per text, as [generate.Embed]. The options may have an adapter of the model.
func (m *Model) Embed(ctx context.Context, texts []string, o infer.EmbedOptions) ([][]float32, error) {
	if err := m.checkMade(); err != nil {
		return nil, err
	}
	return m.scheduler.Embed(ctx, texts, o)
}

// EmbedTokens is Embed for texts in tokens, see [generate.EncodeTexts].
func (m *Model) EmbedTokens(ctx context.Context, texts [][]int32, o infer.EmbedOptions) ([][]float32, error) {
	if err := m.checkMade(); err != nil {
		return nil, err
	}
	return m.scheduler.EmbedTokens(ctx, texts, o)
}

// Rerank returns the relevance of each document to a query, as [generate.Rerank].
func (m *Model) Rerank(ctx context.Context, query string, documents []string) ([]float32, error) {
	if err := m.checkMade(); err != nil {
		return nil, err
	}
	return m.scheduler.Rerank(ctx, query, documents)
}

// sampler returns the sampler of a text.
func (m *Model) sampler(o sample.Options) (*sample.Sampler, error) {
	if err := m.checkMade(); err != nil {
		return nil, err
	}
	return newSampler(o)
}

// newSampler returns a sampler, with a random seed if the options have none.
func newSampler(o sample.Options) (*sample.Sampler, error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return sample.New(o)
}

// failed yields an error.
func failed(err error) iter.Seq2[generate.Token, error] {
	return func(yield func(generate.Token, error) bool) { yield(generate.Token{ID: -1}, err) }
}

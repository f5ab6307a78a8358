package llm

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/sample"
)

// Options are the settings with which a model is opened. The packages that do the work document
// each. The zero value is usual.
type Options struct {
	// Adapters are LoRA adapters, all at their full strength: files and folders, as [lora.Load]
	// takes them, or folders of runs, which have the best of theirs ([run.Run.AdapterPath]).
	Adapters []string
	// Layout says which device holds the weights, see [layout.On]; the CPU, if it is zero.
	Layout layout.Layout
	// Session says how long texts can be, and how many are computed at once. Its adapters are
	// those above.
	Session infer.SessionOptions
	// Sampling draws the tokens of answers; the zero value takes the most likely one. A Seed of 0 is another one for each
	// [Assistant], so that the next process answers otherwise.
	Sampling sample.Options
	Chat     generate.ChatOptions // of an [Assistant]
	Embed    infer.EmbedOptions   // of [Embed]
}

// An Assistant answers conversations: a [generate.Chat] with all that this needs. It is not safe for
// concurrent use: while it answers, another answer is an error.
type Assistant struct {
	chat   *generate.Chat
	all    *opened
	access exclusive.Access
}

// NewAssistant opens a model that has a chat template, or is given one. Close it.
func NewAssistant(path string, o Options) (*Assistant, error) {
	all, err := open(path, o, model.LoadOptions{Layout: o.Layout, Repack: true})
	if err != nil {
		return nil, err
	}
	a := &Assistant{all: all}
	if a.chat, err = all.chat(o); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Stream gives the tokens of the model's answer as they come into being, and the reply that they
// are, see [generate.Chat.Stream].
func (a *Assistant) Stream(ctx context.Context, talk *chat.Conversation) (iter.Seq2[generate.Token, error], *generate.Reply) {
	tokens, reply := a.answering().Stream(ctx, talk)
	return func(yield func(generate.Token, error) bool) {
		if a != nil {
			if err := a.access.Acquire("Assistant.Stream", "Assistant"); err != nil {
				yield(generate.Token{ID: -1}, err)
				return
			}
			defer a.access.Release()
		}
		tokens(yield)
	}, reply
}

// Reply writes the model's answer to w as it comes into being, see [generate.Chat.Reply].
func (a *Assistant) Reply(ctx context.Context, w io.Writer, talk *chat.Conversation) (generate.Reply, error) {
	if a != nil {
		if err := a.access.Acquire("Assistant.Reply", "Assistant"); err != nil {
			return generate.Reply{}, err
		}
		defer a.access.Release()
	}
	return a.answering().Reply(ctx, w, talk)
}

// answering returns the chat; a nil assistant has a nil chat, whose methods return an error.
func (a *Assistant) answering() *generate.Chat {
	if a == nil {
		return nil
	}
	return a.chat
}

// Close frees the model and all that belongs to it. It fails, and frees nothing, while a token is computed.
func (a *Assistant) Close() error {
	if a == nil {
		return nil
	}
	return a.all.Close()
}

// Embed opens a model, an encoder or any language model, gives a vector for each of some texts, and closes it. Who has texts again
// and again keeps a session, see [generate.Embed].
func Embed(ctx context.Context, path string, o Options, texts ...string) ([][]float32, error) {
	if o.Session.Sequences == 0 {
		o.Session.Sequences = max(1, min(len(texts), 8))
	}
	all, err := open(path, o, model.LoadOptions{Layout: o.Layout, Sequences: o.Session.Sequences})
	if err != nil {
		return nil, err
	}
	vectors, err := generate.Embed(ctx, all.model, all.session, texts, o.Embed)
	if closed := all.Close(); err == nil {
		err = closed
	}
	return vectors, err
}

// Rerank opens a reranker, scores how well each of some documents answers a query, and closes it: the larger the better, see
// [generate.Rerank]. Who has queries again and again keeps a session. A model without a classifier is an error.
func Rerank(ctx context.Context, path string, o Options, query string, documents ...string) ([]float32, error) {
	if o.Session.Sequences == 0 {
		o.Session.Sequences = max(1, min(len(documents), 8))
	}
	all, err := open(path, o, model.LoadOptions{Layout: o.Layout, Sequences: o.Session.Sequences})
	if err != nil {
		return nil, err
	}
	scores, err := generate.Rerank(ctx, all.model, all.session, query, documents)
	if closed := all.Close(); err == nil {
		err = closed
	}
	return scores, err
}

// opened is a model with its adapters and a session.
type opened struct {
	model   *model.Model
	session *infer.Session
	closers []io.Closer // in the order in which they were opened
}

func open(path string, o Options, load model.LoadOptions) (*opened, error) {
	a := &opened{}
	if err := a.open(path, o, load); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *opened) open(path string, o Options, load model.LoadOptions) (err error) {
	if o.Session.Adapters != nil {
		return errors.New("Options.Session.Adapters are set: name their files in Options.Adapters")
	}
	if a.model, err = model.Load(path, load); err != nil {
		return err
	}
	a.closers = append(a.closers, a.model)
	var adapters []model.Adapters
	for _, path := range o.Adapters {
		adapter, err := loadAdapter(path, a.model)
		if err != nil {
			return err
		}
		a.closers = append(a.closers, adapter)
		adapters = append(adapters, adapter.WithScale(1))
	}
	o.Session.Adapters = lora.Join(adapters...)
	if a.session, err = infer.NewSession(a.model, o.Session); err != nil {
		return err
	}
	a.closers = append(a.closers, a.session)
	return nil
}

// loadAdapter loads an adapter from a file or from the folder of a run, and logs each setting that
// means something else here.
func loadAdapter(path string, m *model.Model) (*lora.Adapter, error) {
	if run.Is(path) {
		r, err := run.Open(path)
		if err != nil {
			return nil, err
		}
		if path, err = r.AdapterPath(); err != nil {
			return nil, err
		}
	}
	adapter, err := lora.Load(path, m)
	if err != nil {
		return nil, err
	}
	for _, notice := range adapter.Notices() {
		ggml.Logger().Warn(notice, slog.String("adapter", path))
	}
	return adapter, nil
}

func (a *opened) chat(o Options) (*generate.Chat, error) {
	if o.Sampling.Seed == 0 {
		o.Sampling.Seed = rand.Uint64()
	}
	sampler, err := sample.New(o.Sampling)
	if err != nil {
		return nil, err
	}
	sequence, err := a.session.NewSequence()
	if err != nil {
		return nil, err
	}
	return generate.NewChat(a.model, sequence, sampler, o.Chat)
}

// Close closes what was opened, the last first. If one is in use, those that it needs stay open.
func (a *opened) Close() error {
	if a == nil {
		return nil
	}
	for i, c := range slices.Backward(a.closers) {
		if err := c.Close(); err != nil {
			return err
		}
		a.closers = a.closers[:i]
	}
	return nil
}

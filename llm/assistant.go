package llm

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
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

// Options are the settings for opening and running a model. Each field's package documents it. The zero value is a
// usable default.
type Options struct {
	// Adapters are LoRA adapters, applied at scale 1: files or folders that [lora.Load] reads, or run folders, whose
	// best adapter is used ([run.Run.AdapterPath]).
	Adapters []string
	// Layout assigns weights to devices, see [layout.On]; zero means the CPU.
	Layout layout.Layout
	// Session limits the lengths of sequences and how many are computed at once. Its own Adapters field must stay nil.
	Session infer.SessionOptions
	// Sampling configures how answers are sampled; the zero value decodes greedily. If Seed is 0, each [Assistant]
	// draws its own random seed.
	Sampling  sample.Options
	Chat      generate.ChatOptions      // of [NewAssistant]
	Embed     infer.EmbedOptions        // of [Embed]
	Scheduler generate.SchedulerOptions // of [Open]
}

// An Assistant answers conversations: a [generate.Chat] together with its model and session. It is not safe for
// concurrent use: starting a second answer while one is generated returns an error.
type Assistant struct {
	chat   *generate.Chat
	all    *opened
	access exclusive.Access
}

// NewAssistant opens a model that contains a chat template, or for which o.Chat gives one. The caller closes it.
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

// Stream yields the tokens of the model's answer as they are generated, and returns the reply that collects them, see
// [generate.Chat.Stream].
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

// Reply writes the model's answer to w as it is generated, see [generate.Chat.Reply].
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

// Close frees the model, its adapters and its session. During a computation it fails and frees nothing.
func (a *Assistant) Close() error {
	if a == nil {
		return nil
	}
	return a.all.Close()
}

// Embed opens a model (an encoder or any language model), returns one vector per text, and closes the model. To embed
// texts repeatedly, keep a session and call [generate.Embed].
func Embed(ctx context.Context, path string, o Options, texts ...string) ([][]float32, error) {
	return encode(path, o, len(texts), func(m *model.Model, s *infer.Session) ([][]float32, error) {
		return generate.Embed(ctx, m, s, texts, o.Embed)
	})
}

// Rerank opens a reranker, returns the relevance of each document to the query (larger is better), and closes the
// model, see [generate.Rerank]. To score repeatedly, keep a session. A model without a classifier is an error.
func Rerank(ctx context.Context, path string, o Options, query string, documents ...string) ([]float32, error) {
	return encode(path, o, len(documents), func(m *model.Model, s *infer.Session) ([]float32, error) {
		return generate.Rerank(ctx, m, s, query, documents)
	})
}

// encode calls f with the model and a session that computes up to eight of n texts together, and closes both.
func encode[T any](path string, o Options, n int, f func(*model.Model, *infer.Session) (T, error)) (results T, err error) {
	if o.Session.Sequences == 0 {
		o.Session.Sequences = max(1, min(n, 8))
	}
	all, err := open(path, o, model.LoadOptions{Layout: o.Layout, Sequences: o.Session.Sequences})
	if err != nil {
		return results, err
	}
	defer func() {
		if closed := all.Close(); err == nil {
			err = closed
		}
	}()
	return f(all.model, all.session)
}

// opened is a model with its adapters and a session.
type opened struct {
	model   *model.Model
	session *infer.Session
	closers []io.Closer // in the order of opening
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

// loadAdapter loads an adapter from a file or a run folder, and logs each setting that has a different meaning here.
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
	sampler, err := newSampler(o.Sampling)
	if err != nil {
		return nil, err
	}
	sequence, err := a.session.NewSequence()
	if err != nil {
		return nil, err
	}
	return generate.NewChat(a.model, sequence, sampler, o.Chat)
}

// Close closes everything opened, in reverse order. It stops at the first error, so that what the object in use depends
// on stays open.
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

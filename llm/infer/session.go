package infer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

// ErrContextFull is the error of a sequence that would exceed the context of its
// [Session].
var ErrContextFull = errors.New("the context is full")

// ErrSessionFull is the error of a [Session] without room for another sequence.
var ErrSessionFull = errors.New("the session is full")

// SessionOptions are the settings of a [Session]; the zero value is usual.
type SessionOptions struct {
	// Sequences is the largest number of sequences at once; 0: one. [model.LoadOptions] take it
	// too, to choose how matrices are repacked.
	Sequences int
	// Context is the largest number of tokens of a sequence; 0: the model's training context. The
	// memory of the KV cache is proportional to it and to Sequences; in a layer with a sliding
	// window, to the window and Batch instead.
	Context int
	// FullCache makes layers with a window keep all of Context, as llama.cpp's --swa-full:
	// sequences can then be rewound to any position and share any beginning of another sequence
	// without recomputation.
	FullCache bool
	// CacheType is the type of the KV cache: F32, the zero value, is exact; F16
	// takes half the memory, and is llama.cpp's default; Q8_0 a quarter.
	CacheType ggml.Type
	// Adapters are copied when the session is made. Pairs of scale 0 are left out. They compute in
	// the type of their file, F32 or 16 bits, whatever the model's type; in F32 if pairs of one
	// input have several types. Adapters of the token embedding are not copied: they must stay open
	// and unchanged while the session is open.
	Adapters model.Adapters
	// Batch is the largest number of tokens of a pass; 0: 512. A model that is not causal computes
	// a text of any length in one pass.
	Batch int
	// Engine computes, in the layout of the model; nil makes one of Threads threads (0 for
	// [ggml.DefaultThreads]), which Close closes.
	Engine  *device.Engine
	Threads int
}

// A Session holds the memory and the graphs by which a model continues sequences of
// tokens. It keeps their keys and values, so that each further token costs one pass over
// one token. [Session.Step] continues several sequences in one pass, which reads the
// weights once for all of them.
//
// A session, its sequences and its engine are used by one goroutine at a time; sessions
// with engines of their own can share a model. Close it before the model.
type Session struct {
	d        *decoder
	slots    []*Sequence // nil: free
	scratch  stepScratch
	adapters []*Adapters // of sequences
	mixed    *mixture    // the adapters of all sequences together; nil until needed
	access   exclusive.Access
}

// NewSession allocates the memory of sequences. It also builds the graph of one token, which
// finds faults of the adapters.
func NewSession(m *model.Model, o SessionOptions) (*Session, error) {
	d, err := newDecoder(m, o)
	if err != nil {
		return nil, err
	}
	return &Session{d: d, slots: make([]*Sequence, max(1, o.Sequences))}, nil
}

// Close frees the session with its sequences. It fails only while another call uses the session.
func (s *Session) Close() error {
	if s == nil || s.d == nil {
		return nil
	}
	if err := s.acquire("Session.Close"); err != nil {
		return err
	}
	defer s.access.Release()
	s.d.close()
	s.closeAdapters()
	s.closeMixture()
	return nil
}

// acquire holds the session for a call.
func (s *Session) acquire(method string) error {
	if s == nil || s.d == nil {
		return s.checkOpen()
	}
	return s.access.Acquire(method, "Session")
}

func (s *Session) checkOpen() error {
	if s == nil {
		return errors.New("the session is nil")
	}
	return s.d.checkOpen("session", "NewSession")
}

// Model returns the model of the session.
func (s *Session) Model() *model.Model {
	if s == nil || s.d == nil {
		return nil
	}
	return s.d.m
}

// Context returns the largest number of tokens of a sequence.
func (s *Session) Context() int {
	if s == nil || s.d == nil {
		return 0
	}
	return s.d.states.length
}

// Batch returns the largest number of tokens of a pass.
func (s *Session) Batch() int {
	if s == nil || s.d == nil {
		return 0
	}
	return s.d.together
}

// Memory returns the memory of the sequences' states, usually keys and values, on each device.
func (s *Session) Memory() layout.Sizes {
	if s == nil || s.d == nil {
		return nil
	}
	return s.d.states.memory.Sizes()
}

// Sequences returns the largest number of sequences at once.
func (s *Session) Sequences() int {
	if s == nil {
		return 0
	}
	return len(s.slots)
}

// Free returns the number of further sequences that have room.
func (s *Session) Free() int {
	if s.checkOpen() != nil {
		return 0
	}
	free := 0
	for _, q := range s.slots {
		if q == nil {
			free++
		}
	}
	return free
}

// NewSequence makes a sequence without tokens. It fails with [ErrSessionFull] if all slots are in
// use, and with [arch.ErrNoLogits] for a model that only embeds texts.
func (s *Session) NewSequence() (*Sequence, error) {
	if err := s.acquire("Session.NewSequence"); err != nil {
		return nil, err
	}
	defer s.access.Release()
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if err := s.d.m.Architecture().CheckLogits("it generates no text; use Session.Embed"); err != nil {
		return nil, err
	}
	return s.newSequence(nil)
}

// newSequence makes a sequence in a free slot.
func (s *Session) newSequence(a *Adapters) (*Sequence, error) {
	slot := slices.Index(s.slots, nil)
	if slot < 0 {
		return nil, s.full()
	}
	if _, err := s.rewind(slot, 0); err != nil {
		return nil, err
	}
	q := &Sequence{session: s, slot: slot, adapters: a}
	s.slots[slot] = q
	return q, nil
}

// full is the error of a session without a free slot.
func (s *Session) full() error {
	return fmt.Errorf("%w: it has %d sequences; close one, or make a session for more", ErrSessionFull, len(s.slots))
}

func (s *Session) vocab() int { return s.d.m.Config().Vocab }

func (s *Session) checkRoom(logits []float32) error {
	if len(logits) != s.vocab() {
		return fmt.Errorf("the slice must hold the logits of %d tokens; it has room for %d", s.vocab(), len(logits))
	}
	return nil
}

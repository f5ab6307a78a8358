package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// ErrQueueFull is the error of a request to a [Scheduler] whose queue has no room.
var ErrQueueFull = errors.New("too many requests are waiting; try again later")

// SchedulerOptions are the settings of a [Scheduler]; the zero value is usual.
type SchedulerOptions struct {
	// Template renders conversations whose options have no template; nil uses the model's.
	Template *chat.Template
	// Chunk is the number of tokens of prompts that one pass computes for each waiting prompt while texts are generated,
	// whose next tokens wait for it; 0: 64. Never more than [infer.SessionOptions].Batch, as without such texts.
	Chunk int
	// Queue is the largest number of requests that wait; 0: 1024.
	Queue int
}

// A Scheduler computes the requests of any number of goroutines in one session (continuous batching). Texts that are
// generated at the same time share a pass, which they enter and leave between any two tokens. Prompts are computed in
// chunks between these passes, short ones several in a pass, so no text waits for another's long prompt: every other pass
// begins with prompts that are shorter than the one that waits longest, the others with that one. Texts to embed or score are
// computed in chunks too.
//
// As many texts as the session has sequences are computed at once. Further requests wait in the order of their arrival.
// Texts may have adapters of their own ([Scheduler.NewAdapters]), and share passes all the same, see [infer.Session.Step].
//
// A finished text stays in its sequence until another one needs the room: a request that begins with the same tokens, such
// as the next turn of a conversation or an equal system prompt, computes only the rest.
//
// A text does not wait for the loop over its tokens: it is computed as fast as possible, and the tokens are kept. A
// cancelled context ends a request in the queue, or in the course of its next pass.
//
// It is safe for concurrent use. The session, and its sequences, belong to it until Close.
type Scheduler struct {
	m       *model.Model
	session *infer.Session
	chunk   int
	queue   int
	format  func() (*format, error) // of the template of the options

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	done chan struct{}
	wake chan struct{} // has room for one

	mu      sync.Mutex
	waiting []job // in the order of their arrival
	load    Load

	// Of the goroutine that computes.
	prompts   []*text           // whose prompts are computed, in the order of their arrival
	shorter   bool              // the last chunk began with shorter prompts than the first
	texts     []*text           // that are generated
	encodings []*encoding       // in order: the first is computed next
	encoded   bool              // the last chunk was an encoding's
	kept      []*infer.Sequence // of finished texts, the oldest first
	steps     stepper
	going     []*generation // reused
	called    bool          // since the last pass, a function of a job has been called
	closing   []closing
}

// A job is a request to a scheduler. The goroutine that computes calls its methods.
type job interface {
	context() context.Context
	hasRoom(s *Scheduler) bool // to begin now
	begin(s *Scheduler)
	fail(err error) // ends a job that has not begun
}

// Load counts a [Scheduler]'s current and finished work.
type Load struct {
	Waiting, Running int // requests now
	Requests         int // that have ended
	Prompt, Cached   int // tokens of prompts; those found in the session
	Generated        int // tokens
	Passes           int // over tokens of texts that are generated
}

// NewScheduler starts a scheduler in a session of the model. Close it before the session.
func NewScheduler(m *model.Model, s *infer.Session, o SchedulerOptions) (*Scheduler, error) {
	if err := checkVocabulary(m); err != nil {
		return nil, err
	}
	if err := checkSession(m, s); err != nil {
		return nil, err
	}
	if s.Model() == nil {
		return nil, fmt.Errorf("the session is nil or a zero value; infer.NewSession makes one: %w", ggml.ErrZeroValue)
	}
	if o.Chunk < 0 || o.Queue < 0 {
		return nil, fmt.Errorf("a scheduler cannot have chunks of %d tokens and a queue of %d requests; 0 is the default", o.Chunk, o.Queue)
	}
	c := &Scheduler{m: m, session: s, chunk: cmp.Or(o.Chunk, 64), queue: cmp.Or(o.Queue, 1024), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.format = sync.OnceValues(func() (*format, error) { return newFormat(m, ChatOptions{Template: o.Template}) })
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	go c.run()
	return c, nil
}

// Close ends all requests with [ggml.ErrClosed], and returns when nothing is computed any more.
func (s *Scheduler) Close() error {
	if s == nil || s.done == nil {
		return nil
	}
	s.stop(fmt.Errorf("scheduler: %w", ggml.ErrClosed))
	<-s.done
	return nil
}

func (s *Scheduler) checkMade() error {
	switch {
	case s == nil:
		return errors.New("the scheduler is nil")
	case s.done == nil:
		return fmt.Errorf("the scheduler is a zero value; NewScheduler makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// Load returns the counts of current and finished work.
func (s *Scheduler) Load() Load {
	if s == nil {
		return Load{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.load
	l.Waiting = len(s.waiting)
	return l
}

func (s *Scheduler) count(f func(l *Load)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.load)
}

// submit appends a job to the queue. The caller ends the job's context in the end.
func (s *Scheduler) submit(j job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil: // else end finds the job in the queue
		return context.Cause(s.ctx)
	case len(s.waiting) >= s.queue:
		return ErrQueueFull
	}
	s.waiting = append(s.waiting, j)
	s.awake()
	context.AfterFunc(j.context(), s.awake)
	return nil
}

// awake lets the goroutine that computes look at the queue.
func (s *Scheduler) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run computes until the scheduler is closed.
func (s *Scheduler) run() {
	defer close(s.done)
	for s.ctx.Err() == nil {
		s.begin()
		s.closeUnused()
		if s.running() == 0 {
			select {
			case <-s.wake:
			case <-s.ctx.Done():
			}
			continue
		}
		s.step()
		if s.encoded = len(s.encodings) > 0 && (!s.encoded || len(s.prompts) == 0); s.encoded {
			s.encodeChunk()
		} else {
			s.prefill()
		}
	}
	s.end()
}

// running returns the number of requests that are computed.
func (s *Scheduler) running() int { return len(s.texts) + len(s.prompts) + len(s.encodings) }

// hasRoom reports whether a request that needs a sequence can begin.
func (s *Scheduler) hasRoom() bool { return s.running() < s.session.Sequences() }

// begin begins the jobs of the queue that have room, and ends cancelled ones.
func (s *Scheduler) begin() {
	s.mu.Lock()
	waiting := slices.Clone(s.waiting)
	s.mu.Unlock()
	s.called = false
	room := true
	for _, j := range waiting {
		if err := context.Cause(j.context()); err != nil {
			s.leaveQueue(j)
			j.fail(err)
			continue
		}
		if room = room && j.hasRoom(s); room {
			s.leaveQueue(j)
			j.begin(s)
		}
	}
	s.count(func(l *Load) { l.Running = s.running() })
}

func (s *Scheduler) leaveQueue(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, j)
	s.waiting = slices.Delete(s.waiting, i, i+1)
}

// step generates a token of each text in one pass.
func (s *Scheduler) step() {
	s.texts = s.unfinished(s.texts, (*generation).endEarly)
	if len(s.texts) == 0 {
		return
	}
	s.going = s.going[:0]
	for _, t := range s.texts {
		s.going = append(s.going, t.g)
	}
	err := s.steps.compute(s.ctx, s.going)
	s.count(func(l *Load) { l.Passes++ })
	if err == nil {
		drawAll(s.going)
	}
	s.texts = s.unfinished(s.texts, func(g *generation) {
		if err != nil {
			g.end("", err)
		}
	})
}

// drawAll draws a token of each text, in parallel: with a large vocabulary that takes a part of a pass.
func drawAll(texts []*generation) {
	var all sync.WaitGroup
	for _, g := range texts[1:] {
		all.Add(1)
		go func() {
			defer all.Done()
			g.draw()
		}()
	}
	texts[0].draw()
	all.Wait()
}

// unfinished calls f with each text, finishes those that have ended, and returns the others.
func (s *Scheduler) unfinished(texts []*text, f func(*generation)) []*text {
	return slices.DeleteFunc(texts, func(t *text) bool {
		if f(t.g); t.g.ended {
			s.finish(t)
		}
		return t.g.ended
	})
}

// chunkSize returns the number of tokens to compute of a number of requests, beside the texts that are generated.
func (s *Scheduler) chunkSize(requests int) int {
	if len(s.texts) > 0 {
		return min(s.session.Batch(), s.chunk*requests)
	}
	return s.session.Batch()
}

// encodeChunk computes a chunk of texts to embed or score.
func (s *Scheduler) encodeChunk() {
	e := s.encodings[0]
	s.encodings = s.encodings[1:]
	if s.session.Free() == 0 { // a kept text may have taken the slot of the last chunk
		s.closeOldest()
	}
	if !e.step(s.chunkSize(1)) {
		s.encodings = append(s.encodings, e)
	}
}

// finish reports the end of a text, and keeps its sequence for texts that begin alike.
func (s *Scheduler) finish(t *text) {
	s.count(func(l *Load) {
		l.Requests++
		l.Prompt += t.g.stats.Prompt
		l.Cached += t.cached
		l.Generated += t.g.stats.Generated
		l.Running = max(0, l.Running-1)
	})
	s.kept = append(s.kept, t.sequence)
	s.leaveSpare()
	t.end()
}

// sequence returns a sequence for a prompt: the kept one that has most of its tokens, if it loses at most half of its own;
// else a new one, or the oldest kept one if none is free.
func (s *Scheduler) sequence(prompt []int32, a *infer.Adapters) (*infer.Sequence, error) {
	best, most := -1, 0
	for i, q := range s.kept {
		if n := q.CommonPrefix(prompt); n > most && 2*n >= q.Len() && q.Adapters() == a {
			best, most = i, n
		}
	}
	if best < 0 && len(s.kept) > 0 && s.session.Free() == 0 {
		best = 0
	}
	q, err := (*infer.Sequence)(nil), error(nil)
	if best < 0 {
		q, err = s.session.NewSequence()
	} else {
		q = s.kept[best]
		s.kept = slices.Delete(s.kept, best, best+1)
	}
	if err != nil {
		return nil, err
	}
	if err := q.SetAdapters(a); err != nil { // they are closed, or another session's
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// leaveSpare closes the oldest kept sequence if no slot is free: sequences that are stepped together move into adjacent
// slots by way of a free one. Two slots have no such gaps.
func (s *Scheduler) leaveSpare() {
	if s.session.Sequences() > 2 && s.session.Free() == 0 {
		s.closeOldest()
	}
}

// closeOldest closes the oldest kept sequence, if there is one.
func (s *Scheduler) closeOldest() {
	if len(s.kept) > 0 {
		s.kept[0].Close() // cannot fail: only this goroutine uses the session
		s.kept = s.kept[1:]
	}
}

// end ends all jobs, and closes all sequences.
func (s *Scheduler) end() {
	err := context.Cause(s.ctx)
	for _, t := range slices.Concat(s.texts, s.prompts) {
		t.g.end("", err)
		s.finish(t)
	}
	for _, e := range s.encodings {
		e.end(err)
	}
	for len(s.kept) > 0 {
		s.closeOldest()
	}
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, j := range waiting {
		j.fail(err)
	}
}

package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Time limits of a client.
const (
	handshakeTimeout = 10 * time.Second
	stallTimeout     = time.Minute     // for the next part of a message
	finishTimeout    = 5 * time.Second // to request the result of the last computation
)

// chunkBytes is the number of bytes read or written at a time.
const chunkBytes = 4 << 20

// errEnd ends a session that the client has ended.
var errEnd = errors.New("the client has left")

// allow sets the time limit for the client to send, or to receive, more; zero means no limit. It
// fails if the session is to end.
func (s *session) allow(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil && !s.finishing {
		return s.ended
	}
	if s.finishing && d == 0 {
		d = finishTimeout
	}
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	return s.conn.SetDeadline(until)
}

// end ends the session when it next waits for the client. A running computation continues to its
// end, and the client can still read the result, even if the computation has just ended.
func (s *session) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return
	}
	s.ended, s.finishing = why, s.unread
	switch {
	case !s.finishing:
		s.conn.SetDeadline(time.Now())
	case !s.computing:
		s.conn.SetDeadline(time.Now().Add(finishTimeout))
	}
}

// finished records that the client has read the last result, or wants to compute more: the result
// is no longer kept.
func (s *session) finished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread, s.finishing = false, false
}

// computes records that a computation runs, until stop.
func (s *session) computes() (stop func()) {
	set := func(yes bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.computing = yes
		s.unread = s.unread || yes
	}
	set(true)
	return func() { set(false) }
}

// idle returns how long the session has waited for a request.
func (s *session) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleSince.IsZero() {
		return 0
	}
	return time.Since(s.idleSince)
}

func (s *session) setIdle(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleSince = (time.Time{}); idle {
		s.idleSince = time.Now()
	}
}

// read fills p from the client.
func (s *session) read(p []byte) error {
	for len(p) > 0 {
		chunk := p[:min(len(p), chunkBytes)]
		if err := s.allow(stallTimeout); err != nil {
			return err
		}
		n, err := io.ReadFull(s.r, chunk)
		s.stats.received += int64(n)
		if err != nil {
			return fmt.Errorf("a message ends early: %w", err)
		}
		p = p[len(chunk):]
	}
	return nil
}

// write sends p to the client.
func (s *session) write(p []byte) error {
	for len(p) > 0 {
		chunk := p[:min(len(p), chunkBytes)]
		if err := s.allow(stallTimeout); err != nil {
			return err
		}
		n, err := s.conn.Write(chunk)
		s.stats.sent += int64(n)
		if err != nil {
			return err
		}
		p = p[len(chunk):]
	}
	return nil
}

// reply sends a reply.
func (s *session) reply(body []byte) error {
	return s.write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(body))), body...))
}

func (s *session) replyNumbers(numbers ...uint64) error {
	var body []byte
	for _, n := range numbers {
		body = binary.LittleEndian.AppendUint64(body, n)
	}
	return s.reply(body)
}

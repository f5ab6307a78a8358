package rpcrelay

import (
	"bytes"
	"compress/flate"
	"container/list"
	"encoding/binary"
	"io"

	"github.com/goggml/ggml/internal/rpcwire"
)

// The client sends a graph once, and from then on asks to compute it by its number. ggml's server
// forgets all graphs when any client's memory is freed, and ends the connection if asked for one of
// them. So the relay keeps the graphs, and sends a graph again if memory was freed since it was
// sent.

// maxKept limits the bytes of kept graphs, which compress to a twentieth; beyond it, the least
// recently computed graph is dropped.
const maxKept = 32 << 20

// sentGraphs are the graphs sent on a connection.
type sentGraphs struct {
	frees int // number of messages that freed memory
	of    map[graphID]*list.Element
	used  list.List // of *sentGraph, the most recently computed first
	bytes int
	flate *flate.Writer
}

type graphID [12]byte // device and number, with which both messages begin

type sentGraph struct {
	id         graphID
	frees      int // value of frees when it was sent
	size       int
	compressed []byte
}

// keptOverhead is the approximate memory of a graph besides its message, in bytes.
const keptOverhead = 256

// keep stores the message of a graph with a number.
func (s *sentGraphs) keep(message []byte) error {
	if len(message) < rpcwire.GraphSize {
		return nil
	}
	id := graphID(message)
	if binary.LittleEndian.Uint64(id[4:]) == 0 {
		return nil
	}
	s.drop(s.of[id])
	var b bytes.Buffer
	if s.flate == nil {
		s.of = map[graphID]*list.Element{}
		s.flate, _ = flate.NewWriter(nil, flate.BestSpeed)
	}
	s.flate.Reset(&b)
	s.flate.Write(message)
	if err := s.flate.Close(); err != nil {
		return err
	}
	s.of[id] = s.used.PushFront(&sentGraph{id, s.frees, len(message), bytes.Clone(b.Bytes())})
	s.bytes += b.Len() + keptOverhead
	for s.bytes > maxKept {
		s.drop(s.used.Back())
	}
	return nil
}

func (s *sentGraphs) drop(e *list.Element) {
	if e == nil {
		return
	}
	g := s.used.Remove(e).(*sentGraph)
	delete(s.of, g.id)
	s.bytes -= len(g.compressed) + keptOverhead
}

// again returns the message of a graph that the server may have forgotten; nil if the server has
// it, or the client never sent it.
func (s *sentGraphs) again(id graphID) ([]byte, error) {
	e := s.of[id]
	if e == nil {
		return nil, nil
	}
	s.used.MoveToFront(e)
	g := e.Value.(*sentGraph)
	if g.frees == s.frees {
		return nil, nil
	}
	g.frees = s.frees
	message := make([]byte, g.size)
	_, err := io.ReadFull(flate.NewReader(bytes.NewReader(g.compressed)), message)
	return message, err
}

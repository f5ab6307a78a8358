package rpcrelay

import (
	"bytes"
	"compress/flate"
	"container/list"
	"encoding/binary"
	"io"

	"github.com/goggml/ggml/internal/rpcwire"
)

// The client sends a graph once, and asks to compute it again by its number from then on. The server of ggml forgets all
// graphs when memory is freed, whosever it was, and ends the connection when one of them is asked for. So the relay
// keeps them, and sends one that was sent before memory was freed whole once more.

// maxKept bounds the bytes of graphs that are kept, compressed, which are a twentieth of those sent: beyond it the one
// goes that was not computed for longest.
const maxKept = 32 << 20

// sentGraphs are the graphs that a connection has sent.
type sentGraphs struct {
	frees int // messages that freed memory
	of    map[graphID]*list.Element
	used  list.List // of *sentGraph, the last one computed first
	bytes int
	flate *flate.Writer
}

type graphID [12]byte // device and number, as both messages begin

type sentGraph struct {
	id         graphID
	frees      int // when it was sent
	size       int
	compressed []byte
}

// keptOverhead is about what a graph takes beside its message, in bytes.
const keptOverhead = 256

// keep stores the message of a graph that has a number.
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

// again returns the message of a graph that the server may have forgotten; nil if the server has it, or no
// client does.
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

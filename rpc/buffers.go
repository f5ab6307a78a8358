package rpc

import (
	"encoding/binary"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
)

// A clientBuffer is a client's buffer. The client addresses it by numbers that are not addresses of
// this process.
type clientBuffer struct {
	device int
	b      *ggml.Buffer
	free   func() // called after closing
	size   int64
	base   uint64 // address for the client
	isHost bool
}

// bufferBytes is the memory of a buffer beside its data, in the C library and in Go; Go's garbage
// can double it.
const bufferBytes = 2 << 10

func (s *session) buffer(body []byte) (*clientBuffer, error) {
	number := binary.LittleEndian.Uint64(body)
	b := s.buffers[number]
	if b == nil {
		return nil, fmt.Errorf("the client has no buffer %d", number)
	}
	return b, nil
}

// allocBuffer replies 0 if memory is short.
func (s *session) allocBuffer(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(body[4:])
	if size > maxBuffer || s.last >= maxBuffers || !s.server.take(s, d, int64(size), 0) {
		return s.replyNumbers(0, 0)
	}
	if s.charge(bufferBytes) != nil {
		d.pool.give(int64(size))
		return s.replyNumbers(0, 0)
	}
	kind := d.BufferType()
	b, free, err := newBuffer(kind, int64(size))
	if err != nil {
		s.uncharge(bufferBytes)
		d.pool.give(int64(size))
		ggml.Logger().Info("ggml: RPC server: no memory for a client", "client", s.conn.RemoteAddr().String(), "error", err)
		return s.replyNumbers(0, 0)
	}
	s.last++
	buf := &clientBuffer{device: d.index, b: b, free: free, size: int64(size), base: s.last * maxBuffer, isHost: b.IsHost()}
	s.buffers[s.last] = buf
	if err := buf.empty(); err != nil {
		return err
	}
	return s.replyNumbers(s.last, size)
}

// newBuffer makes a buffer. If a test provides the memory, free frees it after the buffer is closed.
func newBuffer(kind *ggml.BufferType, size int64) (b *ggml.Buffer, free func(), err error) {
	if testhook.RPCMemory == nil || !kind.IsHost() || size == 0 {
		b, err = kind.NewBuffer(size)
		return b, func() {}, err
	}
	memory, free, err := testhook.RPCMemory(size)
	if err != nil {
		return nil, nil, err
	}
	if b, err = ggml.NewBufferFrom(memory); err != nil {
		free()
	}
	return b, free, err
}

// empty clears memory that other clients have freed, which the client must not see.
func (b *clientBuffer) empty() error {
	if b.discard() {
		return nil
	}
	return b.b.Clear(0)
}

// discard returns whole pages of system memory to the system, after which they read as zeros. It
// reports whether that was worthwhile.
func (b *clientBuffer) discard() (done bool) {
	if b.isHost {
		b.b.WithBytes(func(memory []byte) error {
			done = discard(memory)
			return nil
		})
	}
	return done
}

// maxBuffers is the maximum number of buffers a client allocates in total: each has addresses of
// its own.
const maxBuffers = 1 << 23

func (s *session) getAlignment(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	return s.replyNumbers(uint64(d.BufferType().Alignment()))
}

func (s *session) getMaxSize(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	return s.replyNumbers(uint64(min(d.BufferType().MaxSize(), maxBuffer)))
}

func (s *session) getDeviceMemory(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	free, total := d.memory()
	return s.replyNumbers(uint64(free), uint64(total))
}

func (s *session) bufferGetBase(body []byte) error {
	b, err := s.buffer(body)
	if err != nil {
		return err
	}
	return s.replyNumbers(b.base)
}

func (s *session) freeBuffer(body []byte) error {
	b, err := s.buffer(body)
	if err != nil {
		return err
	}
	for device, graphs := range s.graphs {
		for uid, g := range graphs {
			if g.buffers[b] {
				s.drop(device, uid)
			}
		}
	}
	delete(s.buffers, binary.LittleEndian.Uint64(body))
	s.release(b)
	s.uncharge(bufferBytes)
	return nil
}

// release frees a buffer. The C library may keep small host buffers until they are collected.
func (s *session) release(b *clientBuffer) {
	pool, kept := s.server.devices[b.device].pool, b.isHost && !b.discard()
	b.b.Close()
	b.free()
	if kept {
		pool.drop(b.size, 0)
	} else {
		pool.give(b.size)
	}
}

func (s *session) bufferClear(body []byte) error {
	b, err := s.buffer(body)
	if err != nil {
		return err
	}
	return b.b.Clear(body[8])
}

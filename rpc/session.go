package rpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// A session is a server's state for one client: its buffers, graphs, and backends. One goroutine serves it.
type session struct {
	server *server
	conn   net.Conn
	r      *bufio.Reader
	ctx    context.Context // context of computations

	backends []*ggml.Backend // by device; nil before the first graph
	buffers  map[uint64]*clientBuffer
	last     uint64                    // last number given to a buffer
	graphs   []map[uint64]*clientGraph // by device and the client's number
	kept     int64                     // bytes of graphs
	current  *clientGraph              // being computed
	clock    int64                     // counts computations
	staging  []byte                    // for copies between the client and device memory; nil before the first
	work     []int64                   // scratch bytes of the backends, by device
	objects  int64                     // bytes reserved for everything except tensor data

	mu        sync.Mutex
	idleSince time.Time // zero while a request is served
	computing bool
	unread    bool  // the client has not read the result of its last computation
	ended     error // why no more is read, or nil
	finishing bool  // only the result of the last computation may still be read

	stats stats
}

// stats are a client's figures in the log.
type stats struct {
	received, sent int64
	graphs         int
	computing      time.Duration
}

// greet does the handshake, and waits for the first request.
func (s *session) greet() error {
	if err := s.allow(handshakeTimeout); err != nil {
		return err
	}
	var request [rpcwire.HeaderSize + rpcwire.CapabilitiesSize]byte
	if n, err := io.ReadFull(s.r, request[:]); n == 0 && err == io.EOF {
		return errEnd
	} else if err != nil {
		return fmt.Errorf("the handshake is missing: %w", err)
	}
	if rpcwire.Command(request[0]) != rpcwire.Hello || binary.LittleEndian.Uint64(request[1:]) != rpcwire.CapabilitiesSize {
		return fmt.Errorf("it does not begin with the handshake of protocol %d", rpcwire.Major)
	}
	var body [rpcwire.HandshakeReplySize - 8]byte // no transport other than TCP
	body[0], body[1], body[2] = rpcwire.Major, rpcwire.Minor, rpcwire.Patch
	body[rpcwire.FlagsAt] = byte(s.flags().WithNativeOps(rpcwire.NativeOpsVersion))
	if err := s.reply(body[:]); err != nil {
		return err
	}
	if err := s.allow(handshakeTimeout); err != nil {
		return err
	}
	first, err := s.r.Peek(1)
	if err == nil && rpcwire.Command(first[0]) == rpcwire.NativeOps { // answered even if other clients fill the server
		return s.nativeOps()
	}
	if err != nil {
		return errEnd
	}
	return nil
}

func (s *session) flags() rpcwire.Flags {
	if s.server.cache != nil {
		return rpcwire.HasCache
	}
	return 0
}

// charge reserves host memory for objects of the session; if it is short, it drops the least
// recently used graphs.
func (s *session) charge(n int64) error {
	for !s.server.take(s, s.server.host, 0, n) {
		if !s.dropOldest(s.current) {
			return fmt.Errorf("it takes %d KiB beside the data of tensors, but the server has only %d KiB of memory left for its clients", n>>10, s.server.host.pool.free()>>10)
		}
	}
	s.objects += n
	return nil
}

// uncharge returns the memory of dropped objects.
func (s *session) uncharge(n int64) {
	s.objects -= n
	s.server.host.pool.drop(0, n)
}

// serve answers requests until the client leaves, which is not an error, or a request is refused.
func (s *session) serve() error {
	for {
		if err := s.allow(0); err != nil {
			return err
		}
		s.setIdle(true)
		var header [rpcwire.HeaderSize]byte
		_, err := io.ReadFull(s.r, header[:])
		s.setIdle(false)
		s.stats.received += int64(len(header))
		switch {
		case err == io.EOF, errors.Is(err, syscall.ECONNRESET):
			return nil
		case err != nil && s.hasEnded() != nil:
			return s.hasEnded()
		case err != nil:
			return fmt.Errorf("a message ends early: %w", err)
		case hungUp(s.conn): // and left unanswered requests behind
			return nil
		}
		command, size := rpcwire.Command(header[0]), binary.LittleEndian.Uint64(header[1:])
		if err := command.CheckSize(size, maxBuffer); err != nil {
			return err
		}
		if command.Computes() {
			s.finished()
		}
		if err := s.request(command, int(size)); err != nil {
			if why := s.hasEnded(); why != nil {
				return why
			}
			return fmt.Errorf("%v: %w", command, err)
		}
		if command.Reads() {
			s.finished()
		}
	}
}

// hasEnded returns why the session is to end, or nil.
func (s *session) hasEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// request reads and answers one request.
func (s *session) request(command rpcwire.Command, size int) error {
	switch command {
	case rpcwire.SetTensor:
		return s.setTensor(size)
	case rpcwire.SetTensor2D:
		return s.setTensor2D(size)
	case rpcwire.GraphCompute:
		return s.graphCompute(size)
	}
	var room [4 + 11*rpcwire.TensorSize]byte
	body := room[:size]
	if err := s.read(body); err != nil {
		return err
	}
	answer, known := answers[command]
	if !known {
		return errors.New("clients may not use this command")
	}
	return answer(s, body)
}

var answers = map[rpcwire.Command]func(s *session, body []byte) error{
	rpcwire.AllocBuffer:     (*session).allocBuffer,
	rpcwire.GetAlignment:    (*session).getAlignment,
	rpcwire.GetMaxSize:      (*session).getMaxSize,
	rpcwire.BufferGetBase:   (*session).bufferGetBase,
	rpcwire.FreeBuffer:      (*session).freeBuffer,
	rpcwire.BufferClear:     (*session).bufferClear,
	rpcwire.SetTensorHash:   (*session).setTensorHash,
	rpcwire.GetTensor:       (*session).getTensor,
	rpcwire.CopyTensor:      (*session).copyTensor,
	rpcwire.GetDeviceMemory: (*session).getDeviceMemory,
	rpcwire.InitTensor:      (*session).initTensor,
	rpcwire.GetAllocSize:    (*session).getAllocSize,
	rpcwire.DeviceCount: func(s *session, _ []byte) error {
		return s.reply(binary.LittleEndian.AppendUint32(nil, uint32(len(s.server.devices))))
	},
	rpcwire.GraphRecompute: (*session).graphRecompute,
	rpcwire.MemsetTensor:   (*session).memsetTensor,
	rpcwire.GetTensor2D:    (*session).getTensor2D,
	// Servers are not connected with each other: the client then sums itself.
	rpcwire.CommInit: func(s *session, _ []byte) error { return s.reply([]byte{0}) },
	rpcwire.CommFree: func(*session, []byte) error { return nil },
}

// device reads the number of a device.
func (s *session) device(body []byte) (*lentDevice, error) {
	i := binary.LittleEndian.Uint32(body)
	if int64(i) >= int64(len(s.server.devices)) {
		return nil, fmt.Errorf("there is no device %d", i)
	}
	return s.server.devices[i], nil
}

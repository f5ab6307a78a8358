package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/testhook"
)

// An rpcSession is a server's state for one client: its buffers, graphs, and backends. One goroutine serves it.
type rpcSession struct {
	server *rpcServer
	conn   net.Conn
	r      *bufio.Reader
	ctx    context.Context // of computations

	backends []*Backend // by device; nil before the first graph
	buffers  map[uint64]*rpcBuffer
	last     uint64                 // number of a buffer
	graphs   []map[uint64]*rpcGraph // by device and the client's number
	kept     int64                  // bytes of them
	current  *rpcGraph              // that is computed
	clock    int64                  // counts computations
	staging  []byte                 // for data between the client and memory of a device; nil before the first
	work     []int64                // bytes that backends have to compute in, by device
	objects  int64                  // bytes that are reserved for all that is no data of a tensor

	mu        sync.Mutex
	idleSince time.Time // zero while it is served
	computing bool
	unread    bool  // the client has read nothing since its last computation began
	ended     error // why no more is read, nil while there is
	finishing bool  // but for the result of the last computation

	stats rpcStats
}

// rpcStats are the log's figures of a client.
type rpcStats struct {
	received, sent int64
	graphs         int
	computing      time.Duration
}

// An rpcBuffer is a client's buffer. The client knows it by addresses that are not of this process.
type rpcBuffer struct {
	device int
	b      *Buffer
	size   int64
	base   uint64         // for the client
	memory unsafe.Pointer // of the device, or of the host
	isHost bool
	kind   *BufferType
}

func (b *rpcBuffer) at(offset int64) unsafe.Pointer { return unsafe.Add(b.memory, offset) }

// holds demands that a tensor which is no view lies within the buffer, with what the device pads it by.
func (b *rpcBuffer) holds(t *C.struct_ggml_tensor, offset int64) error {
	if alignment := b.kind.Alignment(); offset%alignment != 0 {
		return fmt.Errorf("it lies at %d, no multiple of %d", offset, alignment)
	}
	need := int64(C.ggml_nbytes(t))
	if !b.isHost {
		r := C.goggml_buft_alloc_size(b.kind.b, &t, 1)
		if err := guardError(r.error); err != nil {
			return err
		}
		need = int64(r.value)
	}
	if need > b.size-offset {
		return fmt.Errorf("%d bytes at %d reach beyond its buffer, which has %d", need, offset, b.size)
	}
	return nil
}

// Times for a client.
const (
	rpcHandshakeTimeout = 10 * time.Second
	rpcStallTimeout     = time.Minute     // for the next part of a message
	rpcFinishTimeout    = 5 * time.Second // to ask for the result of the last computation
)

// rpcPiece is how many bytes are read or written at a time.
const rpcPiece = 4 << 20

// errRPCEnd ends a session that the client has ended.
var errRPCEnd = errors.New("the client has left")

// allow sets the time until which the client has to send, or to take, more; zero for any. It fails when the session is
// to end.
func (s *rpcSession) allow(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil && !s.finishing {
		return s.ended
	}
	if s.finishing && d == 0 {
		d = rpcFinishTimeout
	}
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	return s.conn.SetDeadline(until)
}

// end ends the session where it waits for the client. A computation continues until it is done, and the client can
// still read the result, even if the computation has just ended.
func (s *rpcSession) end(why error) {
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
		s.conn.SetDeadline(time.Now().Add(rpcFinishTimeout))
	}
}

// finished says that the client has read the last result, or wants to compute more: the result is no longer
// kept.
func (s *rpcSession) finished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread, s.finishing = false, false
}

// computes notes that a computation begins, until stop.
func (s *rpcSession) computes() (stop func()) {
	set := func(yes bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.computing = yes
		s.unread = s.unread || yes
	}
	set(true)
	return func() { set(false) }
}

// idle is how long the session has waited for a request.
func (s *rpcSession) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleSince.IsZero() {
		return 0
	}
	return time.Since(s.idleSince)
}

func (s *rpcSession) setIdle(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleSince = (time.Time{}); idle {
		s.idleSince = time.Now()
	}
}

// read fills p from the client.
func (s *rpcSession) read(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), rpcPiece)]
		if err := s.allow(rpcStallTimeout); err != nil {
			return err
		}
		n, err := io.ReadFull(s.r, piece)
		s.stats.received += int64(n)
		if err != nil {
			return fmt.Errorf("a message ends early: %w", err)
		}
		p = p[len(piece):]
	}
	return nil
}

// write sends p to the client.
func (s *rpcSession) write(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), rpcPiece)]
		if err := s.allow(rpcStallTimeout); err != nil {
			return err
		}
		n, err := s.conn.Write(piece)
		s.stats.sent += int64(n)
		if err != nil {
			return err
		}
		p = p[len(piece):]
	}
	return nil
}

// reply sends a reply.
func (s *rpcSession) reply(body []byte) error {
	return s.write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(body))), body...))
}

func (s *rpcSession) replyNumbers(numbers ...uint64) error {
	var body []byte
	for _, n := range numbers {
		body = binary.LittleEndian.AppendUint64(body, n)
	}
	return s.reply(body)
}

// greet does the handshake, and waits for the first request.
func (s *rpcSession) greet() error {
	if err := s.allow(rpcHandshakeTimeout); err != nil {
		return err
	}
	var request [rpcwire.HeaderSize + rpcwire.CapabilitiesSize]byte
	if n, err := io.ReadFull(s.r, request[:]); n == 0 && err == io.EOF {
		return errRPCEnd
	} else if err != nil {
		return fmt.Errorf("there is no handshake: %w", err)
	}
	if rpcwire.Command(request[0]) != rpcwire.Hello || binary.LittleEndian.Uint64(request[1:]) != rpcwire.CapabilitiesSize {
		return fmt.Errorf("it does not begin with the handshake of protocol %d", rpcwire.Major)
	}
	var body [rpcwire.HandshakeReplySize - 8]byte // no transport other than TCP
	body[0], body[1], body[2] = rpcwire.Major, rpcwire.Minor, C.RPC_PROTO_PATCH_VERSION
	if err := s.reply(body[:]); err != nil {
		return err
	}
	if err := s.allow(rpcHandshakeTimeout); err != nil {
		return err
	}
	if _, err := s.r.Peek(1); err != nil {
		return errRPCEnd
	}
	return nil
}

// rpcBufferBytes is the memory of a buffer beside its data, in the C library and in Go, whose garbage takes as much
// again.
const rpcBufferBytes = 2 << 10

// charge reserves memory of the host for objects of the session; graphs that were not used for longest make room.
func (s *rpcSession) charge(n int64) error {
	for !s.server.take(s, s.server.host, 0, n) {
		if !s.dropOldest(s.current) {
			return fmt.Errorf("it takes %d KiB beside the data of tensors, and the server has %d KiB of memory left for its clients", n>>10, s.server.host.pool.Free()>>10)
		}
	}
	s.objects += n
	return nil
}

// uncharge drops objects.
func (s *rpcSession) uncharge(n int64) {
	s.objects -= n
	s.server.host.pool.Drop(0, n)
}

// serve answers requests until the client leaves, which is no error, or a request is refused.
func (s *rpcSession) serve() error {
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
		case hungUp(s.conn): // and has left requests that nobody waits for
			return nil
		}
		command, size := rpcwire.Command(header[0]), binary.LittleEndian.Uint64(header[1:])
		if err := command.CheckSize(size, maxRPCBuffer); err != nil {
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

// hasEnded is why the session is to end, nil if it is not.
func (s *rpcSession) hasEnded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// request reads and answers one request.
func (s *rpcSession) request(command rpcwire.Command, size int) error {
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
	answer, known := rpcAnswers[command]
	if !known {
		return errors.New("a client cannot have this")
	}
	return answer(s, body)
}

var rpcAnswers = map[rpcwire.Command]func(s *rpcSession, body []byte) error{
	rpcwire.AllocBuffer:     (*rpcSession).allocBuffer,
	rpcwire.GetAlignment:    (*rpcSession).getAlignment,
	rpcwire.GetMaxSize:      (*rpcSession).getMaxSize,
	rpcwire.BufferGetBase:   (*rpcSession).bufferGetBase,
	rpcwire.FreeBuffer:      (*rpcSession).freeBuffer,
	rpcwire.BufferClear:     (*rpcSession).bufferClear,
	rpcwire.SetTensorHash:   (*rpcSession).setTensorHash,
	rpcwire.GetTensor:       (*rpcSession).getTensor,
	rpcwire.CopyTensor:      (*rpcSession).copyTensor,
	rpcwire.GetDeviceMemory: (*rpcSession).getDeviceMemory,
	rpcwire.InitTensor:      (*rpcSession).initTensor,
	rpcwire.GetAllocSize:    (*rpcSession).getAllocSize,
	rpcwire.DeviceCount: func(s *rpcSession, _ []byte) error {
		return s.reply(binary.LittleEndian.AppendUint32(nil, uint32(len(s.server.devices))))
	},
	rpcwire.GraphRecompute: (*rpcSession).graphRecompute,
	rpcwire.MemsetTensor:   (*rpcSession).memsetTensor,
	rpcwire.GetTensor2D:    (*rpcSession).getTensor2D,
	// No client connects this server with others: it sums up itself then.
	rpcwire.CommInit: func(s *rpcSession, _ []byte) error { return s.reply([]byte{0}) },
	rpcwire.CommFree: func(*rpcSession, []byte) error { return nil },
}

// device reads the number of a device.
func (s *rpcSession) device(body []byte) (*rpcDevice, error) {
	i := binary.LittleEndian.Uint32(body)
	if int64(i) >= int64(len(s.server.devices)) {
		return nil, fmt.Errorf("there is no device %d", i)
	}
	return s.server.devices[i], nil
}

func (s *rpcSession) buffer(body []byte) (*rpcBuffer, error) {
	number := binary.LittleEndian.Uint64(body)
	b := s.buffers[number]
	if b == nil {
		return nil, fmt.Errorf("the client has no buffer %d", number)
	}
	return b, nil
}

// allocBuffer answers 0 where there is no memory.
func (s *rpcSession) allocBuffer(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(body[4:])
	if size > maxRPCBuffer || s.last >= maxRPCBuffers || !s.server.take(s, d, int64(size), 0) {
		return s.replyNumbers(0, 0)
	}
	if s.charge(rpcBufferBytes) != nil {
		d.pool.Give(int64(size))
		return s.replyNumbers(0, 0)
	}
	kind := d.BufferType()
	b, err := newRPCBuffer(kind, int64(size))
	if err != nil {
		s.uncharge(rpcBufferBytes)
		d.pool.Give(int64(size))
		logger().Info("ggml: RPC server: no memory for a client", "client", s.conn.RemoteAddr().String(), "error", err)
		return s.replyNumbers(0, 0)
	}
	s.last++
	buf := &rpcBuffer{
		device: d.index, b: b, size: int64(size), base: s.last * maxRPCBuffer, kind: kind,
		memory: C.ggml_backend_buffer_get_base(b.b), isHost: b.IsHost(),
	}
	s.buffers[s.last] = buf
	if err := buf.empty(); err != nil {
		return err
	}
	return s.replyNumbers(s.last, size)
}

func newRPCBuffer(kind *BufferType, size int64) (*Buffer, error) {
	if testhook.RPCMemory == nil || !kind.IsHost() || size == 0 {
		return kind.NewBuffer(size)
	}
	memory, free, err := testhook.RPCMemory(size)
	if err != nil {
		return nil, err
	}
	r := C.goggml_cpu_buffer_from_ptr(unsafe.Pointer(&memory[0]), C.size_t(size))
	if r.value == nil {
		free()
		return nil, guardError(r.error)
	}
	return newBuffer(C.ggml_backend_buffer_t(r.value), free)
}

// empty clears what the client is not to see: memory that others have given back.
func (b *rpcBuffer) empty() error {
	if b.isHost && discard(unsafe.Slice((*byte)(b.memory), b.size)) {
		return nil
	}
	return b.b.Clear(0)
}

// maxRPCBuffers is how many buffers a client allocates in all: each has addresses of its own.
const maxRPCBuffers = 1 << 23

func (s *rpcSession) getAlignment(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	return s.replyNumbers(uint64(d.BufferType().Alignment()))
}

func (s *rpcSession) getMaxSize(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	return s.replyNumbers(uint64(min(d.BufferType().MaxSize(), maxRPCBuffer)))
}

func (s *rpcSession) getDeviceMemory(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	free, total := d.memory()
	return s.replyNumbers(uint64(free), uint64(total))
}

func (s *rpcSession) bufferGetBase(body []byte) error {
	b, err := s.buffer(body)
	if err != nil {
		return err
	}
	return s.replyNumbers(b.base)
}

func (s *rpcSession) freeBuffer(body []byte) error {
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
	s.uncharge(rpcBufferBytes)
	return nil
}

// release frees a buffer. The C library may keep small ones of the host until they are collected.
func (s *rpcSession) release(b *rpcBuffer) {
	pool, kept := s.server.devices[b.device].pool, b.isHost && !discard(unsafe.Slice((*byte)(b.memory), b.size))
	b.b.Close()
	if kept {
		pool.Drop(b.size, 0)
	} else {
		pool.Give(b.size)
	}
}

func (s *rpcSession) bufferClear(body []byte) error {
	b, err := s.buffer(body)
	if err != nil {
		return err
	}
	return b.b.Clear(body[8])
}

// find gives the buffer of a tensor, and where in it the tensor begins. The tensor may reach beyond it.
func (s *rpcSession) find(t *rpcwire.Tensor) (*rpcBuffer, int64, error) {
	b := s.buffers[t.Buffer]
	if b == nil {
		return nil, 0, fmt.Errorf("the client has no buffer %d", t.Buffer)
	}
	if t.Data < b.base || t.Data-b.base > uint64(b.size) {
		return nil, 0, errors.New("it lies outside of its buffer")
	}
	return b, int64(t.Data - b.base), nil
}

// An rpcRegion is a tensor in a buffer, and part of it.
type rpcRegion struct {
	buffer *rpcBuffer
	layout rpcLayout
	start  int64 // of the tensor in the buffer
	offset int64 // of the part in the tensor
}

// region finds a part of a tensor that begins at an offset. The bytes from there to the tensor's end are room.
func (s *rpcSession) region(t *rpcwire.Tensor, offset uint64) (r rpcRegion, room int64, err error) {
	if r.layout, err = layoutOf(t); err != nil {
		return r, 0, err
	}
	if r.buffer, r.start, err = s.find(t); err != nil {
		return r, 0, err
	}
	switch {
	case r.layout.bytes > r.buffer.size-r.start:
		return r, 0, errors.New("the tensor reaches beyond its buffer")
	case offset > uint64(r.layout.bytes):
		return r, 0, fmt.Errorf("offset %d lies beyond the tensor, which has %d bytes", offset, r.layout.bytes)
	}
	r.offset = int64(offset)
	return r, r.layout.bytes - r.offset, nil
}

// host is n bytes of the part, from at on, in the memory of this process.
func (r *rpcRegion) host(at, n int64) []byte {
	return unsafe.Slice((*byte)(r.buffer.at(r.start+r.offset+at)), n)
}

// tensor makes the tensor for a copy to or from a device.
func (r *rpcRegion) tensor() *C.struct_ggml_tensor {
	t := &C.struct_ggml_tensor{buffer: r.buffer.b.b, data: r.buffer.at(r.start)}
	r.layout.set(t)
	return t
}

// toDevice copies data into the part, from at on.
func (r *rpcRegion) toDevice(data []byte, at int64) error {
	return guardError(C.goggml_tensor_set(r.tensor(), unsafe.Pointer(&data[0]), C.size_t(r.offset+at), C.size_t(len(data))))
}

// fill sets the first n bytes of the part.
func (r *rpcRegion) fill(value byte, n int64) error {
	if n == 0 {
		return nil
	}
	return guardError(C.goggml_tensor_memset(r.tensor(), C.uint8_t(value), C.size_t(r.offset), C.size_t(n)))
}

// stage returns room for n bytes, at most rpcPiece, between the client and the memory of a device.
func (s *rpcSession) stage(n int64) ([]byte, error) {
	if s.staging == nil {
		if err := s.charge(rpcPiece); err != nil {
			return nil, err
		}
		s.staging = make([]byte, rpcPiece)
	}
	return s.staging[:n], nil
}

// receive fills n bytes of the part, from at on, by read; each piece goes through seen, if it is not nil.
func (s *rpcSession) receive(r *rpcRegion, at, n int64, read, seen func([]byte) error) error {
	for n > 0 {
		piece := min(n, rpcPiece)
		room, err := []byte(nil), error(nil)
		if r.buffer.isHost {
			room = r.host(at, piece)
			faultIn(room)
		} else if room, err = s.stage(piece); err != nil {
			return err
		}
		if err := read(room); err != nil {
			return err
		}
		if !r.buffer.isHost {
			if err := r.toDevice(room, at); err != nil {
				return err
			}
		}
		if seen != nil {
			if err := seen(room); err != nil {
				return err
			}
		}
		at, n = at+piece, n-piece
	}
	return nil
}

// send writes n bytes of the part, from at on.
func (s *rpcSession) send(r *rpcRegion, at, n int64) error {
	for n > 0 {
		piece := min(n, rpcPiece)
		room, err := []byte(nil), error(nil)
		if r.buffer.isHost {
			room = r.host(at, piece)
		} else {
			if room, err = s.stage(piece); err != nil {
				return err
			}
			if err := guardError(C.goggml_tensor_get(r.tensor(), unsafe.Pointer(&room[0]), C.size_t(r.offset+at), C.size_t(piece))); err != nil {
				return err
			}
		}
		if err := s.write(room); err != nil {
			return err
		}
		at, n = at+piece, n-piece
	}
	return nil
}

// regionAt is the part of a tensor that a message begins with: the tensor, and an offset in it.
func (s *rpcSession) regionAt(message []byte) (r rpcRegion, room int64, err error) {
	var t rpcwire.Tensor
	t.Decode(message)
	return s.region(&t, binary.LittleEndian.Uint64(message[rpcwire.TensorSize:]))
}

func (s *rpcSession) setTensor(size int) error {
	var head [rpcwire.SetTensorSize]byte
	if err := s.read(head[:]); err != nil {
		return err
	}
	var t rpcwire.Tensor
	t.Decode(head[:])
	r, room, err := s.region(&t, binary.LittleEndian.Uint64(head[rpcwire.TensorSize+1:]))
	n := int64(size - len(head))
	if err != nil {
		return err
	}
	if n > room {
		return fmt.Errorf("%d bytes for %d", n, room)
	}
	if s.server.cache == nil || n <= rpcHashThreshold {
		return s.receive(&r, 0, n, s.read, nil)
	}
	entry := s.server.cache.begin(n)
	defer entry.abandon()
	if err := s.receive(&r, 0, n, s.read, entry.write); err != nil {
		return err
	}
	entry.keep()
	return nil
}

// setTensorHash answers 1 where the cache has the data.
func (s *rpcSession) setTensorHash(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	if s.server.cache == nil {
		return s.reply([]byte{0})
	}
	found, err := s.loadCached(binary.LittleEndian.Uint64(body[rpcwire.TensorSize+8:]), &r, room)
	if err != nil {
		return err
	}
	if found {
		return s.reply([]byte{1})
	}
	return s.reply([]byte{0})
}

// rpcRows is a rectangle of bytes in a part of a tensor.
type rpcRows struct{ width, rows, stride int64 }

// rows reads one, which lies in room bytes, and does not overlap itself.
func (s *rpcSession) rows(p []byte, room int64) (r rpcRows, err error) {
	width, rows, stride := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:])
	if width == 0 || rows == 0 || rows > 1 && stride < width {
		return r, fmt.Errorf("%d rows of %d bytes at a distance of %d", rows, width, stride)
	}
	over, extent := bits.Mul64(rows-1, stride)
	if over != 0 || width > uint64(room) || extent > uint64(room)-width {
		return r, fmt.Errorf("%d rows of %d bytes at a distance of %d are more than the %d bytes there are", rows, width, stride, room)
	}
	return rpcRows{int64(width), int64(rows), int64(stride)}, nil
}

func (s *rpcSession) setTensor2D(size int) error {
	var head [rpcwire.SetTensor2DSize]byte
	if err := s.read(head[:]); err != nil {
		return err
	}
	r, room, err := s.regionAt(head[:])
	if err != nil {
		return err
	}
	rows, err := s.rows(head[rpcwire.TensorSize+8:], room)
	if err != nil {
		return err
	}
	if n := int64(size - len(head)); n != rows.width*rows.rows {
		return fmt.Errorf("%d bytes for %d rows of %d", n, rows.rows, rows.width)
	}
	for i := range rows.rows {
		if err := s.receive(&r, i*rows.stride, rows.width, s.read, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *rpcSession) getTensor(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(body[rpcwire.TensorSize+8:])
	if n > uint64(room) {
		return fmt.Errorf("%d bytes of %d", n, room)
	}
	if err := s.write(binary.LittleEndian.AppendUint64(nil, n)); err != nil {
		return err
	}
	return s.send(&r, 0, int64(n))
}

func (s *rpcSession) getTensor2D(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	rows, err := s.rows(body[rpcwire.TensorSize+8:], room)
	if err != nil {
		return err
	}
	if err := s.write(binary.LittleEndian.AppendUint64(nil, uint64(rows.width*rows.rows))); err != nil {
		return err
	}
	for i := range rows.rows {
		if err := s.send(&r, i*rows.stride, rows.width); err != nil {
			return err
		}
	}
	return nil
}

func (s *rpcSession) memsetTensor(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	n, value := binary.LittleEndian.Uint64(body[rpcwire.TensorSize+8:]), body[rpcwire.TensorSize+16]
	if n > uint64(room) {
		return fmt.Errorf("%d bytes of %d", n, room)
	}
	return r.fill(value, int64(n))
}

// copyTensor copies between tensors of one layout.
func (s *rpcSession) copyTensor(body []byte) error {
	var from, to rpcwire.Tensor
	from.Decode(body)
	to.Decode(body[rpcwire.TensorSize:])
	src, n, err := s.region(&from, 0)
	if err != nil {
		return err
	}
	dst, _, err := s.region(&to, 0)
	if err != nil {
		return err
	}
	if src.layout != dst.layout {
		return errors.New("the tensors have two layouts")
	}
	switch {
	case n == 0:
	case src.buffer.isHost && dst.buffer.isHost:
		copy(dst.host(0, n), src.host(0, n))
	default:
		if err := guardError(C.goggml_tensor_copy(src.tensor(), dst.tensor())); err != nil {
			return err
		}
	}
	return s.reply([]byte{1})
}

// initTensor has a device prepare the memory of a tensor.
func (s *rpcSession) initTensor(body []byte) error {
	var t rpcwire.Tensor
	t.Decode(body)
	r, _, err := s.region(&t, 0)
	if err != nil || r.buffer.isHost || r.layout.bytes == 0 {
		return err
	}
	p := &C.struct_ggml_tensor{}
	r.layout.set(p)
	if err := r.buffer.holds(p, r.start); err != nil {
		return err
	}
	if e := C.goggml_tensor_alloc(r.buffer.b.b, p, r.buffer.at(r.start)); e.error != nil || e.value != C.GGML_STATUS_SUCCESS || p.extra != nil {
		return fmt.Errorf("the device does not take it: %w", errors.Join(guardError(e.error), Status(e.value)))
	}
	return nil
}

// getAllocSize answers what a tensor takes of a device, which for some ops depends on the operands.
func (s *rpcSession) getAllocSize(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	m := &rpcwire.Graph{Device: uint32(d.index), Tensors: make([]rpcwire.Tensor, 1, 11)}
	m.Tensors[0].Decode(body[4:])
	for i := range 10 {
		var t rpcwire.Tensor
		t.Decode(body[4+(1+i)*rpcwire.TensorSize:])
		again := slices.ContainsFunc(m.Tensors, func(u rpcwire.Tensor) bool { return u.ID == t.ID })
		if t.ID != 0 && !again {
			m.Tensors = append(m.Tensors, t)
		}
	}
	size, err := s.allocSize(d, m)
	if err != nil {
		return err
	}
	return s.replyNumbers(uint64(size))
}

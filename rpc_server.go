package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/goggml/ggml/internal/rpcmemory"
)

// What makes the server safe. An op of a client is built anew by the method of Context that builds such an op, and computed only
// if its type, shape, strides, parameters and operands are what the client says. So the checks of the ops are the checks
// of the server; an op that is decoded wrongly is refused, and an op without a decoder cannot be had. Besides:
//
//   - A client knows its buffers by numbers and addresses that the server makes up. A tensor lies within a buffer of its
//     client, a view within its source.
//   - Operands precede their readers, so a graph ends; its nodes are numbered, so its size is bounded.
//   - A result may overlap an operand only where ggml's allocator allows it: ops that sort or look up would
//     otherwise change what decides where they write.
//   - Row numbers are values, and are read before use. A graph is computed in stages: a new one begins before a look-up
//     whose row numbers an op of the present stage may have written, unless that op (argsort, top_k, argmax) stays below
//     the number of rows.
//   - Memory is charged to a pool (internal/rpcmemory) before it is allocated: data to the pool of its device, the rest to
//     the pool of the host. Dropped objects are collected at 8 MiB. A graph has one context for all stages; freeing a
//     buffer drops the graphs in it; building ends when the client has gone.
//
// A goroutine serves each client, with buffers, graphs and backends of its own. internal/fuzz/rpc sends changed messages.

// RPCServerOptions are the settings of [ServeRPC]; the zero value is usual.
type RPCServerOptions struct {
	Threads int // of CPU devices; 0 stands for DefaultThreads
	Clients int // at once, others wait; 0 stands for 16. Each takes about 100 KiB beside Memory

	// Memory is how many bytes of each device clients can have together; 0 for all. Graphs, messages and all else that the
	// server keeps for clients count beyond 16 MiB, as memory of the CPU.
	Memory int64

	// CacheDir is a folder, made if it is absent, where data of more than 10 MiB is kept, by its hash, for the next client
	// that has the same, which does not send it then; "" for none. The hash is ggml's, of 64 bits and no secret: clients that share a cache
	// trust each other. CacheSize is the most bytes that it takes, of which what was not used for longest goes; 0 for any
	// number.
	CacheDir  string
	CacheSize int64

	// Idle is how long a client may say nothing while another one waits, or needs memory that is not there; 0 stands for
	// ten minutes.
	Idle time.Duration
	// Grace is how long computations go on when the server stops; 0 stands for a minute.
	Grace time.Duration

	// AnyAddress allows an address other than a loopback one. The protocol has
	// no encryption and knows no users: whoever reaches the server computes on its devices.
	// Use it in a private network only.
	AnyAddress bool
}

// ServeRPC lets other programs compute on devices of this one, by
// [AddRPCServer] or llama.cpp's --rpc, until the context ends, whose cause it returns then. The
// endpoint is an IPv4 address and a port, "127.0.0.1:50052" for example; without
// devices it offers the CPU. Clients compute at the same time, each with buffers, graphs and backends of its own.
//
// The server is this package's own. It builds each op of a client anew by the method of [Context] that builds such an op,
// and computes it if the result is what the client says, in the client's memory; row numbers are checked before use. So
// it refuses of clients what the binding refuses of its callers: custom ops, whose parameters are addresses, and a few
// layouts that a GPU would take but the CPU does not. A client that sends what is refused is disconnected, with the
// reason in the log ([SetLogger]), which has a line for every client. A client cannot connect servers with each other for
// sums of tensors, as ggml's server can (llama.cpp's --split-mode tensor then sums in the client).
//
// When it stops, it takes no more requests, waits for the computations in flight, and frees the memory of all clients,
// which find it gone.
// C: ggml_backend_rpc_start_server.
func ServeRPC(ctx context.Context, endpoint string, o RPCServerOptions, devices ...*Device) error {
	address, err := netip.ParseAddrPort(endpoint)
	if err != nil || !address.Addr().Is4() || address.Port() == 0 {
		return fmt.Errorf("ggml: RPC server at %q: it takes an IPv4 address and a port, like 127.0.0.1:50052", endpoint)
	}
	if slices.ContainsFunc(devices, func(d *Device) bool { return d != nil && d.isZero() }) {
		return zeroError()
	}
	return fmt.Errorf("ggml: RPC server at %s: %w", address, serveRPC(ctx, address, o, devices))
}

func serveRPC(ctx context.Context, address netip.AddrPort, o RPCServerOptions, devices []*Device) error {
	if !address.Addr().IsLoopback() && !o.AnyAddress {
		return errors.New("every program that reaches this address could use the server; set AnyAddress if that is meant, or use 127.0.0.1")
	}
	s, err := newRPCServer(o, devices)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", address.String())
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

// An rpcServer serves clients of the devices.
type rpcServer struct {
	options RPCServerOptions
	devices []*rpcDevice
	host    *rpcDevice // whose memory objects take: the first of the devices in host memory, or a CPU beside them
	threads int
	cache   *rpcCache // nil for none

	mu       sync.Mutex
	sessions map[*rpcSession]bool // that are served
	left     *sync.Cond           // a session has ended
	stopped  bool
	waiting  int // clients without a session
}

// An rpcDevice is a device with what clients have of it.
type rpcDevice struct {
	*Device
	index int
	pool  *rpcmemory.Pool
}

func newRPCDevice(d *Device, index int, limit int64) *rpcDevice {
	if limit == 0 {
		limit = d.Properties().MemoryTotal
	}
	return &rpcDevice{d, index, rpcmemory.New(limit, collectRPC)}
}

// collectRPC gives memory of objects that are dropped back to the system.
func collectRPC() {
	debug.FreeOSMemory()
	C.goggml_trim()
}

// take reserves memory for a client, unless there is not as much.
func (d *rpcDevice) take(data, objects int64) bool {
	if data > 0 {
		if p := d.Properties(); p.MemoryTotal > 0 && data > p.MemoryFree {
			return false
		}
	}
	return d.pool.Take(data, objects)
}

// memory returns the memory that a client can have, and all memory.
func (d *rpcDevice) memory() (free, total int64) {
	p := d.Properties()
	return min(p.MemoryFree, d.pool.Free()), min(p.MemoryTotal, d.pool.Limit())
}

func newRPCServer(o RPCServerOptions, devices []*Device) (*rpcServer, error) {
	if len(devices) == 0 {
		cpu, err := DeviceByType(CPU)
		if err != nil {
			return nil, err
		}
		devices = []*Device{cpu}
	}
	switch {
	case o.Memory < 0:
		return nil, fmt.Errorf("clients cannot have %d bytes of memory; 0 is all", o.Memory)
	case o.CacheSize < 0:
		return nil, fmt.Errorf("a cache cannot have %d bytes; 0 is any number", o.CacheSize)
	case o.Clients < 0 || o.Idle < 0 || o.Grace < 0:
		return nil, errors.New("the number of clients and the times cannot be negative; 0 is the usual")
	case o.Threads < 0 || o.Threads > C.GGML_MAX_N_THREADS:
		return nil, fmt.Errorf("%d threads: a device takes 1 to %d", o.Threads, C.GGML_MAX_N_THREADS)
	}
	s := &rpcServer{options: o, threads: o.Threads, sessions: map[*rpcSession]bool{}}
	s.left = sync.NewCond(&s.mu)
	if s.threads == 0 {
		s.threads = DefaultThreads()
	}
	if s.options.Clients == 0 {
		s.options.Clients = 16
	}
	if s.options.Idle == 0 {
		s.options.Idle = 10 * time.Minute
	}
	if s.options.Grace == 0 {
		s.options.Grace = time.Minute
	}
	for i, d := range devices {
		if d == nil {
			return nil, errors.New("a device is nil")
		}
		if d.Type() == Accelerator {
			return nil, fmt.Errorf("%s works beside the CPU, and computes few ops; clients need a device that computes all", d.Name())
		}
		s.devices = append(s.devices, newRPCDevice(d, i, o.Memory))
		if s.host == nil && d.BufferType().IsHost() {
			s.host = s.devices[i]
		}
	}
	if s.host == nil {
		cpu, err := DeviceByType(CPU)
		if err != nil {
			return nil, err
		}
		s.host = newRPCDevice(cpu, -1, o.Memory)
	}
	if o.CacheDir != "" {
		var err error
		if s.cache, err = newRPCCache(o.CacheDir, o.CacheSize); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// errRPCStop ends sessions when the server stops.
var errRPCStop = errors.New("the server stops")

// serve serves until the context ends, and closes the listener.
func (s *rpcServer) serve(ctx context.Context, listener net.Listener) error {
	computing, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(errRPCStop)
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	defer listener.Close()
	var clients sync.WaitGroup
	for {
		conn, err := accept(ctx, listener)
		if err != nil {
			break
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			s.client(computing, conn)
		}()
	}
	s.stop()
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(s.options.Grace):
		logger().Warn("ggml: RPC server: a computation takes longer than the grace, and is given up")
		abort(errRPCStop)
		select {
		case <-done:
		case <-time.After(5 * time.Second): // a single op that takes long, or a GPU, which finishes its work
		}
	}
	return context.Cause(ctx)
}

// accept waits for a connection until the context ends. Where the system has none to give, as for want of files, it
// tries again, later each time.
func accept(ctx context.Context, listener net.Listener) (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil, context.Cause(ctx)
		}
		if err == nil {
			return conn, nil
		}
		logger().Warn("ggml: RPC server: it can take no client, and tries again", "error", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// maxRPCWaiting bounds connections that have no session.
const maxRPCWaiting = 64

// client serves one connection.
func (s *rpcServer) client(computing context.Context, conn net.Conn) {
	defer conn.Close()
	if !s.enter() {
		logger().Warn("ggml: RPC server: a client is disconnected", "client", conn.RemoteAddr().String(), "error", "too many clients wait")
		return
	}
	session := &rpcSession{
		server: s, conn: conn, r: bufio.NewReaderSize(conn, 64<<10), ctx: computing,
		backends: make([]*Backend, len(s.devices)), work: make([]int64, len(s.devices)), buffers: map[uint64]*rpcBuffer{},
	}
	for range s.devices {
		session.graphs = append(session.graphs, map[uint64]*rpcGraph{})
	}
	log := logger().With("client", conn.RemoteAddr().String())
	err := s.admit(session)
	if err == nil {
		begin := time.Now()
		log.Info("ggml: RPC server: a client is served")
		err = session.serve()
		session.close()
		s.leave(session)
		log = log.With("seconds", time.Since(begin).Round(time.Millisecond).Seconds(), "received", session.stats.received, "sent", session.stats.sent,
			"graphs", session.stats.graphs, "computing", session.stats.computing.Round(time.Millisecond).Seconds())
		if endsRPC(err) {
			log.Info("ggml: RPC server: a client has left")
		}
	}
	if !endsRPC(err) {
		log.Warn("ggml: RPC server: a client is disconnected", "error", err)
	}
}

// enter counts a connection as one that waits, unless too many do.
func (s *rpcServer) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= maxRPCWaiting {
		return false
	}
	s.waiting++
	return true
}

// admit does the handshake, and waits for a request, which one that only looks whether the server lives does not have,
// and until there is room for the session. The connection has entered.
func (s *rpcServer) admit(session *rpcSession) error {
	err := session.greet()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.waiting-- }()
	for err == nil && len(s.sessions) >= s.options.Clients && !s.stopped {
		s.evict("waits")
		err = s.awaitLeft(session)
	}
	if err == nil && s.stopped {
		err = errRPCStop
	}
	if err == nil {
		s.sessions[session] = true
	}
	return err
}

// awaitLeft waits for a while, until a session has ended; it fails when the client of another one, which waits, has gone.
func (s *rpcServer) awaitLeft(session *rpcSession) error {
	timer := time.AfterFunc(200*time.Millisecond, s.left.Broadcast)
	defer timer.Stop()
	s.left.Wait()
	if hungUp(session.conn) {
		return errRPCEnd
	}
	return nil
}

// take reserves memory of a device for a session. Where there is not as much, sessions end that have been idle for too
// long.
func (s *rpcServer) take(session *rpcSession, d *rpcDevice, data, objects int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !d.take(data, objects) {
		if most := d.pool.Limit(); data > most || objects > most+rpcmemory.Reserve {
			return false
		}
		idlest := s.evict("needs memory")
		if idlest == nil {
			return false
		}
		for s.sessions[idlest] {
			if s.awaitLeft(session) != nil {
				return false
			}
		}
	}
	return true
}

// evict ends the session that has been idle for longest, if that is too long; nil if there is none.
func (s *rpcServer) evict(another string) *rpcSession {
	var idlest *rpcSession
	longest := s.options.Idle
	for session := range s.sessions {
		if idle := session.idle(); idle > longest {
			idlest, longest = session, idle
		}
	}
	if idlest != nil {
		idlest.end(fmt.Errorf("it has said nothing for %v, and another client %s", longest.Round(time.Second), another))
	}
	return idlest
}

func (s *rpcServer) leave(session *rpcSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
	s.left.Broadcast()
}

// stop has all sessions end when they are not computing.
func (s *rpcServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for session := range s.sessions {
		session.end(errRPCStop)
	}
	s.left.Broadcast()
}

package rpc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goggml/ggml"
)

// Options are the settings of [Serve]; the zero value suits most uses.
type Options struct {
	Threads int // of CPU devices; 0 means ggml.DefaultThreads
	Clients int // maximum at once, others wait; 0 means 16. Each takes about 100 KiB beside Memory

	// Memory is the number of bytes of each device that all clients together can use; 0 means all.
	// Graphs, messages and other server objects of clients count as CPU memory, except the first 16
	// MiB.
	Memory int64

	// CacheDir is a folder, made if absent, for data of more than 10 MiB, named by its hash; ""
	// means no cache. A client with the same data need not send it. The hash is ggml's, of 64 bits
	// and not cryptographic: clients that share a cache trust each other. CacheSize limits the
	// cache in bytes, least recently used data goes first; 0 means no limit.
	CacheDir  string
	CacheSize int64

	// Idle is how long a client may be silent while another waits, or needs memory that is not
	// available; 0 means ten minutes.
	Idle time.Duration
	// Grace is how long computations may continue when the server stops; 0 means a minute.
	Grace time.Duration

	// AnyAddress allows addresses other than loopback ones. The protocol has no encryption and no
	// users: everyone who can reach the server can compute on its devices. Use it only in a private
	// network.
	AnyAddress bool
}

// Serve lets other programs compute on devices of this one, by [ggml.AddRPCServer] or llama.cpp's
// --rpc, until the context ends; it then returns the context's cause. The endpoint is an IPv4
// address and a port, "127.0.0.1:50052" for example; without devices it offers the CPU. Clients
// compute at the same time, each with buffers, graphs and backends of its own.
//
// The server is this project's own. It rebuilds each op of a client by the method of [ggml.Context]
// that builds such an op, and computes it if the result matches the client's description, in the
// client's memory; row numbers are checked before use. So it refuses the same operands as the
// binding, and additionally custom ops, whose parameters are addresses, and a few layouts that a
// GPU would support but the CPU does not. Of native ops ([ggml.NativeOp]) its CPU computes what
// [ggml.RegisterRemoteOps] has registered and clients name: the ops of training in package kernels. It disconnects a client that sends a refused op, and logs
// the reason ([ggml.SetLogger]); the log has a line for every client. A client cannot connect
// servers with each other to sum tensors, as with ggml's server (with llama.cpp's --split-mode
// tensor the client then sums).
//
// When it stops, it accepts no more requests, waits for running computations, frees the memory of
// all clients, and disconnects them. C: ggml_backend_rpc_start_server.
func Serve(ctx context.Context, endpoint string, o Options, devices ...*ggml.Device) error {
	address, err := netip.ParseAddrPort(endpoint)
	if err != nil || !address.Addr().Is4() || address.Port() == 0 {
		return fmt.Errorf("ggml: RPC server at %q: expected an IPv4 address and a port, such as 127.0.0.1:50052", endpoint)
	}
	return fmt.Errorf("ggml: RPC server at %s: %w", address, serve(ctx, address, o, devices))
}

func serve(ctx context.Context, address netip.AddrPort, o Options, devices []*ggml.Device) error {
	if !address.Addr().IsLoopback() && !o.AnyAddress {
		return errors.New("every program that reaches this address could use the server; set AnyAddress to allow that, or use 127.0.0.1")
	}
	s, err := newServer(o, devices)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", address.String())
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

// A server serves clients of the devices.
type server struct {
	options Options
	devices []*lentDevice
	host    *lentDevice // charged for objects: the first device in host memory, or an additional CPU
	threads int
	cache   *cache // nil if absent

	mu       sync.Mutex
	sessions map[*session]bool // being served
	left     *sync.Cond        // a session has ended
	stopped  bool
	waiting  int // clients without a session
}

// A lentDevice is a device with the accounts of its clients' memory.
type lentDevice struct {
	*ggml.Device
	index int
	pool  *pool
}

func lend(d *ggml.Device, index int, limit int64) *lentDevice {
	if limit == 0 {
		limit = d.Properties().MemoryTotal
	}
	return &lentDevice{d, index, newPool(limit, ggml.FreeOSMemory)}
}

// take reserves memory for a client, if there is enough.
func (d *lentDevice) take(data, objects int64) bool {
	if data > 0 {
		if p := d.Properties(); p.MemoryTotal > 0 && data > p.MemoryFree {
			return false
		}
	}
	return d.pool.take(data, objects)
}

// memory returns the free and the total memory for a client.
func (d *lentDevice) memory() (free, total int64) {
	p := d.Properties()
	return min(p.MemoryFree, d.pool.free()), min(p.MemoryTotal, d.pool.limit)
}

// check rejects numbers out of range.
func (o Options) check() error {
	switch {
	case o.Memory < 0:
		return fmt.Errorf("clients cannot have %d bytes of memory; 0 means all", o.Memory)
	case o.CacheSize < 0:
		return fmt.Errorf("a cache cannot have %d bytes; 0 means no limit", o.CacheSize)
	case o.Clients < 0 || o.Idle < 0 || o.Grace < 0:
		return errors.New("the number of clients and the times cannot be negative; 0 means the default")
	case o.Threads < 0 || o.Threads > ggml.MaxThreads:
		return fmt.Errorf("%d threads: a device takes 1 to %d", o.Threads, ggml.MaxThreads)
	}
	return nil
}

func newServer(o Options, devices []*ggml.Device) (*server, error) {
	if len(devices) == 0 {
		cpu, err := ggml.DeviceByType(ggml.CPU)
		if err != nil {
			return nil, err
		}
		devices = []*ggml.Device{cpu}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Clients, o.Idle, o.Grace = cmp.Or(o.Clients, 16), cmp.Or(o.Idle, 10*time.Minute), cmp.Or(o.Grace, time.Minute)
	s := &server{options: o, threads: cmp.Or(o.Threads, ggml.DefaultThreads()), sessions: map[*session]bool{}}
	s.left = sync.NewCond(&s.mu)
	for i, d := range devices {
		switch {
		case d == nil:
			return nil, errors.New("a device is nil")
		case *d == ggml.Device{}:
			return nil, ggml.ErrZeroValue
		}
		if d.Type() == ggml.Accelerator {
			return nil, fmt.Errorf("%s assists the CPU and computes few ops; clients need a device that computes all ops", d.Name())
		}
		s.devices = append(s.devices, lend(d, i, o.Memory))
		if s.host == nil && d.BufferType().IsHost() {
			s.host = s.devices[i]
		}
	}
	if s.host == nil {
		cpu, err := ggml.DeviceByType(ggml.CPU)
		if err != nil {
			return nil, err
		}
		s.host = lend(cpu, -1, o.Memory)
	}
	if o.CacheDir != "" {
		var err error
		if s.cache, err = newCache(o.CacheDir, o.CacheSize); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// errStop ends sessions when the server stops.
var errStop = errors.New("the server stops")

// serve serves until the context ends, then closes the listener.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	computing, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(errStop)
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
		ggml.Logger().Warn("ggml: RPC server: a computation takes longer than the grace period, and is abandoned")
		abort(errStop)
		select {
		case <-done:
		case <-time.After(5 * time.Second): // a single slow op, or a GPU, which finishes its work
		}
	}
	return context.Cause(ctx)
}

// accept waits for a connection until the context ends. If the system refuses, for example for lack
// of file descriptors, it retries with increasing delays.
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
		ggml.Logger().Warn("ggml: RPC server: cannot accept clients; trying again", "error", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// maxWaiting limits connections without a session.
const maxWaiting = 64

// client serves one connection.
func (s *server) client(computing context.Context, conn net.Conn) {
	defer conn.Close()
	if !s.enter() {
		ggml.Logger().Warn("ggml: RPC server: a client is disconnected", "client", conn.RemoteAddr().String(), "error", "too many clients are waiting")
		return
	}
	session := &session{
		server: s, conn: conn, r: bufio.NewReaderSize(conn, 64<<10), ctx: computing,
		backends: make([]*ggml.Backend, len(s.devices)), work: make([]int64, len(s.devices)), buffers: map[uint64]*clientBuffer{},
	}
	for range s.devices {
		session.graphs = append(session.graphs, map[uint64]*clientGraph{})
	}
	log := ggml.Logger().With("client", conn.RemoteAddr().String())
	err := s.admit(session)
	if err == nil {
		begin := time.Now()
		log.Info("ggml: RPC server: a client is served")
		err = session.serve()
		session.close()
		s.leave(session)
		log = log.With("seconds", time.Since(begin).Round(time.Millisecond).Seconds(), "received", session.stats.received, "sent", session.stats.sent,
			"graphs", session.stats.graphs, "computing", session.stats.computing.Round(time.Millisecond).Seconds())
		if ends(err) {
			log.Info("ggml: RPC server: a client has left")
		}
	}
	if !ends(err) {
		log.Warn("ggml: RPC server: a client is disconnected", "error", err)
	}
}

// enter counts a connection as waiting, unless too many are.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= maxWaiting {
		return false
	}
	s.waiting++
	return true
}

// admit does the handshake, waits for a request (a connection that only probes the server sends
// none), and waits until there is room for the session. The connection has entered.
func (s *server) admit(session *session) error {
	err := session.greet()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.waiting-- }()
	for err == nil && len(s.sessions) >= s.options.Clients && !s.stopped {
		s.evict("waits")
		err = s.awaitLeft(session)
	}
	if err == nil && s.stopped {
		err = errStop
	}
	if err == nil {
		s.sessions[session] = true
	}
	return err
}

// awaitLeft waits for a while until another session ends; it fails if the waiting session's own
// client disconnects.
func (s *server) awaitLeft(session *session) error {
	timer := time.AfterFunc(200*time.Millisecond, s.left.Broadcast)
	defer timer.Stop()
	s.left.Wait()
	if hungUp(session.conn) {
		return errEnd
	}
	return nil
}

// take reserves memory of a device for a session. If there is not enough, it ends sessions that
// have been idle for too long.
func (s *server) take(session *session, d *lentDevice, data, objects int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !d.take(data, objects) {
		if most := d.pool.limit; data > most || objects > most+reserve {
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

// evict ends the session idle for longest, if that exceeds the limit, and returns it; nil if there
// is none.
func (s *server) evict(another string) *session {
	var idlest *session
	longest := s.options.Idle
	for session := range s.sessions {
		if idle := session.idle(); idle > longest {
			idlest, longest = session, idle
		}
	}
	if idlest != nil {
		idlest.end(fmt.Errorf("it was idle for %v, and another client %s", longest.Round(time.Second), another))
	}
	return idlest
}

func (s *server) leave(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
	s.left.Broadcast()
}

// stop makes all sessions end when they are not computing.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for session := range s.sessions {
		session.end(errStop)
	}
	s.left.Broadcast()
}

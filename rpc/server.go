package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goggml/ggml"
)

// Options are the settings of [Serve]; the zero value is usual.
type Options struct {
	Threads int // of CPU devices; 0 stands for ggml.DefaultThreads
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

// Serve lets other programs compute on devices of this one, by
// [ggml.AddRPCServer] or llama.cpp's --rpc, until the context ends, whose cause it returns then. The
// endpoint is an IPv4 address and a port, "127.0.0.1:50052" for example; without
// devices it offers the CPU. Clients compute at the same time, each with buffers, graphs and backends of its own.
//
// The server is this project's own. It builds each op of a client anew by the method of [ggml.Context] that builds such an op,
// and computes it if the result is what the client says, in the client's memory; row numbers are checked before use. So
// it refuses of clients what the binding refuses of its callers: custom ops, whose parameters are addresses, and a few
// layouts that a GPU would take but the CPU does not. A client that sends what is refused is disconnected, with the
// reason in the log ([ggml.SetLogger]), which has a line for every client. A client cannot connect servers with each other for
// sums of tensors, as ggml's server can (llama.cpp's --split-mode tensor then sums in the client).
//
// When it stops, it takes no more requests, waits for the computations in flight, and frees the memory of all clients,
// which find it gone.
// C: ggml_backend_rpc_start_server.
func Serve(ctx context.Context, endpoint string, o Options, devices ...*ggml.Device) error {
	address, err := netip.ParseAddrPort(endpoint)
	if err != nil || !address.Addr().Is4() || address.Port() == 0 {
		return fmt.Errorf("ggml: RPC server at %q: it takes an IPv4 address and a port, like 127.0.0.1:50052", endpoint)
	}
	return fmt.Errorf("ggml: RPC server at %s: %w", address, serve(ctx, address, o, devices))
}

func serve(ctx context.Context, address netip.AddrPort, o Options, devices []*ggml.Device) error {
	if !address.Addr().IsLoopback() && !o.AnyAddress {
		return errors.New("every program that reaches this address could use the server; set AnyAddress if that is meant, or use 127.0.0.1")
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
	host    *lentDevice // whose memory objects take: the first of the devices in host memory, or a CPU beside them
	threads int
	cache   *cache // nil for none

	mu       sync.Mutex
	sessions map[*session]bool // that are served
	left     *sync.Cond        // a session has ended
	stopped  bool
	waiting  int // clients without a session
}

// A lentDevice is a device with what clients have of it.
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

// take reserves memory for a client, unless there is not as much.
func (d *lentDevice) take(data, objects int64) bool {
	if data > 0 {
		if p := d.Properties(); p.MemoryTotal > 0 && data > p.MemoryFree {
			return false
		}
	}
	return d.pool.take(data, objects)
}

// memory returns the memory that a client can have, and all memory.
func (d *lentDevice) memory() (free, total int64) {
	p := d.Properties()
	return min(p.MemoryFree, d.pool.free()), min(p.MemoryTotal, d.pool.limit)
}

func newServer(o Options, devices []*ggml.Device) (*server, error) {
	if len(devices) == 0 {
		cpu, err := ggml.DeviceByType(ggml.CPU)
		if err != nil {
			return nil, err
		}
		devices = []*ggml.Device{cpu}
	}
	switch {
	case o.Memory < 0:
		return nil, fmt.Errorf("clients cannot have %d bytes of memory; 0 is all", o.Memory)
	case o.CacheSize < 0:
		return nil, fmt.Errorf("a cache cannot have %d bytes; 0 is any number", o.CacheSize)
	case o.Clients < 0 || o.Idle < 0 || o.Grace < 0:
		return nil, errors.New("the number of clients and the times cannot be negative; 0 is the usual")
	case o.Threads < 0 || o.Threads > ggml.MaxThreads:
		return nil, fmt.Errorf("%d threads: a device takes 1 to %d", o.Threads, ggml.MaxThreads)
	}
	s := &server{options: o, threads: o.Threads, sessions: map[*session]bool{}}
	s.left = sync.NewCond(&s.mu)
	if s.threads == 0 {
		s.threads = ggml.DefaultThreads()
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
		switch {
		case d == nil:
			return nil, errors.New("a device is nil")
		case *d == ggml.Device{}:
			return nil, ggml.ErrZeroValue
		}
		if d.Type() == ggml.Accelerator {
			return nil, fmt.Errorf("%s works beside the CPU, and computes few ops; clients need a device that computes all", d.Name())
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

// serve serves until the context ends, and closes the listener.
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
		ggml.Logger().Warn("ggml: RPC server: a computation takes longer than the grace, and is given up")
		abort(errStop)
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
		ggml.Logger().Warn("ggml: RPC server: it can take no client, and tries again", "error", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// maxWaiting bounds connections that have no session.
const maxWaiting = 64

// client serves one connection.
func (s *server) client(computing context.Context, conn net.Conn) {
	defer conn.Close()
	if !s.enter() {
		ggml.Logger().Warn("ggml: RPC server: a client is disconnected", "client", conn.RemoteAddr().String(), "error", "too many clients wait")
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

// enter counts a connection as one that waits, unless too many do.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= maxWaiting {
		return false
	}
	s.waiting++
	return true
}

// admit does the handshake, and waits for a request, which one that only looks whether the server lives does not have,
// and until there is room for the session. The connection has entered.
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

// awaitLeft waits for a while, until a session has ended; it fails when the client of another one, which waits, has gone.
func (s *server) awaitLeft(session *session) error {
	timer := time.AfterFunc(200*time.Millisecond, s.left.Broadcast)
	defer timer.Stop()
	s.left.Wait()
	if hungUp(session.conn) {
		return errEnd
	}
	return nil
}

// take reserves memory of a device for a session. Where there is not as much, sessions end that have been idle for too
// long.
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

// evict ends the session that has been idle for longest, if that is too long; nil if there is none.
func (s *server) evict(another string) *session {
	var idlest *session
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

func (s *server) leave(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
	s.left.Broadcast()
}

// stop has all sessions end when they are not computing.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for session := range s.sessions {
		session.end(errStop)
	}
	s.left.Broadcast()
}

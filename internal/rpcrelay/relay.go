// Package rpcrelay stands between ggml's RPC client and a server.
//
// The client ends the process if a server is gone, cannot be reached, or speaks another version of
// the protocol. So it connects to a relay on loopback, which forwards requests and replies. After a
// failure the relay synthesizes the replies, so that the client continues, and keeps the error for
// callers that use the server's devices. The client also does not know that a server forgets graphs
// when memory is freed: the relay sends them again.
package rpcrelay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/testhook"
)

// A Relay forwards connections on a loopback address to the endpoint of a server.
type Relay struct {
	Endpoint string // of the server
	Address  string // of the relay

	ggml     string // version of ggml that speaks the protocol
	listener net.Listener
	failure  atomic.Pointer[error] // failure of the last connection
	several  atomic.Bool           // the server answers several connections at once
	flags    atomic.Uint32         // of the server's handshake: rpcwire.Flags
	ops      Native
	stall    time.Duration // time limit for answers
	patience
}

// Native says how native ops travel: tensors of Op have the address of a function, for which ID returns what servers know
// it by.
type Native struct {
	Op uint32
	ID func(address uint64) uint64
}

// handshakeTimeout also limits the wait for a server that is serving another client: it does not
// reply.
const handshakeTimeout = 10 * time.Second

var relays struct {
	sync.Mutex
	list  []*Relay
	inUse atomic.Bool // there was a relay
}

// InUse reports whether a relay was ever started.
func InUse() bool { return relays.inUse.Load() }

// New starts a relay to the server at the endpoint, which should run the given version of ggml.
func New(endpoint, ggml string, ops Native) (*Relay, error) {
	listener, err := listen(endpoint)
	if err != nil {
		return nil, err
	}
	return newRelay(listener, endpoint, ggml, ops), nil
}

// listen opens a port of this machine, but not the port of the server, which may be about to start.
func listen(endpoint string) (net.Listener, error) {
	first, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil || portOf(first.Addr().String()) != portOf(endpoint) {
		return first, err
	}
	defer first.Close()
	return net.Listen("tcp4", "127.0.0.1:0")
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func newRelay(listener net.Listener, endpoint, ggml string, ops Native) *Relay {
	r := &Relay{Endpoint: endpoint, Address: listener.Addr().String(), ggml: ggml, listener: listener, stall: time.Minute, ops: ops}
	if testhook.RPCStall > 0 {
		r.stall = testhook.RPCStall
	}
	relays.Lock()
	relays.list = append(relays.list, r)
	relays.Unlock()
	relays.inUse.Store(true)
	go r.accept()
	return r
}

// Close ends a relay whose devices ggml does not know.
func (r *Relay) Close() {
	r.listener.Close()
	relays.Lock()
	defer relays.Unlock()
	relays.list = slices.DeleteFunc(relays.list, func(x *Relay) bool { return x == r })
}

// Err returns why the server is gone, or nil; after a new handshake the server is back.
func (r *Relay) Err() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// ByAddress returns the relay at an address; ggml's description of a device is that address.
func ByAddress(address string) *Relay {
	relays.Lock()
	defer relays.Unlock()
	for _, r := range relays.list {
		if r.Address == address {
			return r
		}
	}
	return nil
}

// DisplayName replaces the address of a relay in a name that ggml made, like
// RPC0[127.0.0.1:40000], by the endpoint of its server.
func DisplayName(name string) string {
	if !InUse() {
		return name
	}
	relays.Lock()
	defer relays.Unlock()
	for _, r := range relays.list {
		if before, after, found := strings.Cut(name, r.Address); found && (after == "" || after[0] == ']') {
			return before + r.Endpoint + after
		}
	}
	return name
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		go r.serve(client)
	}
}

// A connection is a connection of the client to the server.
type connection struct {
	relay  *Relay
	client net.Conn
	server net.Conn // nil after a failure
	buffer []byte

	computing bool // the server may be computing a graph, without a time limit while it is alive
	graphs    sentGraphs
}

func (r *Relay) serve(client net.Conn) {
	defer client.Close()
	c := &connection{relay: r, client: client, buffer: make([]byte, 256<<10)}
	server, err := r.dial(handshakeTimeout)
	if err != nil {
		c.fail(err)
	} else {
		c.server = server
		defer server.Close()
	}
	for c.forwardRequest() == nil {
	}
}

// dial connects to the server. The port of a server that is gone may belong to a relay of this process by now, even to
// this one, which would forward to itself until no file can be opened.
func (r *Relay) dial(timeout time.Duration) (net.Conn, error) {
	server, err := net.DialTimeout("tcp", r.Endpoint, timeout)
	if err != nil {
		return nil, unanswered(err)
	}
	if ByAddress(server.RemoteAddr().String()) != nil {
		server.Close()
		return nil, unanswered(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	return server, nil
}

// unanswered returns why a server cannot be reached.
func unanswered(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without the addresses
	}
	return fmt.Errorf("it does not answer (%v); check the address, or start rpc-server there", err)
}

// fail ends the connection to the server.
func (c *connection) fail(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = errors.New("it has closed the connection")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("it has not answered for %v", c.relay.stall)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without the addresses
	}
	c.relay.failure.Store(&err)
	if c.server != nil {
		c.server.Close()
		c.server = nil
	}
}

// forwardRequest forwards one request and its reply. It fails if the client ends.
func (c *connection) forwardRequest() error {
	var header [9]byte
	if _, err := io.ReadFull(c.client, header[:]); err != nil {
		return err
	}
	cmd, size := command(header[0]), int64(binary.LittleEndian.Uint64(header[1:]))
	if cmd == rpcwire.Hello {
		return c.handshake(size)
	}
	c.computing = c.computing || cmd.Computes()
	switch cmd {
	case rpcwire.GraphCompute:
		return c.forwardGraph(header[:], size)
	case rpcwire.GraphRecompute:
		return c.recompute(header[:], size)
	case rpcwire.FreeBuffer:
		c.graphs.frees++
	}
	c.send(header[:])
	var first, last []byte // bytes of the request that determine the reply
	for left := size; left > 0; {
		chunk := c.buffer[:min(left, int64(len(c.buffer)))]
		if _, err := io.ReadFull(c.client, chunk); err != nil {
			return err
		}
		if first == nil {
			first = append(first, chunk[:min(64, len(chunk))]...)
		}
		if left -= int64(len(chunk)); left == 0 {
			last = append(last, chunk[max(0, len(chunk)-24):]...)
		}
		c.send(chunk)
	}
	n := replySize(cmd, last)
	if n < 0 {
		return nil
	}
	err := c.forwardReply(cmd, n, first)
	c.computing = c.computing && !waitsForGraphs(cmd)
	return err
}

// forwardGraph forwards a graph, and keeps it.
func (c *connection) forwardGraph(header []byte, size int64) error {
	message := make([]byte, size)
	if _, err := io.ReadFull(c.client, message); err != nil {
		return err
	}
	if ops := c.relay.ops; ops.ID != nil && rpcwire.TranslateNative(message, ops.Op, ops.ID) && !rpcwire.Flags(c.relay.flags.Load()).HasNativeOps() {
		c.fail(errNoNative) // ggml's own server would take the numbers for addresses
	}
	c.send(header)
	c.send(message)
	return c.graphs.keep(message)
}

// recompute forwards the number of a graph, or the whole graph if the server may have forgotten it.
func (c *connection) recompute(header []byte, size int64) error {
	var id graphID
	if size != int64(len(id)) {
		return fmt.Errorf("%v of %d bytes", rpcwire.GraphRecompute, size)
	}
	if _, err := io.ReadFull(c.client, id[:]); err != nil {
		return err
	}
	message, err := c.graphs.again(id)
	if err != nil {
		return err
	}
	if message == nil {
		c.send(header)
		c.send(id[:])
		return nil
	}
	c.send(binary.LittleEndian.AppendUint64([]byte{byte(rpcwire.GraphCompute)}, uint64(len(message))))
	c.send(message)
	return nil
}

func (c *connection) send(p []byte) {
	if c.server == nil {
		return
	}
	if err := c.transfer(p, c.server.SetWriteDeadline, c.server.Write); err != nil {
		c.fail(err)
	}
}

// read fills p from the server.
func (c *connection) read(p []byte) error {
	return c.transfer(p, c.server.SetReadDeadline, func(p []byte) (int, error) { return io.ReadFull(c.server, p) })
}

// transfer reads or writes p. It gives up when the relay is hurried, or when the server makes no progress and neither
// computes a graph nor answers on another connection.
func (c *connection) transfer(p []byte, deadline func(time.Time) error, f func([]byte) (int, error)) error {
	defer c.relay.wait()()
	stall := c.relay.stall
	for alive := time.Now(); ; {
		deadline(c.relay.before(time.Now().Add(stall / 6)))
		n, err := f(p)
		if err == nil {
			return nil
		}
		if p = p[n:]; n > 0 {
			alive = time.Now()
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n > 0:
		case c.computing && c.relay.isOver():
			return err
		case c.computing && c.relay.lives(stall/6):
			alive = time.Now()
		case time.Since(alive) > stall:
			return err
		}
	}
}

// lives reports whether a server that computes a graph answers on another connection. A server with
// a single connection cannot be asked, and counts as alive.
func (r *Relay) lives(timeout time.Duration) bool {
	return !r.several.Load() || r.probe(timeout) == nil
}

// probe does a handshake on a separate connection.
func (r *Relay) probe(timeout time.Duration) error {
	server, err := r.dial(timeout)
	if err != nil {
		return err
	}
	defer server.Close()
	return r.greet(server, timeout)
}

var (
	errUnknownReply = errors.New("it answers in a way that this package does not know")
	errNoNative     = errors.New("another server has taken its place, which has none of the kernels that it had")
)

// forwardReply forwards the reply of n bytes, or synthesizes one.
func (c *connection) forwardReply(cmd command, n int64, request []byte) error {
	var header [8]byte
	binary.LittleEndian.PutUint64(header[:], uint64(n))
	if c.server != nil {
		var got [8]byte
		if err := c.read(got[:]); err != nil {
			c.fail(err)
		} else if got != header {
			c.fail(errUnknownReply)
		}
	}
	if _, err := c.client.Write(header[:]); err != nil {
		return err
	}
	for left := n; left > 0; {
		chunk := c.buffer[:min(left, int64(len(c.buffer)))]
		if c.server != nil {
			err := c.read(chunk)
			if err == nil && !accepts(cmd, chunk) {
				err = errUnknownReply
			}
			if err != nil {
				c.fail(err)
			}
		}
		if c.server == nil && left == n {
			return c.synthesizeReply(cmd, n, request)
		}
		if c.server == nil {
			clear(chunk)
		}
		if _, err := c.client.Write(chunk); err != nil {
			return err
		}
		left -= int64(len(chunk))
	}
	return nil
}

// synthesizeReply replies in place of a lost server: a number, then zeros.
func (c *connection) synthesizeReply(cmd command, n int64, request []byte) error {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], synthesized(cmd, request))
	chunk := c.buffer
	clear(chunk)
	copy(chunk, number[:])
	for left := n; left > 0; left -= int64(len(chunk)) {
		chunk = chunk[:min(left, int64(len(chunk)))]
		if _, err := c.client.Write(chunk); err != nil {
			return err
		}
		clear(chunk[:min(8, len(chunk))])
	}
	return nil
}

// handshake forwards the first request. Its reply is always one that the client accepts: the
// client's own version, the server's flag of a cache, and no transport other than TCP, which would not pass the relay.
func (c *connection) handshake(size int64) error {
	if size != rpcwire.CapabilitiesSize {
		return fmt.Errorf("a handshake of %d bytes", size)
	}
	if _, err := io.ReadFull(c.client, make([]byte, size)); err != nil {
		return err
	}
	if c.server != nil {
		if err := c.relay.greet(c.server, handshakeTimeout); err != nil {
			c.fail(err)
		} else {
			c.relay.failure.Store(nil)
			go func() { c.relay.several.Store(c.relay.probe(probeTimeout) == nil) }()
		}
	}
	reply := make([]byte, rpcwire.HandshakeReplySize)
	reply[0] = rpcwire.HandshakeReplySize - 8
	reply[8], reply[9], reply[8+rpcwire.FlagsAt] = rpcwire.Major, rpcwire.Minor, byte(rpcwire.Flags(c.relay.flags.Load())&rpcwire.HasCache)
	_, err := c.client.Write(reply)
	return err
}

// probeTimeout limits the wait for an answer on a second connection.
const probeTimeout = 2 * time.Second

// greet does the handshake with the server.
func (r *Relay) greet(server net.Conn, timeout time.Duration) error {
	server.SetDeadline(time.Now().Add(timeout))
	defer server.SetDeadline(time.Time{})
	request := append([]byte{byte(rpcwire.Hello), rpcwire.CapabilitiesSize, 0, 0, 0, 0, 0, 0, 0}, make([]byte, rpcwire.CapabilitiesSize)...)
	if _, err := server.Write(request); err != nil {
		return err
	}
	reply := make([]byte, rpcwire.HandshakeReplySize)
	if _, err := io.ReadFull(server, reply); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it does not answer: another program uses it, or it is not an RPC server of ggml")
	} else if err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(reply); n != rpcwire.HandshakeReplySize-8 || reply[8] != rpcwire.Major || reply[9] > rpcwire.Minor {
		return fmt.Errorf("it is not an RPC server of ggml with protocol %d.%d; start it with ggml %s", rpcwire.Major, rpcwire.Minor, r.ggml)
	}
	r.flags.Store(uint32(reply[8+rpcwire.FlagsAt]))
	return nil
}

// NativeOps asks the server for the names of the native ops of a device, on a separate connection: none if it is not this
// project's, or of another version.
func (r *Relay) NativeOps(device uint32) ([]string, error) {
	if !rpcwire.Flags(r.flags.Load()).HasNativeOps() {
		return nil, nil
	}
	server, err := r.dial(handshakeTimeout)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	if err := r.greet(server, handshakeTimeout); err != nil {
		return nil, err
	}
	server.SetDeadline(time.Now().Add(handshakeTimeout))
	request := binary.LittleEndian.AppendUint64([]byte{byte(rpcwire.NativeOps)}, 4)
	if _, err := server.Write(binary.LittleEndian.AppendUint32(request, device)); err != nil {
		return nil, err
	}
	var size [8]byte
	if _, err := io.ReadFull(server, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > rpcwire.MaxNativeOps {
		return nil, errUnknownReply
	}
	names := make([]byte, n)
	_, err = io.ReadFull(server, names)
	return strings.Fields(string(names)), err
}

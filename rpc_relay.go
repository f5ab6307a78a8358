package ggml

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
	"time"
)

// An rpcRelay stands between the library's client and a server. The library
// ends the process when a server is gone, cannot be reached, or speaks another
// version of the protocol. So it talks to the relay, on loopback, which answers
// in the server's place from then on, and remembers the failure: whoever used a
// device of the server gets that as an error.
type rpcRelay struct {
	endpoint string // of the server
	address  string // of the relay
	listener net.Listener
	failure  atomic.Pointer[error] // of the last connection
}

// rpcPatience is how long a server may take to answer a new connection. One
// that has another client does not answer.
const rpcPatience = 10 * time.Second

// The protocol that the relay knows.
const rpcMajor, rpcMinor = 8, 0

// The commands that a server answers, and the one whose answer the relay
// changes. A request is the command, 8 bytes of length, and that many bytes; an
// answer is 8 bytes of length, and that many bytes.
const (
	rpcAllocBuffer     = 0
	rpcGetAlignment    = 1
	rpcGetMaxSize      = 2
	rpcBufferGetBase   = 3
	rpcSetTensorHash   = 7
	rpcGetTensor       = 8
	rpcCopyTensor      = 9
	rpcGetDeviceMemory = 11
	rpcGetAllocSize    = 13
	rpcHello           = 14
	rpcDeviceCount     = 15
	rpcGetTensorPieces = 19
	rpcCommInit        = 20

	rpcCapabilities = 24 // bytes in both messages of rpcHello: of faster ways than TCP
)

var rpcRelays struct {
	sync.Mutex
	list []*rpcRelay
	some atomic.Bool
}

func newRPCRelay(endpoint string) (*rpcRelay, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &rpcRelay{endpoint: endpoint, address: listener.Addr().String(), listener: listener}
	rpcRelays.Lock()
	rpcRelays.list = append(rpcRelays.list, r)
	rpcRelays.Unlock()
	rpcRelays.some.Store(true)
	go r.listen()
	return r, nil
}

// close ends a relay of which no device is known.
func (r *rpcRelay) close() {
	r.listener.Close()
	rpcRelays.Lock()
	defer rpcRelays.Unlock()
	rpcRelays.list = slices.DeleteFunc(rpcRelays.list, func(x *rpcRelay) bool { return x == r })
}

func (r *rpcRelay) listen() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		go r.serve(client)
	}
}

// rpcRelayAt finds the relay of a device by its description.
func rpcRelayAt(address string) *rpcRelay {
	rpcRelays.Lock()
	defer rpcRelays.Unlock()
	for _, r := range rpcRelays.list {
		if r.address == address {
			return r
		}
	}
	return nil
}

// serverNames puts the address of the server for that of its relay into a name
// that the library made.
func serverNames(name string) string {
	if !rpcRelays.some.Load() {
		return name
	}
	rpcRelays.Lock()
	defer rpcRelays.Unlock()
	for _, r := range rpcRelays.list {
		if before, after, found := strings.Cut(name, r.address); found && (after == "" || after[0] == ']') {
			return before + r.endpoint + after
		}
	}
	return name
}

// lost is the failure of the present connection, or nil.
func (r *rpcRelay) lost() error {
	if p := r.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// An rpcLink is one connection of the library to the server.
type rpcLink struct {
	relay  *rpcRelay
	client net.Conn
	server net.Conn // nil once it has failed
	buffer []byte
}

func (r *rpcRelay) serve(client net.Conn) {
	defer client.Close()
	l := &rpcLink{relay: r, client: client, buffer: make([]byte, 256<<10)}
	server, err := net.DialTimeout("tcp", r.endpoint, rpcPatience)
	if err != nil {
		l.fail(err)
	} else {
		l.server = server
		defer server.Close()
	}
	for l.request() == nil {
	}
}

// fail notes that the server is gone; what it was asked is answered from here.
func (l *rpcLink) fail(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it has closed the connection")
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // the addresses are not of interest
	}
	err = fmt.Errorf("RPC server %s: %w: %w", l.relay.endpoint, ErrDisconnected, err)
	l.relay.failure.Store(&err)
	if l.server != nil {
		l.server.Close()
		l.server = nil
	}
}

// request passes on one request and its answer. It fails when the client ends.
func (l *rpcLink) request() error {
	var header [9]byte
	if _, err := io.ReadFull(l.client, header[:]); err != nil {
		return err
	}
	command, size := header[0], int64(binary.LittleEndian.Uint64(header[1:]))
	if command == rpcHello {
		return l.hello(header[:], size)
	}
	l.send(header[:])
	var head, tail []byte // of the request: what the answer depends on
	for left := size; left > 0; {
		part := l.buffer[:min(left, int64(len(l.buffer)))]
		if _, err := io.ReadFull(l.client, part); err != nil {
			return err
		}
		if head == nil {
			head = append(head, part[:min(64, len(part))]...)
		}
		if left -= int64(len(part)); left == 0 {
			tail = append(tail, part[max(0, len(part)-24):]...)
		}
		l.send(part)
	}
	n := rpcAnswerSize(command, tail)
	if n < 0 {
		return nil
	}
	return l.answer(command, n, head)
}

func (l *rpcLink) send(p []byte) {
	if l.server == nil {
		return
	}
	if _, err := l.server.Write(p); err != nil {
		l.fail(err)
	}
}

// rpcAnswerSize is -1 when the command has no answer.
func rpcAnswerSize(command byte, tail []byte) int64 {
	number := func(fromEnd int) int64 {
		if len(tail) < fromEnd {
			return 0
		}
		return int64(binary.LittleEndian.Uint64(tail[len(tail)-fromEnd:]))
	}
	switch command {
	case rpcAllocBuffer, rpcGetDeviceMemory:
		return 16
	case rpcGetAlignment, rpcGetMaxSize, rpcBufferGetBase, rpcGetAllocSize:
		return 8
	case rpcDeviceCount:
		return 4
	case rpcSetTensorHash, rpcCopyTensor, rpcCommInit:
		return 1
	case rpcGetTensor:
		return number(8)
	case rpcGetTensorPieces:
		return number(24) * number(16)
	}
	return -1
}

// answer passes on the answer of n bytes, or makes one.
func (l *rpcLink) answer(command byte, n int64, request []byte) error {
	var header [8]byte
	binary.LittleEndian.PutUint64(header[:], uint64(n))
	if l.server != nil {
		var got [8]byte
		if _, err := io.ReadFull(l.server, got[:]); err != nil {
			l.fail(err)
		} else if got != header {
			l.fail(errors.New("it answers in a way that this package does not know"))
		}
	}
	if _, err := l.client.Write(header[:]); err != nil {
		return err
	}
	if l.server == nil {
		return l.pretend(command, n, request)
	}
	for left := n; left > 0; {
		part := l.buffer[:min(left, int64(len(l.buffer)))]
		if l.server == nil {
			clear(part)
		} else if _, err := io.ReadFull(l.server, part); err != nil {
			l.fail(err)
			clear(part)
		}
		if _, err := l.client.Write(part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	return nil
}

// pretend answers for a server that is gone, in a way that the library can go
// on with: nobody sees more of it than the failure.
func (l *rpcLink) pretend(command byte, n int64, request []byte) error {
	var number uint64
	switch command {
	case rpcGetAlignment, rpcBufferGetBase:
		number = 4096
	case rpcGetMaxSize:
		number = 1 << 62
	case rpcSetTensorHash, rpcCopyTensor:
		number = 1 // done
	case rpcGetAllocSize:
		if len(request) >= 56 { // device, id, type, buffer, ne, nb
			number = uint64(binary.LittleEndian.Uint32(request[36:])) * uint64(binary.LittleEndian.Uint32(request[52:]))
		}
	}
	var first [8]byte
	binary.LittleEndian.PutUint64(first[:], number)
	part := l.buffer
	clear(part)
	copy(part, first[:])
	for left := n; left > 0; left -= int64(len(part)) {
		part = part[:min(left, int64(len(part)))]
		if _, err := l.client.Write(part); err != nil {
			return err
		}
		clear(part[:min(8, len(part))])
	}
	return nil
}

// hello passes on the first message, and answers what the library wants to
// hear: its own version, and no faster way than TCP, which would pass by here.
func (l *rpcLink) hello(header []byte, size int64) error {
	if size != rpcCapabilities {
		return fmt.Errorf("a hello of %d bytes", size)
	}
	if _, err := io.ReadFull(l.client, make([]byte, size)); err != nil {
		return err
	}
	if l.server != nil {
		if err := l.greet(header); err != nil {
			l.fail(err)
		} else {
			l.relay.failure.Store(nil)
		}
	}
	reply := make([]byte, 8+4+rpcCapabilities)
	reply[0] = 4 + rpcCapabilities
	reply[8], reply[9] = rpcMajor, rpcMinor
	_, err := l.client.Write(reply)
	return err
}

func (l *rpcLink) greet(header []byte) error {
	l.server.SetDeadline(time.Now().Add(rpcPatience))
	defer l.server.SetDeadline(time.Time{})
	if _, err := l.server.Write(append(header, make([]byte, rpcCapabilities)...)); err != nil {
		return err
	}
	reply := make([]byte, 8+4+rpcCapabilities)
	if _, err := io.ReadFull(l.server, reply); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it does not answer: another program uses it, or it is no RPC server of ggml")
	} else if err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint64(reply); n != 4+rpcCapabilities || reply[8] != rpcMajor || reply[9] > rpcMinor {
		return fmt.Errorf("it is no RPC server of ggml with protocol %d.%d; start it with ggml %s", rpcMajor, rpcMinor, Version())
	}
	return nil
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcrelay"
)

// RPCServerOptions are the settings of [ServeRPC]; the zero value is usual.
type RPCServerOptions struct {
	Threads  int    // of CPU devices; 0 stands for DefaultThreads
	CacheDir string // a folder where large weights are kept for the next client; "" for none
	Memory   int64  // bytes of each device that a client can have; 0 for all

	// AnyAddress allows an address other than a loopback one. The protocol has
	// no encryption and knows no users: whoever reaches the server reads and
	// writes its memory, and lets it connect with other servers to sum up tensors.
	// Use it in a private network only.
	AnyAddress bool
}

// ServeRPC lets other programs compute on devices of this one, by
// [AddRPCServer], until the context ends, whose cause it returns then. The
// endpoint is an IPv4 address and a port, "127.0.0.1:50052" for example; without
// devices it offers the CPU. It serves one client at a time, others wait; one
// that sends nothing at first, or what no client would, is disconnected.
//
// When it stops, a client finds its server gone, and the memory that it had is
// freed. A graph that is being computed is waited for, five seconds at most.
//
// It returns other errors when it cannot serve, and when ggml ends the server
// because of what a client asks for. Such an end leaves memory behind, and some
// of them end the process; where that matters, serve in a process of its own.
// ggml writes what it does to standard output, with the port on loopback on
// which its server stands behind this one.
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
	defer listener.Close()
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop, err := s.start(end)
	if err != nil {
		return err
	}
	defer stop()
	gate := &rpcrelay.Gate{
		Server:   s.address(),
		MaxData:  s.memory(),
		Memory:   o.Memory,
		AnyPeers: o.AnyAddress,
		Refused: func(client net.Addr, err error) {
			logger().Warn("ggml: RPC client disconnected", "client", client.String(), "error", err)
		},
	}
	return gate.Serve(serving, listener)
}

// An rpcServer is ggml's, on a port of loopback.
type rpcServer struct {
	rpc     *Registry
	devices []C.ggml_backend_dev_t
	threads int
	cache   string
	port    uint16
}

func newRPCServer(o RPCServerOptions, devices []*Device) (*rpcServer, error) {
	rpc, err := RegistryByName("RPC")
	if err != nil {
		return nil, notLoaded("RPC")
	}
	if len(devices) == 0 {
		cpu, err := DeviceByType(CPU)
		if err != nil {
			return nil, err
		}
		devices = []*Device{cpu}
	}
	s := &rpcServer{rpc: rpc, threads: o.Threads, cache: o.CacheDir}
	for _, d := range devices {
		if d == nil {
			return nil, errors.New("a device is nil")
		}
		s.devices = append(s.devices, d.d)
	}
	switch {
	case o.Memory < 0:
		return nil, fmt.Errorf("a client cannot have %d bytes of memory; 0 is all", o.Memory)
	case o.Threads == 0:
		s.threads = DefaultThreads()
	case o.Threads < 0 || o.Threads > C.GGML_MAX_N_THREADS:
		return nil, fmt.Errorf("%d threads: a device takes 1 to %d", o.Threads, C.GGML_MAX_N_THREADS)
	}
	if o.CacheDir != "" {
		if info, err := os.Stat(o.CacheDir); err != nil {
			return nil, fmt.Errorf("the folder of the cache: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("the cache %s is no folder", o.CacheDir)
		}
	}
	return s, nil
}

func (s *rpcServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// memory is that of the device that has most.
func (s *rpcServer) memory() int64 {
	var most int64
	for _, d := range s.devices {
		most = max(most, (&Device{d}).Properties().MemoryTotal)
	}
	if most == 0 {
		return math.MaxInt64 >> 1 // unknown
	}
	return most
}

// start waits until the server listens. It tells ended why the server has ended,
// if it does so before stop, which waits for its end.
func (s *rpcServer) start(ended context.CancelCauseFunc) (stop func(), err error) {
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		err := s.serve()
		if err == nil {
			err = errors.New("ggml ended it; standard error says why")
		}
		ended(err)
		done <- err
	}()
	for !rpcrelay.Listening(s.port) {
		select {
		case err := <-done:
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
	return func() {
		rpcrelay.StopListening(s.port)
		select {
		case <-done:
		case <-time.After(5 * time.Second): // a long graph; it ends after that
		}
	}, nil
}

// serve returns when the server ends.
func (s *rpcServer) serve() error {
	var cache *C.char
	if s.cache != "" {
		cache = C.CString(s.cache)
		defer C.free(unsafe.Pointer(cache))
	}
	return withCString(s.address(), func(address *C.char) error {
		return guardError(C.goggml_rpc_serve(s.rpc.r, address, cache, C.size_t(s.threads), C.size_t(len(s.devices)), &s.devices[0]))
	})
}

func freePort() (uint16, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return uint16(l.Addr().(*net.TCPAddr).Port), l.Close()
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"unsafe"
)

// RPCServerOptions are the settings of [ServeRPC]; the zero value is usual.
type RPCServerOptions struct {
	Threads  int    // of CPU devices; 0 stands for DefaultThreads
	CacheDir string // a folder where large weights are kept for the next client; "" for none

	// AnyAddress allows an address other than a loopback one. The protocol has
	// no encryption and knows no users: whoever reaches the server reads and
	// writes its memory. Use it in a private network only.
	AnyAddress bool
}

// ServeRPC lets other programs compute on devices of this one, by
// [AddRPCServer]. The endpoint is an IP address and a port, "127.0.0.1:50052"
// for example; without devices it offers the CPU. It serves one client at a
// time, others wait.
//
// It returns only with an error: the library has no way to stop a server, and
// ends the process on some errors of a client. So run it in a process of its
// own, and kill that; the example shows how a program starts itself a second
// time. The library writes what it does to standard output.
// C: ggml_backend_rpc_start_server.
func ServeRPC(endpoint string, o RPCServerOptions, devices ...*Device) error {
	address, err := netip.ParseAddrPort(endpoint)
	if err != nil || !address.Addr().Is4() || address.Port() == 0 {
		return fmt.Errorf("ggml: RPC server at %q: it takes an IPv4 address and a port, like 127.0.0.1:50052", endpoint)
	}
	if !address.Addr().IsLoopback() && !o.AnyAddress {
		return fmt.Errorf("ggml: RPC server at %s: every program that reaches this address could use the server; set AnyAddress if that is meant, or use 127.0.0.1", endpoint)
	}
	rpc, err := RegistryByName("RPC")
	if err != nil {
		return notLoaded("RPC")
	}
	if len(devices) == 0 {
		cpu, err := DeviceByType(CPU)
		if err != nil {
			return err
		}
		devices = []*Device{cpu}
	}
	list := make([]C.ggml_backend_dev_t, len(devices))
	for i, d := range devices {
		if d == nil {
			return fmt.Errorf("ggml: RPC server at %s: a device is nil", endpoint)
		}
		list[i] = d.d
	}
	switch {
	case o.Threads == 0:
		o.Threads = DefaultThreads()
	case o.Threads < 0 || o.Threads > C.GGML_MAX_N_THREADS:
		return fmt.Errorf("ggml: RPC server at %s: %d threads: a device takes 1 to %d", endpoint, o.Threads, C.GGML_MAX_N_THREADS)
	}
	// The library would tell only standard error.
	l, err := net.Listen("tcp4", endpoint)
	if err != nil {
		return fmt.Errorf("ggml: RPC server: %w", err)
	}
	l.Close()
	var cache *C.char
	if o.CacheDir != "" {
		cache = C.CString(o.CacheDir)
		defer C.free(unsafe.Pointer(cache))
	}
	err = withCString(endpoint, func(s *C.char) error {
		return guardError(C.goggml_rpc_serve(rpc.r, s, cache, C.size_t(o.Threads), C.size_t(len(list)), &list[0]))
	})
	if err == nil {
		err = errors.New("the library ended it; standard error says why")
	}
	return fmt.Errorf("ggml: RPC server at %s: %w", net.JoinHostPort(address.Addr().String(), strconv.Itoa(int(address.Port()))), err)
}

package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/goggml/ggml/internal/rpcrelay"
	"github.com/goggml/ggml/internal/rpcwire"
)

// AddRPCServer connects to a server of package rpc, or one of ggml's own, at a
// host and a port, and returns the backend of its devices, "RPC0" and so on,
// which [Devices] lists from now on. Of the same server it returns the same.
// All that the Go API does with a device works over the network: a device has
// its memory, buffer type, backends, asynchronous copies and events. It says
// that it supports every op, and ends the server when it does not; the op's own
// checks hold for a server with a CPU.
//
// A server of package rpc has several clients at once; one of ggml's own has one, from when the first object of one of its
// devices is made until the last is closed. There is no encryption and no
// password.
//
// When a server dies, the network fails, or a minute passes without an answer, what is being done and all that is
// done later with its devices fails with [ErrDisconnected]. While a graph is computed an answer may take any time, as long
// as the server lives, which it shows on a second connection; of ggml's own server, which has none, nobody knows. For that
// the data pass through this process once more, and a port on loopback.
//
// A server computes a graph to its end. A Compute whose context ends returns, though: what uses its backend or graph next
// waits for the server, for a minute at most.
// C: ggml_backend_rpc_add_server, ggml_backend_rpc_reg, ggml_backend_register.
func AddRPCServer(endpoint string) (*Registry, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if n, errPort := strconv.ParseUint(port, 10, 16); err != nil || errPort != nil || n == 0 || host == "" {
		return nil, fmt.Errorf("ggml: RPC server %q: it takes a host and a port, like 127.0.0.1:50052", endpoint)
	}
	rpc, err := RegistryByName("RPC")
	if err != nil || onlyCPU {
		return nil, notLoaded("RPC")
	}
	rpcServers.Lock()
	defer rpcServers.Unlock()
	if r := rpcServers.byEndpoint[endpoint]; r != nil {
		return r, nil
	}
	if C.RPC_PROTO_MAJOR_VERSION != rpcwire.Major || C.RPC_PROTO_MINOR_VERSION != rpcwire.Minor {
		return nil, fmt.Errorf("ggml: RPC server %s: ggml %s has protocol %d.%d, this version of the package knows %d.%d", endpoint, Version(), C.RPC_PROTO_MAJOR_VERSION, C.RPC_PROTO_MINOR_VERSION, rpcwire.Major, rpcwire.Minor)
	}
	r, err := addRPCServer(rpc, endpoint)
	if err != nil {
		return nil, err
	}
	rpcServers.byEndpoint[endpoint] = r
	return r, nil
}

var rpcServers = struct {
	sync.Mutex
	byEndpoint map[string]*Registry
}{byEndpoint: map[string]*Registry{}}

// forgetRPCServer makes AddRPCServer add the server anew.
func forgetRPCServer(r *Registry) {
	rpcServers.Lock()
	defer rpcServers.Unlock()
	maps.DeleteFunc(rpcServers.byEndpoint, func(_ string, x *Registry) bool { return x.r == r.r })
}

func addRPCServer(rpc *Registry, endpoint string) (*Registry, error) {
	relay, err := rpcrelay.New(endpoint, Version())
	if err != nil {
		return nil, fmt.Errorf("ggml: RPC server %s: %w", endpoint, err)
	}
	added := withCString(relay.Address, func(s *C.char) C.goggml_ptr { return C.goggml_rpc_add_server(rpc.r, s) })
	err = guardError(added.error)
	r := &Registry{C.ggml_backend_reg_t(added.value)}
	if err == nil && r.r == nil {
		err = errors.New("it has no devices")
	}
	if err == nil {
		// ggml's client asks the server for the properties of a type once, now.
		for _, d := range r.Devices() {
			d.BufferType()
		}
	}
	if refused := relay.Err(); refused != nil {
		err = absentServer{refused}
	}
	if err != nil {
		err = fmt.Errorf("ggml: RPC server %s: %w", endpoint, err)
	}
	if err != nil {
		if r.r == nil { // else ggml's client keeps the address
			relay.Close()
		}
		return nil, err
	}
	defer lockRegistry()()
	C.ggml_backend_register(r.r)
	return r, nil
}

// RPCDevices lists the devices of all servers that [AddRPCServer] has added.
// Their [Device.Properties] have the memory that is free, [Device.BufferType]
// says where data lies, and [Device.NewBackend] opens them.
// C: ggml_backend_rpc_get_device_memory, ggml_backend_rpc_buffer_type,
// ggml_backend_rpc_init.
func RPCDevices() ([]*Device, error) {
	all, err := Devices()
	if err != nil {
		return nil, err
	}
	var devices []*Device
	for _, d := range all {
		if d.isRPC() {
			devices = append(devices, d)
		}
	}
	if devices == nil {
		return nil, fmt.Errorf("ggml: RPC %w: there is no server; add one by AddRPCServer", ErrNotLoaded)
	}
	return devices, nil
}

// IsRPC reports whether the backend is on a device of an RPC server.
// C: ggml_backend_is_rpc.
func (b *Backend) IsRPC() bool { return b != nil && b.device.isRPC() }

func (d *Device) isRPC() bool { return strings.HasPrefix(d.Registry().Name(), "RPC") }

// deviceErr returns why one of the devices, or a device that it is made of, has
// failed; nil when none has.
func deviceErr(devices ...C.ggml_backend_dev_t) error {
	if !rpcrelay.InUse() && !metaDevices.some.Load() {
		return nil
	}
	for _, d := range devices {
		if m := metaOf(d); m != nil {
			if p := m.failure.Load(); p != nil {
				return *p
			}
			if err := deviceErr(m.devices...); err != nil {
				return err
			}
		}
		if d == nil || !rpcrelay.InUse() {
			continue
		}
		if err := relayErr(rpcrelay.ByAddress(C.GoString(C.ggml_backend_dev_description(d)))); err != nil {
			return err
		}
	}
	return nil
}

// wrapDeviceErr is deviceErr for an error that is not part of another one.
func wrapDeviceErr(devices ...C.ggml_backend_dev_t) error {
	if err := deviceErr(devices...); err != nil {
		return fmt.Errorf("ggml: %w", err)
	}
	return nil
}

// relayErr returns why the server of a relay is gone; nil when it is not.
func relayErr(r *rpcrelay.Relay) error {
	if r == nil {
		return nil
	}
	err := r.Err()
	if err == nil {
		return nil
	}
	return &lostServer{r.Endpoint, err}
}

// A lostServer is the error of a device whose server is gone.
type lostServer struct {
	endpoint string
	cause    error
}

func (e *lostServer) Error() string {
	return fmt.Sprintf("RPC server %s: %v: %v", e.endpoint, ErrDisconnected, e.cause)
}

func (e *lostServer) Unwrap() []error { return []error{ErrDisconnected, e.cause} }

// LostServer returns the server, for programs that report only it to their users.
func (e *lostServer) LostServer() string { return e.endpoint }

// An absentServer is why a server cannot be added: it is not gone, for it was not there.
type absentServer struct{ cause error }

func (e absentServer) Error() string { return e.cause.Error() }

func (e absentServer) Unwrap() []error { return []error{ErrDisconnected, e.cause} }

// rpcComputing has a lock for each device of a server: the graph that ggml's
// client remembers for a device is not safe for concurrent use.
var rpcComputing sync.Map // C.ggml_backend_dev_t → *sync.Mutex

// lockDevices locks the devices of the backends, which are locked.
func lockDevices(backends []*Backend) (unlock func()) {
	var locked []*sync.Mutex
	if rpcrelay.InUse() {
		for _, d := range sortedDevices(backends) {
			m, _ := rpcComputing.LoadOrStore(d, &sync.Mutex{})
			m.(*sync.Mutex).Lock()
			locked = append(locked, m.(*sync.Mutex))
		}
	}
	return func() {
		for _, m := range locked {
			m.Unlock()
		}
	}
}

// sortedDevices lists the RPC devices of the backends, each once and always in the same order.
func sortedDevices(backends []*Backend) []C.ggml_backend_dev_t {
	var list []C.ggml_backend_dev_t
	add := func(d C.ggml_backend_dev_t) {
		if (&Device{d}).isRPC() {
			list = append(list, d)
		}
	}
	for _, b := range backends {
		add(b.device.d)
		if m := metaOf(b.device.d); m != nil {
			for _, d := range m.devices {
				add(d)
			}
		}
	}
	slices.SortFunc(list, func(a, b C.ggml_backend_dev_t) int {
		return cmp.Compare(uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)))
	})
	return slices.Compact(list)
}

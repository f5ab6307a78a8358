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

// AddRPCServer connects to a server of package rpc, or to ggml's own server, at "host:port". It
// returns the backend of the server's devices, "RPC0" and so on, which [Devices] lists from now on.
// The same endpoint returns the same backend. The devices have memory, buffer types, backends,
// asynchronous copies and events like local ones. A device claims to support every op, and an
// unsupported op ends the server; this package's checks of ops are those for a server with a CPU.
//
// A server of package rpc serves several clients at once. ggml's own server serves one client, from
// the first object made of its devices until the last is closed. There is no encryption and no
// password.
//
// If a server dies, the network fails, or an answer takes more than a minute, the current and all
// later uses of its devices fail with [ErrDisconnected]. The answer to a graph may take longer, as
// long as the server shows on a second connection that it lives; ggml's own server has no such
// connection, so its failure goes unnoticed. For this check, data passes through a relay in this
// process and a port on loopback.
//
// A server computes a graph to its end. Compute nevertheless returns when its context ends; the
// next use of its backend or graph waits for the server, for a minute at most. C:
// ggml_backend_rpc_add_server, ggml_backend_rpc_reg, ggml_backend_register.
func AddRPCServer(endpoint string) (*Registry, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if n, errPort := strconv.ParseUint(port, 10, 16); err != nil || errPort != nil || n == 0 || host == "" {
		return nil, fmt.Errorf("ggml: RPC server %q: expected a host and a port, such as 127.0.0.1:50052", endpoint)
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
		return nil, fmt.Errorf("ggml: RPC server %s: ggml %s has protocol %d.%d, but this version of the package supports %d.%d", endpoint, Version(), C.RPC_PROTO_MAJOR_VERSION, C.RPC_PROTO_MINOR_VERSION, rpcwire.Major, rpcwire.Minor)
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

// forgetRPCServer makes AddRPCServer connect anew.
func forgetRPCServer(r *Registry) {
	rpcServers.Lock()
	defer rpcServers.Unlock()
	maps.DeleteFunc(rpcServers.byEndpoint, func(_ string, x *Registry) bool { return x.r == r.r })
}

func addRPCServer(rpc *Registry, endpoint string) (*Registry, error) {
	RemoteOps() // before their functions are sent
	relay, err := rpcrelay.New(endpoint, Version(), rpcrelay.Native{Op: C.GGML_OP_CUSTOM, ID: remoteID})
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
		// ggml's client queries the properties of a type only once: now.
		for i, d := range r.Devices() {
			d.BufferType()
			var ops []string
			if ops, err = relay.NativeOps(uint32(i)); err != nil {
				break
			}
			d.shareOps(ops)
		}
	}
	if refused := relay.Err(); refused != nil {
		err = absentServer{refused}
	}
	if err != nil {
		err = fmt.Errorf("ggml: RPC server %s: %w", endpoint, err)
	}
	if err != nil {
		if r.r == nil { // otherwise ggml's client keeps the address
			relay.Close()
		}
		return nil, err
	}
	defer lockRegistry()()
	C.ggml_backend_register(r.r)
	return r, nil
}

// RPCDevices lists the devices of all servers added by [AddRPCServer]. [Device.Properties] reports
// a device's free memory, [Device.BufferType] returns its memory, and [Device.NewBackend] opens it.
// C: ggml_backend_rpc_get_device_memory, ggml_backend_rpc_buffer_type, ggml_backend_rpc_init.
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
		return nil, fmt.Errorf("ggml: RPC %w: there is no server; add one with AddRPCServer", ErrNotLoaded)
	}
	return devices, nil
}

// IsRPC reports whether the backend is on a device of an RPC server.
// C: ggml_backend_is_rpc.
func (b *Backend) IsRPC() bool { return b != nil && b.device.isRPC() }

func (d *Device) isRPC() bool { return strings.HasPrefix(d.Registry().Name(), "RPC") }

// deviceErr returns the failure of one of the devices, or of a device inside a meta device; nil if
// none has failed.
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

// wrapDeviceErr is deviceErr for an error that stands alone.
func wrapDeviceErr(devices ...C.ggml_backend_dev_t) error {
	if err := deviceErr(devices...); err != nil {
		return fmt.Errorf("ggml: %w", err)
	}
	return nil
}

// relayErr returns why a relay's server is gone, or nil.
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

// LostServer returns the server's endpoint, for programs that show only it to their users.
func (e *lostServer) LostServer() string { return e.endpoint }

// An absentServer is the error of a server that cannot be added. Unlike a lostServer it never was
// connected.
type absentServer struct{ cause error }

func (e absentServer) Error() string { return e.cause.Error() }

func (e absentServer) Unwrap() []error { return []error{ErrDisconnected, e.cause} }

// rpcComputing has a lock for each device of a server: ggml's client caches a graph per device, and
// the cache is not safe for concurrent use.
var rpcComputing sync.Map // C.ggml_backend_dev_t → *sync.Mutex

// lockDevices locks the devices of the locked backends.
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

// sortedDevices lists the RPC devices of the backends, each once and in a fixed order.
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

package rpc_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/rpc"
)

// Invalid options are an error before any client is served.
func TestRefusedOptions(t *testing.T) {
	const endpoint = "127.0.0.1:50052"
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	busy := need.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer busy.Close()
	for _, c := range []struct {
		endpoint string
		options  rpc.Options
		devices  []*ggml.Device
		refused  string
	}{
		{"", rpc.Options{}, nil, "expected an IPv4 address and a port"},
		{"127.0.0.1", rpc.Options{}, nil, "expected an IPv4 address and a port"},
		{"localhost:50052", rpc.Options{}, nil, "expected an IPv4 address and a port"},
		{"127.0.0.1:0", rpc.Options{}, nil, "expected an IPv4 address and a port"},
		{"[::1]:50052", rpc.Options{}, nil, "expected an IPv4 address and a port"},
		{"0.0.0.0:50052", rpc.Options{}, nil, "set AnyAddress"},
		{busy.Addr().String(), rpc.Options{}, nil, "address already in use"},
		{endpoint, rpc.Options{Threads: -1}, nil, "-1 threads"},
		{endpoint, rpc.Options{Threads: ggml.MaxThreads + 1}, nil, "513 threads: a device takes 1 to 512"},
		{endpoint, rpc.Options{Memory: -1}, nil, "clients cannot have -1 bytes of memory; 0 means all"},
		{endpoint, rpc.Options{CacheSize: -1}, nil, "a cache cannot have -1 bytes"},
		{endpoint, rpc.Options{CacheDir: "server_test.go"}, nil, "is not a folder"},
		{endpoint, rpc.Options{Grace: -1}, nil, "cannot be negative"},
		{endpoint, rpc.Options{}, []*ggml.Device{cpu, nil}, "a device is nil"},
		{endpoint, rpc.Options{}, []*ggml.Device{cpu, {}}, ggml.ErrZeroValue.Error()},
	} {
		require.ErrorContains(t, rpc.Serve(t.Context(), c.endpoint, c.options, c.devices...), c.refused)
	}
}

// Rpc-server lets programs on other machines compute on this machine's devices, through ggml.AddRPCServer or
// the --rpc of llama.cpp's programs. It runs until it is interrupted.
//
// The protocol has no encryption and knows no users: listen on a loopback
// address, or in a private network.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/rpc"
)

type program struct {
	Listen     string        `name:"listen" basic:"" short:"l" default:"127.0.0.1:50052" placeholder:"IP:PORT" help:"IPv4 address and port." group:"Network"`
	AnyAddress bool          `name:"any-address" basic:"" help:"Allow an address that other machines reach. There is no password and no encryption: every program that reaches it can compute on the devices, so use it only in a private network." group:"Network"`
	Clients    int           `name:"clients" range:"[1,4096]" default:"16" help:"Programs served at once; others wait." group:"Network"`
	Idle       time.Duration `name:"idle" placeholder:"TIME" default:"10m" help:"How long a program may be idle while another waits for a place or for memory; then it is disconnected." group:"Network"`
	Grace      time.Duration `name:"grace" placeholder:"TIME" default:"1m" help:"How long a running computation may continue when the server is stopped; a second interrupt ends it at once." group:"Network"`

	Device  []string `name:"device" aliases:"devices" basic:"" placeholder:"NAME,…" help:"Devices to offer; by default the GPUs, or the CPU without a GPU. An unknown name lists this machine's devices." group:"Devices"`
	Threads int      `name:"threads" basic:"" short:"t" range:"[0,)" help:"CPU threads for each program; 0 is one per core." group:"Devices"`
	Memory  int      `name:"memory" basic:"" range:"[0,)" placeholder:"MIB" help:"Memory of each device for all clients together, in MiB. 0 is all memory of a GPU, or the memory of the CPU that is free at the start. Graphs and messages beyond 16 MiB count, too." group:"Devices"`

	Cache     string `name:"cache" basic:"" placeholder:"FOLDER" help:"Cache weights in this folder, which is created if missing, so that the next program with the same weights need not send them. Programs that share a cache trust each other." group:"Cache"`
	CacheSize int    `name:"cache-size" range:"[0,)" default:"65536" placeholder:"MIB" help:"Largest size of the cache, in MiB; the least recently used weights are removed first. 0 for any size." group:"Cache"`
}

func main() {
	var p program
	cli.Parse("rpc-server", &p, kong.Description(
		"Offer the devices of this machine to programs on others: to --rpc of finetune, generate and pretrain, and of llama.cpp's programs.\n\n"+
			"Example: rpc-server --listen 10.0.0.2:50052 --any-address --memory 8192"))
	cli.Main("rpc-server", func(ctx context.Context, _ io.Writer) error { return p.run(ctx, os.Stderr) })
}

func (p *program) run(ctx context.Context, log io.Writer) error {
	devices, err := choose(p.Device)
	if err != nil {
		return err
	}
	if err := cli.CheckThreads(p.Threads); err != nil {
		return err
	}
	address, err := netip.ParseAddrPort(p.Listen)
	switch {
	case err != nil || !address.Addr().Is4() || address.Port() == 0:
		return fmt.Errorf("--listen %s: expected an IPv4 address and a port, such as 127.0.0.1:50052", p.Listen)
	case p.Idle <= 0:
		return fmt.Errorf("--idle %v: it must be more than 0", p.Idle)
	case p.Grace <= 0:
		return fmt.Errorf("--grace %v: it must be more than 0", p.Grace)
	case address.Addr().IsLoopback():
	case !p.AnyAddress:
		return fmt.Errorf("--listen %s: every program that reaches this address could use the devices; add --any-address to allow that", p.Listen)
	default:
		fmt.Fprintf(log, "rpc-server: every program that reaches %s can use the devices: keep it in a private network\n", p.Listen)
	}
	if err := p.makeCache(); err != nil {
		return err
	}
	memory := int64(p.Memory) << 20
	if memory == 0 {
		memory = hostMemory(devices)
	}
	ggml.SetLogger(slog.New(slog.NewTextHandler(log, nil)))
	fmt.Fprintf(log, "rpc-server: %s, on %s\n", describe(devices), p.Listen)
	err = rpc.Serve(ctx, p.Listen, rpc.Options{
		Threads: p.Threads, Memory: memory, Clients: p.Clients, Idle: p.Idle, Grace: p.Grace,
		CacheDir: p.Cache, CacheSize: int64(p.CacheSize) << 20, AnyAddress: p.AnyAddress,
	}, devices...)
	return cli.Interrupted(ctx, err, "the server has stopped")
}

// makeCache creates the folder of the cache, if a flag names one.
func (p *program) makeCache() error {
	if p.Cache == "" {
		return nil
	}
	if info, err := os.Stat(p.Cache); err == nil && !info.IsDir() {
		return fmt.Errorf("--cache %s is not a folder", p.Cache)
	}
	if err := filelink.MkdirAll(p.Cache, 0o755); err != nil {
		return fmt.Errorf("--cache %s: %w", p.Cache, filelink.SystemError(err))
	}
	return nil
}

// hostMemory returns each device's share of the system's free memory if all devices are CPUs; otherwise 0,
// which stands for the memory that they report. A CPU reports all memory of the machine, and a client that
// allocates it would kill the server.
func hostMemory(devices []*ggml.Device) int64 {
	if slices.ContainsFunc(devices, func(d *ggml.Device) bool { return d.Type() != ggml.CPU }) {
		return 0
	}
	return layout.AvailableHostMemory() / int64(len(devices))
}

func describe(devices []*ggml.Device) string {
	var names []string
	for _, d := range devices {
		names = append(names, fmt.Sprintf("%s (%s)", d.Name(), d.Description()))
	}
	return strings.Join(names, ", ")
}

// choose finds devices by name. Without names it returns the GPUs, or the CPU if there is no GPU.
func choose(names []string) ([]*ggml.Device, error) {
	var devices []*ggml.Device
	for _, name := range names {
		d, err := placement.Find(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		devices = append(devices, d)
	}
	if devices != nil {
		return devices, nil
	}
	all, err := ggml.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Type() == ggml.GPU || d.Type() == ggml.IntegratedGPU {
			devices = append(devices, d)
		}
	}
	if devices == nil {
		cpu, err := ggml.DeviceByType(ggml.CPU)
		if err != nil {
			return nil, fmt.Errorf("no device to offer: %w", err)
		}
		devices = append(devices, cpu)
	}
	return devices, nil
}

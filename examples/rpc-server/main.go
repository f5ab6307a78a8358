// Rpc-server lets programs on other machines compute on the devices of this
// one, by ggml.AddRPCServer or the --rpc of llama.cpp's programs. It runs until
// it is interrupted.
//
// The protocol has no encryption and knows no users: listen on a loopback
// address, or in a private network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
)

func main() {
	cli.Main("rpc-server", func(ctx context.Context, _ io.Writer) error { return run(ctx, os.Args[1:], os.Stderr) })
}

func run(ctx context.Context, args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("rpc-server", flag.ContinueOnError)
	flags.SetOutput(usage)
	listen := flags.String("listen", "127.0.0.1:50052", "IPv4 `address` and port")
	names := flags.String("devices", "", "`names` of the devices to offer, with commas; the GPUs if empty, or the CPU")
	threads := flags.Int("threads", 0, "`number` of threads of the CPU; 0 for its cores")
	memory := flags.Int("memory", 0, "`MiB` of each device that a client can have; 0 for all")
	cache := flags.String("cache", "", "`folder` to keep large weights in for the next client")
	public := flags.Bool("any-address", false, "allow an address that is no loopback one")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -help lists the flags", flags.Arg(0))
	}
	devices, err := choose(*names)
	if err != nil {
		return err
	}
	if err := cli.CheckThreads(*threads); err != nil {
		return err
	}
	if *memory < 0 {
		return fmt.Errorf("--memory %d: it must be at least 0", *memory)
	}
	if address, err := netip.ParseAddrPort(*listen); err == nil && !address.Addr().IsLoopback() {
		if !*public {
			return fmt.Errorf("--listen %s: every program that reaches this address could use the devices; give --any-address too if that is meant", *listen)
		}
		fmt.Fprintf(usage, "rpc-server: every program that reaches %s uses the devices and reads their memory: keep it in a private network\n", *listen)
	}
	options := ggml.RPCServerOptions{Threads: *threads, CacheDir: *cache, Memory: int64(*memory) << 20, AnyAddress: *public}
	return ggml.ServeRPC(ctx, *listen, options, devices...)
}

// choose finds devices by their names. GPUs come first in what it finds without
// names, and the CPU only where there is none.
func choose(names string) ([]*ggml.Device, error) {
	var devices []*ggml.Device
	if names != "" {
		for name := range strings.SplitSeq(names, ",") {
			d, err := ggml.DeviceByName(strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			devices = append(devices, d)
		}
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

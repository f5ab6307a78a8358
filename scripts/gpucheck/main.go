// Gpucheck measures a machine with a GPU: how fast this project trains and generates, relative to the card's
// limits and to other programs, and whether its ops are correct. It writes one page.
//
//	gpucheck [-short] [-only PARTS] [-limit TIME] [-page FILE]
//
// scripts/gpu-check carries it to a machine that has only a driver. Each part is a separate process with a time
// limit; if it fails or takes too long, the others still run. Parts run in order of importance, and the page is
// written after each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goggml/ggml"
)

type options struct {
	page     string
	short    bool
	only     string
	limit    time.Duration // of all parts
	patience int           // factor of each part's limit
	device   string        // device that trains and generates
	sizes    []string      // of models
	bases    []string
	contexts []int

	lossBases []string // matrix types of the model whose losses are compared
	tokens    int      // minimum tokens of a step
	product   int      // rows, columns and depth of the product that measures the card's ceiling
	programs  string
	models    string // folder of the models

	// Options of a part's own process.
	part            string
	bf16, bandwidth float64 // measured limits of the card, FLOP/s and bytes/s
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpucheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.part != "" {
		return o.measure(ctx)
	}
	return o.check(ctx, args)
}

func parse(args []string) (*options, error) {
	o := &options{lossBases: []string{"F32", "F16", "Q8_0", "Q4_K"}}
	f := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	f.StringVar(&o.page, "page", "gpu-check.md", "the `file` of the page")
	f.BoolVar(&o.short, "short", false, "what says most in ten minutes")
	f.StringVar(&o.only, "only", "", "the `parts` to run, separated by commas, by how their names begin: "+strings.Join(partNames(), ", "))
	f.DurationVar(&o.limit, "limit", 0, "the `time` of all parts: none begins that would end after it; 0 stands for 9m with -short, else for 90m")
	f.IntVar(&o.patience, "patience", 1, "a `factor` of the limit of each part")
	f.StringVar(&o.device, "device", "", "the `device` that trains and generates; the first of CUDA, or else of any GPU")
	f.StringVar(&o.programs, "programs", "", "the `folder` with llama-bench and test-backend-ops")
	f.StringVar(&o.models, "models", "", "the `folder` for models; by default in memory, or else among temporary files")
	sizes := f.String("sizes", "1.1B,8B", "the models, by their `sizes`")
	bases := f.String("bases", "BF16,Q4_K,Q8_0", "the `types` of their matrices")
	contexts := f.String("contexts", "512,4096,16384", "the `lengths` of rows")
	f.IntVar(&o.tokens, "tokens", 4096, "the `tokens` of a step, where a row has fewer")
	f.IntVar(&o.product, "product", 8192, "the `size` of the product that the rest is measured by")
	f.StringVar(&o.part, "part", "", "")
	f.Float64Var(&o.bf16, "bf16", 0, "")
	f.Float64Var(&o.bandwidth, "bandwidth", 0, "")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q; -help lists the flags", f.Arg(0))
	}
	o.sizes, o.bases = strings.Split(*sizes, ","), strings.Split(*bases, ",")
	for _, text := range strings.Split(*contexts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-contexts: %q is not a length", text)
		}
		o.contexts = append(o.contexts, n)
	}
	if o.short {
		o.contexts = slices.DeleteFunc(o.contexts, func(n int) bool { return n > 4096 })
	}
	if o.limit == 0 {
		o.limit = 90 * time.Minute
		if o.short {
			o.limit = 9 * time.Minute
		}
	}
	for _, size := range o.sizes {
		if _, known := shapes[size]; !known {
			return nil, fmt.Errorf("-sizes: there is no model %q", size)
		}
	}
	for _, base := range o.bases {
		if _, err := ggml.ParseType(base); err != nil {
			return nil, fmt.Errorf("-bases: %w", err)
		}
	}
	return o, nil
}

// gpu returns the device that trains and generates.
func (o *options) gpu() (*ggml.Device, error) {
	if o.device != "" {
		return ggml.DeviceByName(o.device)
	}
	devices, err := ggml.CUDADevices()
	if err == nil && len(devices) > 0 {
		return devices[0], nil
	}
	others, listErr := gpus()
	if listErr != nil || len(others) > 0 {
		return append(others, nil)[0], listErr
	}
	return nil, errors.Join(errors.New("there is no GPU"), err)
}

// gpus returns all devices except processors.
func gpus() ([]*ggml.Device, error) {
	devices, err := ggml.Devices()
	return slices.DeleteFunc(devices, func(d *ggml.Device) bool {
		return d.Type() == ggml.CPU || d.Type() == ggml.Accelerator || d.Type() == ggml.MetaDevice
	}), err
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/dashboard"
	"github.com/goggml/ggml/examples/internal/training"
)

// dashboardCommand shows runs in a browser.
type dashboardCommand struct {
	Folder string `arg:"" optional:"" name:"folder" default:"." help:"Where to look for runs: in this folder and two below it; by default the working directory."`
	Listen string `name:"listen" basic:"" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the page; by default any free port, on this machine alone. An address that other machines reach requires a token, which is printed with it."`
}

// Run serves until it is interrupted.
func (c *dashboardCommand) Run(ctx context.Context, out io.Writer) error {
	if info, err := os.Stat(c.Folder); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is a file; name a folder of runs", c.Folder)
	}
	s, err := dashboard.Listen(c.Listen, c.Folder)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer s.Close()
	if _, err := fmt.Fprintln(out, s.Describe()); err != nil {
		return err
	}
	return s.Serve(ctx)
}

// dashboardAddress is the listen address of a run's page, for kong. The flag needs no value.
type dashboardAddress string

// IsBool allows the flag without a value.
func (dashboardAddress) IsBool() bool { return true }

// Decode reads the address after =, if any.
func (a *dashboardAddress) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		text, _ := ctx.Scan.Pop().Value.(string)
		switch text {
		case "true":
		case "false":
			*a = ""
			return nil
		default:
			if _, _, err := net.SplitHostPort(text); err != nil {
				return fmt.Errorf("expected HOST:PORT or no value, but got %q", text)
			}
			*a = dashboardAddress(text)
			return nil
		}
	}
	*a = dashboard.DefaultAddress
	return nil
}

// serveDashboard shows this run and the runs beside its folder until the context ends, if a flag requests it.
func (p *trainCommand) serveDashboard(ctx context.Context, folder *training.RunFolder) (stop func(), err error) {
	if p.Dashboard == "" || !p.Group().Writes() {
		return func() {}, nil
	}
	if folder.Folder == nil {
		return nil, fmt.Errorf("--dashboard shows the folder of a run; name one with --run-dir")
	}
	s, err := dashboard.Listen(string(p.Dashboard), filepath.Dir(filepath.Clean(folder.Path)))
	if err != nil {
		return nil, fmt.Errorf("--dashboard %s: %w", cmp.Or(string(p.Dashboard), dashboard.DefaultAddress), err)
	}
	s.Open(filepath.Clean(folder.Path))
	fmt.Fprintln(os.Stderr, s.Describe())
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "the dashboard has stopped: %v\n", err)
		}
	}()
	return func() { cancel(); <-done; s.Close() }, nil
}

package clitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/rpc"
)

// serverProgram is the name of a program that serves the CPU to the programs under test.
const serverProgram = "serve-rpc"

// serveRPC is the program serve-rpc ENDPOINT BYTES. BYTES limits the memory of clients; 0 is no limit. The
// program ends when its standard input does.
func serveRPC() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	memory, _ := strconv.ParseInt(os.Args[2], 10, 64)
	fmt.Fprintln(os.Stderr, rpc.Serve(context.Background(), os.Args[1], rpc.Options{Threads: 1, Memory: memory}))
	os.Exit(1)
}

// serve is a command of scripts: serve NAME [BYTES] starts a server until the script ends, and sets the
// variable NAME to its endpoint.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: serve NAME [BYTES]")
	}
	memory := "0"
	if len(args) == 2 {
		memory = args[1]
	}
	endpoint, _, stop, err := startServer(memory)
	ts.Check(err)
	ts.Defer(stop)
	ts.Setenv(args[0], endpoint)
}

// StartServer starts a server that runs until the test ends; the test may stop it earlier.
func StartServer(t *testing.T) (endpoint string, process *exec.Cmd) { return StartSmallServer(t, "0") }

// StartSmallServer starts a server that limits the memory of clients in bytes; 0 is no limit.
func StartSmallServer(t *testing.T, memory string) (endpoint string, process *exec.Cmd) {
	t.Helper()
	endpoint, process, stop, err := startServer(memory)
	require.NoError(t, err)
	t.Cleanup(stop)
	return endpoint, process
}

func startServer(memory string) (endpoint string, process *exec.Cmd, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, nil, err
	}
	for range 5 { // another program may take the port
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return "", nil, nil, err
		}
		endpoint := l.Addr().String()
		l.Close()
		server := &exec.Cmd{Path: self, Args: []string{serverProgram, endpoint, memory}}
		stdin, err := server.StdinPipe()
		if err != nil {
			return "", nil, nil, err
		}
		if err := server.Start(); err != nil {
			return "", nil, nil, err
		}
		ended := make(chan struct{})
		go func() {
			server.Wait()
			close(ended)
		}()
		if listens(endpoint, ended) {
			return endpoint, server, func() {
				stdin.Close()
				server.Process.Signal(syscall.SIGCONT) // in case a test has stopped it
				<-ended
			}, nil
		}
	}
	return "", nil, nil, errors.New("no server comes up")
}

// listens waits until the server listens or has ended, and reports whether it listens.
func listens(endpoint string, ended <-chan struct{}) bool {
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if c, err := net.Dial("tcp4", endpoint); err == nil {
			c.Close()
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

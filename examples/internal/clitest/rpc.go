package clitest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/goggml/ggml"
)

// serverProgram is the name of a program that serves the CPU to the programs under test.
const serverProgram = "serve-rpc"

// serveRPC is that program: serve-rpc ENDPOINT BYTES, of which clients can have so many, 0 for all. It ends with its
// standard input.
func serveRPC() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	memory, _ := strconv.ParseInt(os.Args[2], 10, 64)
	fmt.Fprintln(os.Stderr, ggml.ServeRPC(context.Background(), os.Args[1], ggml.RPCServerOptions{Threads: 1, Memory: memory}))
	os.Exit(1)
}

// serve starts a server for the rest of a script: serve NAME [BYTES] gives its endpoint to the variable.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: serve NAME [BYTES]")
	}
	memory := "0"
	if len(args) == 2 {
		memory = args[1]
	}
	self, err := os.Executable()
	ts.Check(err)
	for range 5 { // another program may take the port
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		ts.Check(err)
		endpoint := l.Addr().String()
		ts.Check(l.Close())
		server := &exec.Cmd{Path: self, Args: []string{serverProgram, endpoint, memory}}
		stdin, err := server.StdinPipe()
		ts.Check(err)
		ts.Check(server.Start())
		ended := make(chan struct{})
		go func() {
			server.Wait()
			close(ended)
		}()
		ts.Defer(func() {
			stdin.Close()
			<-ended
		})
		if listens(endpoint, ended) {
			ts.Setenv(args[0], endpoint)
			return
		}
	}
	ts.Fatalf("no server comes up")
}

// listens waits until a server listens, or has ended.
func listens(endpoint string, ended <-chan struct{}) bool {
	for begin := time.Now(); time.Since(begin) < 20*time.Second; {
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

package optest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/baseline"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/rpc"
)

// serverEnv makes the test binary an RPC server: a separate process, because it may die.
const serverEnv = "GOGGML_TEST_RPC_SERVER"

// optionsEnv has the server's options as JSON.
const optionsEnv = "GOGGML_TEST_RPC_OPTIONS"

// ServerOptions are the settings of a test server.
type ServerOptions struct {
	Threads int   // 0 for one
	Memory  int64 // limit for clients in bytes; 0 for none
	Stock   bool  // ggml's own server
	Plain   bool  // without a GEMM library, and so without the kernels of training
}

// logEnv makes the server log what it refuses.
const logEnv = "GOGGML_TEST_RPC_LOG"

// Main is the TestMain of a package that uses [Devices] or [StartRPCServer].
func Main(m *testing.M) {
	serveIfAsked()
	testutil.Main(tests{m})
}

// tests closes what tests share. What a test leaves open is then closed only by the garbage collector, with a
// warning.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	closeDevices()
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	return code
}

func serveIfAsked() {
	endpoint := os.Getenv(serverEnv)
	if endpoint == "" {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}()
	if os.Getenv(logEnv) == "" {
		ggml.SetLogger(nil)
	}
	var o ServerOptions
	err := json.Unmarshal([]byte(os.Getenv(optionsEnv)), &o)
	if err == nil && o.Stock {
		err = serveStock(endpoint, o)
	} else if err == nil {
		err = rpc.Serve(context.Background(), endpoint, rpc.Options{Threads: max(1, o.Threads), Memory: o.Memory})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serveStock returns if the server does not start.
func serveStock(endpoint string, o ServerOptions) error {
	if err := ggml.LoadBackends(); err != nil {
		return err
	}
	baseline.ServeRPC(endpoint, max(1, o.Threads))
	return errors.New("ggml's server has ended")
}

// An RPCServer is a server in a separate process.
type RPCServer struct {
	Endpoint string
	options  ServerOptions
	process  *exec.Cmd
	stdin    io.Closer
	ended    chan struct{} // closed when the process has ended
}

// StartRPCServer starts a server that runs until the test ends.
func StartRPCServer(t testing.TB) *RPCServer { return StartRPCServerWith(t, ServerOptions{}) }

// StartRPCServerWith starts a server with options that runs until the test ends.
func StartRPCServerWith(t testing.TB, o ServerOptions) *RPCServer {
	s := newRPCServer(t, o)
	t.Cleanup(s.Kill)
	return s
}

// newRPCServer starts a server on a free port, and adds its devices.
func newRPCServer(t testing.TB, o ServerOptions) *RPCServer {
	s := &RPCServer{options: o}
	for range 5 { // another program may take the port
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		s.Endpoint = l.Addr().String()
		require.NoError(t, l.Close())
		s.Start(t)
		if s.Answers(func() error { _, err := ggml.AddRPCServer(s.Endpoint); return err }) {
			return s
		}
		s.Kill()
	}
	require.FailNow(t, "no server comes up")
	return nil
}

// Start starts the process, again after Kill.
func (s *RPCServer) Start(t testing.TB) {
	self := need.Value(os.Executable())(t)
	options := need.Value(json.Marshal(s.options))(t)
	s.process = exec.Command(self)
	s.process.Env = append(os.Environ(), serverEnv+"="+s.Endpoint, optionsEnv+"="+string(options))
	if s.options.Plain {
		s.process.Env = append(s.process.Env, "GOGGML_BLAS=none")
	}
	s.stdin = need.Value(s.process.StdinPipe())(t)
	s.process.Stderr = os.Stderr
	require.NoError(t, s.process.Start())
	process, ended := s.process, make(chan struct{})
	s.ended = ended
	go func() {
		process.Wait()
		close(ended)
	}()
}

// Answers retries ask until the server answers, which may be slow to start, or has ended, for example because
// its port is taken.
func (s *RPCServer) Answers(ask func() error) bool {
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if ask() == nil {
			return true
		}
		select {
		case <-s.ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// Signal sends a signal to the process, which may suspend it until [RPCServer.Kill].
func (s *RPCServer) Signal(t testing.TB, signal os.Signal) {
	require.NoError(t, s.process.Process.Signal(signal))
}

// Kill kills the process.
func (s *RPCServer) Kill() {
	if s.process != nil {
		s.process.Process.Kill()
		<-s.ended
		s.process = nil
	}
}

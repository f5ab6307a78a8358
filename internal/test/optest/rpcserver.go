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
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/rpc"
)

// serverEnv makes the test binary an RPC server: one that dies is a process of its own.
const serverEnv = "GOGGML_TEST_RPC_SERVER"

// optionsEnv are its options, as JSON.
const optionsEnv = "GOGGML_TEST_RPC_OPTIONS"

// ServerOptions are the settings of a test server.
type ServerOptions struct {
	Threads int   // 0 for one
	Memory  int64 // bytes that clients can have; 0 for all
	Stock   bool  // it is ggml's own
}

// logEnv makes the server log what it refuses.
const logEnv = "GOGGML_TEST_RPC_LOG"

// Main runs the tests of a package that uses [Devices] or [StartRPCServer]: its TestMain.
func Main(m *testing.M) {
	serveIfAsked()
	testutil.Main(tests{m})
}

// tests close what they share. After the end of a test the only thing that still closes what it left open is the
// garbage collector, with a warning.
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

// serveStock returns when the server does not start.
func serveStock(endpoint string, o ServerOptions) error {
	if err := ggml.LoadBackends(); err != nil {
		return err
	}
	baseline.ServeRPC(endpoint, max(1, o.Threads))
	return errors.New("ggml's server has ended")
}

// An RPCServer is a server in a process of its own.
type RPCServer struct {
	Endpoint string
	options  ServerOptions
	process  *exec.Cmd
	stdin    io.Closer
	ended    chan struct{} // closed when the process has ended
}

// StartRPCServer starts a server, which runs until the test ends.
func StartRPCServer(t testing.TB) *RPCServer { return StartRPCServerWith(t, ServerOptions{}) }

// StartRPCServerWith is StartRPCServer with options.
func StartRPCServerWith(t testing.TB, o ServerOptions) *RPCServer {
	s := newRPCServer(t, o)
	t.Cleanup(s.Kill)
	return s
}

// newRPCServer starts a server on a free port, and adds it.
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
	self, err := os.Executable()
	require.NoError(t, err)
	options, err := json.Marshal(s.options)
	require.NoError(t, err)
	s.process = exec.Command(self)
	s.process.Env = append(os.Environ(), serverEnv+"="+s.Endpoint, optionsEnv+"="+string(options))
	s.stdin, err = s.process.StdinPipe()
	require.NoError(t, err)
	s.process.Stderr = os.Stderr
	require.NoError(t, s.process.Start())
	process, ended := s.process, make(chan struct{})
	s.ended = ended
	go func() {
		process.Wait()
		close(ended)
	}()
}

// Answers tries until the server, which may be slow to start, answers; or until it has
// ended, as where its port is taken.
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

// Signal sends a signal to the process, which may stop it until [RPCServer.Kill].
func (s *RPCServer) Signal(t testing.TB, signal os.Signal) {
	require.NoError(t, s.process.Process.Signal(signal))
}

// Kill ends the process.
func (s *RPCServer) Kill() {
	if s.process != nil {
		s.process.Process.Kill()
		<-s.ended
		s.process = nil
	}
}

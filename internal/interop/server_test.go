//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// A stockServer is a llama-server process.
type stockServer struct {
	url     string
	command *exec.Cmd
	log     *bytes.Buffer
}

// endWithParent ends the process, and with it its servers, when the go command that started it is killed.
var endWithParent = sync.OnceFunc(func() {
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent {
			time.Sleep(time.Second)
		}
		os.Exit(1)
	}()
})

// startServer starts a server with additional flags, and waits until it answers.
func startServer(t testing.TB, model string, flags ...string) *stockServer {
	endWithParent()
	listener := need.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close())
	s := &stockServer{url: "http://" + address.String(), log: &bytes.Buffer{}}
	s.command = exec.Command(filepath.Join(stock, "run"), append([]string{
		"llama-server", "-m", model, "--host", "127.0.0.1", "--port", fmt.Sprint(address.Port), "--jinja", "--no-warmup", "-t", "1", "-np", "1",
	}, flags...)...)
	s.command.Stdout, s.command.Stderr = s.log, s.log
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, s.command.Start())
	t.Cleanup(func() { s.stop(t) })
	require.Eventually(t, func() bool {
		answer, err := http.Get(s.url + "/health")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "llama-server does not answer:\n%s", s.log)
	return s
}

func (s *stockServer) stop(t testing.TB) {
	if s.command.ProcessState != nil {
		return
	}
	require.NoError(t, s.command.Process.Kill())
	_ = s.command.Wait() // it was killed
}

// post sends JSON, and returns false if the server rejects it.
func (s *stockServer) post(t *testing.T, path string, request, answer any) bool {
	body := need.Value(json.Marshal(request))(t)
	response := need.Value(http.Post(s.url+path, "application/json", bytes.NewReader(body)))(t)
	defer response.Body.Close()
	content := need.Value(io.ReadAll(response.Body))(t)
	if response.StatusCode != http.StatusOK {
		return false
	}
	require.NoError(t, json.Unmarshal(content, answer))
	return true
}

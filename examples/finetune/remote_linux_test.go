package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/rpcwire"
	"github.com/goggml/ggml/internal/test/loopback"
	"github.com/goggml/ggml/internal/test/need"
)

// A lender is a server process behind a proxy.
type lender struct {
	*exec.Cmd
	address  string // address of the server itself
	endpoint string // endpoint of the proxy
	carried  atomic.Int64

	after atomic.Int64 // bytes that clients send before the fault; 0 for no fault
	mute  bool         // later connections are not affected
	fault func(s *lender, client net.Conn)
	once  sync.Once
}

// lend starts a server. Once clients have sent after bytes, the fault occurs on each of their connections, when
// the last complete request is answered.
func lend(t *testing.T, after int64, fault func(s *lender, client net.Conn)) *lender {
	t.Helper()
	s := &lender{fault: fault}
	s.after.Store(after)
	s.address, s.Cmd = clitest.StartServer(t)
	s.endpoint = s.proxy(t)
	return s
}

// proxy opens another endpoint of the server.
func (s *lender) proxy(t *testing.T) string {
	t.Helper()
	return loopback.Serve(t, s.forward).Addr().String()
}

func (s *lender) forward(client net.Conn) {
	begun := s.isFaulty()
	if begun && !s.mute {
		s.fault(s, client)
		return
	}
	server, err := net.Dial("tcp4", s.address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		buffer := make([]byte, 16<<10)
		for s.isFaulty() == begun {
			n, err := client.Read(buffer)
			s.carried.Add(int64(n))
			if _, failed := server.Write(buffer[:n]); err != nil || failed != nil {
				break
			}
		}
		if s.isFaulty() && !begun {
			s.fault(s, nil)
		}
		server.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(client, server)
	if s.isFaulty() && !begun {
		s.fault(s, client)
	}
}

func (s *lender) isFaulty() bool {
	after := s.after.Load()
	return after > 0 && s.carried.Load() >= after
}

// Faults of servers: an action that happens once, and one per connection.
var faults = map[string]struct {
	does func(s *lender, client net.Conn)
	says string
}{
	"killed":  {func(s *lender, _ net.Conn) { s.signal(syscall.SIGKILL) }, "it has closed the connection"},
	"stopped": {func(s *lender, client net.Conn) { s.signal(syscall.SIGSTOP); hold(client) }, "it has not answered for 2s"},
	"stalls":  {func(_ *lender, client net.Conn) { hold(client) }, "it has not answered for 2s"},
	"garbage": {func(_ *lender, client net.Conn) {
		if client != nil {
			fmt.Fprint(client, strings.Repeat("and now for something else", 1000))
			hold(client)
		}
	}, "it answers in a way that this package does not know"},
}

func (s *lender) signal(sig syscall.Signal) {
	s.once.Do(func() { _ = s.Process.Signal(sig) })
}

// hold reads a client's data and never answers.
func hold(client net.Conn) {
	if client != nil {
		_, _ = io.Copy(io.Discard, client)
	}
}

// remoteRun returns a run in a folder, on a server.
func remoteRun(files, folder, endpoint string) *exec.Cmd {
	c := folderRun(files, folder, "--rpc", endpoint)
	c.Env = append(os.Environ(), stallEnv+"=2s")
	return c
}

// requireFailure requires that a program ends with a nonzero exit code, prints certain texts, and uses no more
// than this memory.
func requireFailure(t *testing.T, c *exec.Cmd, memory int64, says ...string) {
	t.Helper()
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	require.Equal(t, 1, exit.ExitCode(), string(out))
	for _, text := range says {
		require.Contains(t, string(out), text)
	}
	require.Less(t, peak(c), memory, "bytes of memory")
}

// peak returns the peak memory of a process, in bytes.
func peak(c *exec.Cmd) int64 { return c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10 }

// The loss of a server during a run, of any kind, is an error that names the server. The same command with
// another server continues from the last checkpoint, and ends with the files of an undisturbed run.
func TestServerIsLost(t *testing.T) {
	need.Time(t, "trains many times")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	whole := lend(t, 0, nil)
	undisturbed := remoteRun(files, "whole", whole.endpoint)
	need.Output(t, undisturbed)
	want, all := contents(t, filepath.Join(files, "whole")), whole.carried.Load()
	for what, f := range faults {
		for when, after := range map[string]int64{"training": all * 2 / 3, "loading": 20_000} {
			if when == "loading" && what != "killed" {
				continue
			}
			t.Run(what+" "+when, func(t *testing.T) {
				t.Parallel()
				folder := what + "-" + when
				s := lend(t, after, f.does)
				says := "\nfinetune: RPC server " + s.endpoint + ": server is gone: " + f.says + "; start it again"
				remedy := ", and repeat the command\n"
				if when == "training" {
					says, remedy = says+": "+folder+"/adapter.gguf has the result of step ", "; the same command continues the run\n"
				}
				requireFailure(t, remoteRun(files, folder, s.endpoint), peak(undisturbed)+64<<20, says, remedy)
				require.Equal(t, when == "training", cli.IsFile(filepath.Join(files, folder, "checkpoint.gguf")))
				out := need.Output(t, remoteRun(files, folder, whole.address))
				require.Equal(t, when == "training", strings.Contains(out, "continuing from"), out)
				got := contents(t, filepath.Join(files, folder))
				require.ElementsMatch(t, keys(want), keys(got))
				for name := range want {
					require.Equal(t, want[name], got[name], name)
				}
			})
		}
	}
}

// A server that is mute on the connection with the graph but alive on others is waited for. An interrupt
// reports that, and ends the wait within the time allowed for other answers.
func TestServerIsMute(t *testing.T) {
	need.Time(t, "waits for seconds")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	s := lend(t, 0, func(_ *lender, client net.Conn) { hold(client) })
	s.mute = true
	r := startRun(t, remoteRun(files, "mute", s.endpoint))
	isSaid := func(format string, args ...any) func() bool {
		return func() bool { return regexp.MustCompile(fmt.Sprintf(format, args...)).MatchString(r.output()) }
	}
	require.Eventually(t, func() bool { return cli.IsFile(filepath.Join(files, "mute", "checkpoint.gguf")) }, time.Minute, time.Millisecond, r.output())
	s.after.Store(s.carried.Load() + 1)
	// Longer than requests other than graphs may take.
	require.Eventually(t, isSaid(`waiting for RPC server %s: no answer for [3-9]s; an interrupt ends the run within 2s\n`, s.endpoint), time.Minute, time.Millisecond, r.output())
	require.NoError(t, r.Process.Signal(os.Interrupt))
	r.requireFailure(t)
	require.Regexp(t, fmt.Sprintf(`interrupted: RPC server %s has not answered for \d+s; waiting at most [01]s more; a second interrupt ends the program at once\n`, s.endpoint), r.output())
	require.Contains(t, r.output(), "RPC server "+s.endpoint)
	require.Contains(t, r.output(), "it has not answered for 2s")
}

func keys(m map[string]string) (list []string) {
	for name := range maps.Keys(m) {
		list = append(list, name)
	}
	return list
}

// A server that does not speak the protocol is an error that names it, before anything is written and in
// bounded memory.
func TestServerIsNone(t *testing.T) {
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	hello := func(major, minor byte) []byte {
		return append([]byte{28, 0, 0, 0, 0, 0, 0, 0, major, minor, 0, 0}, make([]byte, 24)...)
	}
	for what, c := range map[string]struct {
		answers [][]byte // for one request after the other; nil ends the answers
		says    string
	}{
		"another version":  {[][]byte{hello(3, 6)}, "it is not an RPC server of ggml with protocol 10.0; start it with ggml " + ggml.Version()},
		"garbage":          {[][]byte{[]byte("HTTP/1.1 400 Bad Request, as this is quite another kind of server")}, "it is not an RPC server of ggml with protocol 10.0"},
		"garbage later":    {[][]byte{hello(rpcwire.Major, 0), []byte("and then it talks of something else")}, "it answers in a way that this package does not know"},
		"2³² devices":      {[][]byte{hello(rpcwire.Major, 0), {4, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}}, "it answers in a way that this package does not know"},
		"a reply too long": {[][]byte{hello(rpcwire.Major, 0), {255, 255, 255, 255, 255, 255, 255, 127}}, "it answers in a way that this package does not know"},
		"one that leaves":  {[][]byte{hello(rpcwire.Major, 0)}, "it has closed the connection"},
		"one that stalls":  {[][]byte{hello(rpcwire.Major, 0), nil}, "it has not answered for 2s"},
		"a refused port":   {nil, "it does not answer (connect: connection refused); check the address, or start rpc-server there\n"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := loopback.Serve(t, loopback.Answer(c.answers...))
			if c.answers == nil {
				require.NoError(t, l.Close())
			}
			endpoint := l.Addr().String()
			began := time.Now()
			folder := strings.ReplaceAll(what, " ", "-")
			run := remoteRun(files, folder, endpoint)
			requireFailure(t, run, 256<<20, "finetune: --rpc "+endpoint+": ggml: RPC server "+endpoint+": "+c.says)
			require.Less(t, time.Since(began), time.Minute)
			require.False(t, cli.IsFile(filepath.Join(files, folder, "adapter.gguf")))
		})
	}
}

// Processes share servers: each has its layers on its own servers, and together they train the same as one
// process.
func TestProcessesShareServers(t *testing.T) {
	need.Time(t, "trains by several launchers")
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	s := lend(t, 0, nil)
	servers := []string{s.endpoint, s.proxy(t), s.proxy(t)}
	words := sharedRun("one", "--rpc", s.address)
	one := exec.Command(words[0], words[1:]...)
	one.Dir = files
	need.Output(t, one)
	for name, launcher := range launchers(t) {
		t.Run(name, func(t *testing.T) {
			out := need.Output(t, mpirun(launcher, files, append([]string{"-np", "2"}, sharedRun(name, "--rpc", strings.Join(servers, ","))...)...))
			require.Contains(t, out, fmt.Sprintf("servers: rank 0 has %s; rank 1 has %s, %s\n", servers[0], servers[1], servers[2]))
			require.Contains(t, out, "devices: the whole model is on RPC0\n")
			require.Regexp(t, `servers: waiting for `+servers[0]+` took [0-9.]+ ms per step, [0-9.e+]+ % of the time\n`, out)
			requireSameRun(t, filepath.Join(files, "one"), filepath.Join(files, name), sameAdapter)
		})
	}
}

// Processes of a machine share its GPUs: one each if there are enough.
func TestProcessesShareVulkan(t *testing.T) {
	for _, name := range []string{"Vulkan0", "Vulkan1"} {
		if _, err := ggml.DeviceByName(name); err != nil {
			t.Skip("there are no two Vulkan devices; make vulkan has them: ", err)
		}
	}
	files := t.TempDir()
	require.NoError(t, writeFiles(files))
	words := sharedRun("one", "--device", "Vulkan0")
	one := exec.Command(words[0], words[1:]...)
	one.Dir = files
	need.Output(t, one)
	for name, launcher := range launchers(t) {
		t.Run(name, func(t *testing.T) {
			out := need.Output(t, mpirun(launcher, files, append([]string{"-np", "2"}, sharedRun(name, "--device", "Vulkan0,Vulkan1")...)...))
			require.Contains(t, out, "devices of this machine: rank 0 has Vulkan0; rank 1 has Vulkan1\n")
			require.Contains(t, out, "devices: the whole model is on Vulkan0\n")
			requireSameRun(t, filepath.Join(files, "one"), filepath.Join(files, name), 10*sameAdapter) // their sums are in another order
		})
	}
}

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
)

// A network connects namespaces that stand for machines a, b and so on. Each has its own device. This process
// carries the packets between them, with the rate and latency of a cable.
type network struct {
	prefix  string // prefix of the namespaces' names
	folder  string // contains hosts, and an ssh that enters another namespace
	devices []*os.File
	queues  []chan packet
	isCut   []atomic.Bool
	rate    float64 // bytes per second
	delay   time.Duration
	carried atomic.Int64 // bytes
}

type packet struct {
	data []byte
	at   time.Time // arrival
}

const subnet = "10.77.0."

var networks atomic.Int64 // number that this process has made

// newNetwork returns a network, or skips the test if the system forbids it.
func newNetwork(t *testing.T, machines int, bitsPerSecond float64, delay time.Duration) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, program := range []string{"ip", "nsenter", "unshare", "mount", "hostname"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("network namespaces: ", err)
		}
	}
	n := &network{prefix: fmt.Sprintf("goggml%d-%d-", os.Getpid(), networks.Add(1)), folder: t.TempDir(), rate: bitsPerSecond / 8, delay: delay, isCut: make([]atomic.Bool, machines)}
	t.Cleanup(n.close)
	hosts := "127.0.0.1 localhost\n"
	for i := range machines {
		hosts += fmt.Sprintf("%s%d %s\n", subnet, i+1, machineName(i))
		if out, err := exec.Command("ip", "netns", "add", n.prefix+machineName(i)).CombinedOutput(); err != nil {
			t.Skipf("no network namespace can be made: %s", out)
		}
		device, name, err := openTUN()
		if err != nil {
			t.Skip("no network device can be made: ", err)
		}
		n.devices, n.queues = append(n.devices, device), append(n.queues, make(chan packet, 1<<14))
		for _, c := range []string{
			"ip link set " + name + " netns " + n.prefix + machineName(i),
			n.enter(i) + "ip link set lo up",
			n.enter(i) + fmt.Sprintf("ip addr add %s%d/24 dev %s", subnet, i+1, name),
			n.enter(i) + fmt.Sprintf("ip link set %s up mtu 9000 txqueuelen 10000", name),
		} {
			words := strings.Fields(c)
			out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
			require.NoError(t, err, "%s: %s", c, out)
		}
	}
	for i := range machines {
		go n.read(i)
		go n.deliver(i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(n.folder, "hosts"), []byte(hosts), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(n.folder, "ssh"), []byte(fmt.Sprintf(`#!/bin/sh
while :; do
	case $1 in
	-[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;
	-*) shift ;;
	*) break ;;
	esac
done
machine=$1
shift
exec %s/on $machine sh -c "$*"
`, n.folder)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(n.folder, "on"), []byte(fmt.Sprintf(`#!/bin/sh
machine=$1
shift
exec nsenter --net=/run/netns/%s$machine unshare --mount --uts sh -c 'mount --bind %s/hosts /etc/hosts && mount -t sysfs sysfs /sys && hostname "$0" && exec "$@"' $machine "$@"
`, n.prefix, n.folder)), 0o700))
	return n
}

func machineName(i int) string { return string(rune('a' + i)) }

func (n *network) enter(i int) string { return "ip netns exec " + n.prefix + machineName(i) + " " }

// on returns a command on a machine. Its ssh reaches the other machines.
func (n *network) on(i int, folder string, args ...string) *exec.Cmd {
	c := mpirun(filepath.Join(n.folder, "on"), folder, append([]string{machineName(i)}, args...)...)
	c.Env = append(c.Env, "PATH="+n.folder+":"+os.Getenv("PATH"), "UCX_TLS=tcp,self") // otherwise MPICH would use shared memory
	return c
}

// cut disconnects a machine.
func (n *network) cut(i int) { n.isCut[i].Store(true) }

// openTUN creates a device whose packets this process reads and writes.
func openTUN() (*os.File, string, error) {
	const tunSetIFF, iffTUN, iffNoPI = 0x400454ca, 0x0001, 0x1000
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", err
	}
	var request [40]byte
	copy(request[:16], "goggml%d")
	binary.LittleEndian.PutUint16(request[16:], iffTUN|iffNoPI)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), tunSetIFF, uintptr(unsafe.Pointer(&request))); errno != 0 {
		syscall.Close(fd)
		return nil, "", errno
	}
	return os.NewFile(uintptr(fd), "tun"), strings.TrimRight(string(request[:16]), "\x00"), nil
}

// read receives the packets that a machine sends, one after the other as its cable does.
func (n *network) read(from int) {
	var free time.Time // when the cable is free
	for {
		data := make([]byte, 9000)
		size, err := n.devices[from].Read(data)
		if err != nil {
			return
		}
		if size < 20 || data[0]>>4 != 4 { // not IPv4
			continue
		}
		to := int(data[19]) - 1
		if to < 0 || to >= len(n.queues) || n.isCut[from].Load() || n.isCut[to].Load() {
			continue
		}
		if now := time.Now(); free.Before(now) {
			free = now
		}
		n.carried.Add(int64(size))
		free = free.Add(time.Duration(float64(size) / n.rate * 1e9))
		select {
		case n.queues[to] <- packet{data[:size], free.Add(n.delay)}:
		default: // dropped: the queue is full
		}
		if ahead := time.Until(free); ahead > 5*time.Millisecond { // as the sender's own queue would
			sleep(ahead - 4*time.Millisecond)
		}
	}
}

// deliver hands a machine its packets when they arrive.
func (n *network) deliver(to int) {
	for p := range n.queues[to] {
		if wait := time.Until(p.at); wait > 0 {
			sleep(wait)
		}
		if _, err := n.devices[to].Write(p.data); err != nil && os.IsTimeout(err) {
			return
		}
	}
}

// sleep is accurate: a Go timer in an otherwise idle process has a resolution of milliseconds.
func sleep(d time.Duration) {
	remaining := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&remaining, &remaining) == syscall.EINTR {
	}
}

// killAll kills all processes on the machines.
func (n *network) killAll() {
	for i := range n.devices {
		list, _ := exec.Command("ip", "netns", "pids", n.prefix+machineName(i)).Output()
		for _, pid := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	}
}

func (n *network) close() {
	n.killAll()
	for i, d := range n.devices {
		d.Close()
		_ = exec.Command("ip", "netns", "del", n.prefix+machineName(i)).Run()
	}
}

// The walk-through of docs/machines.md works on two machines: they train together, end with the name of the one
// that is disconnected, and the other continues alone.
func TestTwoMachines(t *testing.T) {
	need.Time(t, "trains on two machines")
	commands := walkThrough(t)
	for name, launcher := range launchers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := t.TempDir()
			require.NoError(t, writeFiles(files))
			n := newNetwork(t, 2, 1e9, time.Millisecond)
			on := func(command string) *exec.Cmd {
				c := n.on(0, files, "sh", "-c", command)
				for i, v := range c.Env {
					if path, ok := strings.CutPrefix(v, "PATH="); ok {
						c.Env[i] = "PATH=" + n.folder + ":" + filepath.Dir(launcher) + ":" + path
					}
				}
				return c
			}
			run := func(command string) string {
				out, err := on(command).CombinedOutput()
				require.NoError(t, err, "%s\n%s", command, out)
				return string(out)
			}
			// MPICH's launcher may write to a machine whose program has ended already, and dies of SIGPIPE.
			require.Eventually(t, func() bool {
				out, err := on(commands["hello"]).CombinedOutput()
				return err == nil && regexp.MustCompile(`(?m)^a\nb$|^b\na$`).Match(out)
			}, time.Minute, time.Millisecond, commands["hello"])
			out := run(commands["train"])
			require.Regexp(t, `2 processes, started by .*: rank 0 on a \(process \d+\), rank 1 on b \(process \d+\)`, out)
			require.Contains(t, out, "adapter: runs/two/adapter.gguf")
			require.Greater(t, n.carried.Load(), int64(1e6), "the gradients went over the network")

			endless := strings.NewReplacer("--epochs 2", "--epochs 1000000 --save-every 2", "runs/two", "runs/cut").Replace(commands["train"])
			r := startRun(t, on(endless))
			pids := []int{r.process(t, 0), r.process(t, 1)}
			require.Eventually(t, func() bool { return cli.IsFile(filepath.Join(files, "runs/cut/checkpoint.gguf")) }, time.Minute, time.Millisecond, r.output())
			n.cut(1)
			began := time.Now()
			for _, pid := range pids {
				require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, 30*time.Second, 10*time.Millisecond, r.output())
			}
			t.Logf("all ended after %.1f s", time.Since(began).Seconds())
			lost := regexp.MustCompile(`rank 1 on b \(process \d+\) has not been heard of for \d+ s`)
			require.Eventually(t, func() bool { return lost.MatchString(r.output()) }, time.Minute, time.Millisecond, "by way of the launcher")
			n.killAll() // launchers wait for machines that they cannot reach
			<-r.ended
			alone := strings.Replace(commands["alone"], "runs/two", "runs/cut", 1)
			require.Contains(t, run(alone), "continuing from runs/cut/checkpoint.gguf")
		})
	}
}

// walkThrough returns the commands of the page, by the comments before them.
func walkThrough(t *testing.T) map[string]string {
	t.Helper()
	text := need.Value(os.ReadFile(filepath.Join(root, "docs/machines.md")))(t)
	commands := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- test: (\\w+) -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		commands[m[1]] = m[2]
	}
	for _, name := range []string{"hello", "train", "alone"} {
		require.Contains(t, commands, name)
	}
	return commands
}

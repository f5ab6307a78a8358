package parallel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/limits"
	"github.com/goggml/ggml/internal/mpi"
)

// A World is the [Group] of the processes that a launcher has started together. Rank 0 writes files and shows
// progress. A nil or zero World is a single process.
type World struct {
	comm      *mpi.Comm
	processes []Process
	sums      int64 // bytes of gradients summed so far
	underWay  int   // number of sums in flight
	waited    time.Duration
}

// A Process describes a process of the group.
type Process struct {
	Rank       int
	Host       string
	PID        int
	Processors int // processors that its affinity and quota allow
	Machine    int // processors of the machine that the quota allows
}

// String returns, for example, "rank 1 on host (process 4242)".
func (p Process) String() string {
	return fmt.Sprintf("rank %d on %s (process %d)", p.Rank, p.Host, p.PID)
}

// Join joins the processes of a launcher. The context that it returns is cancelled when ctx is, when another
// process's context is cancelled, and when a process of the group is lost, which is then the cause. After that, sums
// are waited for at most a minute. If this process is alone, Join returns ctx and nil. All processes must join, and
// all must call Close or exit with a status other than 0, on which the launcher ends the others.
func Join(ctx context.Context) (context.Context, *World, error) {
	if ctx == nil {
		return nil, nil, errNoContext
	}
	l, several := mpi.Launched(os.Getenv)
	if !several {
		return ctx, nil, nil
	}
	var names atomic.Pointer[[]Process]
	comm, err := mpi.Start(ctx, l, mpi.Options{Name: func(rank int) string {
		if list := names.Load(); list != nil {
			return (*list)[rank].String()
		}
		return fmt.Sprintf("rank %d", rank)
	}})
	if err != nil {
		return ctx, nil, err
	}
	g := &World{comm: comm}
	if comm.Size == 1 { // the launcher did not say how many processes there are
		return ctx, nil, comm.Close()
	}
	joined, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-comm.Lost():
			cancel(g.lost(comm.Err()))
		case <-comm.Stopped():
			cancel(errElsewhere)
		case <-ctx.Done():
			comm.Stop()
		}
	}()
	if g.processes, err = g.introduce(); err != nil {
		return ctx, nil, err
	}
	names.Store(&g.processes)
	return joined, g, nil
}

// ErrLost means that the group lost a process or its MPI failed; the remaining processes end.
var ErrLost = errors.New("the group of processes is broken")

// errElsewhere means that another process's context was cancelled.
var errElsewhere = fmt.Errorf("another process: %w", context.Canceled)

var errNoContext = errors.New("the context.Context is nil")

func (g *World) lost(err error) error { return fmt.Errorf("%w: %w", ErrLost, err) }

// introduce exchanges the descriptions of all processes.
func (g *World) introduce() (list []Process, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "a machine without a name"
	}
	own, err := json.Marshal(Process{Rank: g.Rank(), Host: host, PID: os.Getpid(), Processors: limits.Processors(), Machine: limits.Machine()})
	if err != nil {
		return nil, err
	}
	all, err := g.AllGather(context.Background(), own)
	if err != nil {
		return nil, err
	}
	for _, text := range all {
		var p Process
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, g.lost(fmt.Errorf("a process that identifies itself differently, perhaps of another version: %w", err))
		}
		list = append(list, p)
	}
	return list, nil
}

// isAlone reports whether there is only this process.
func (g *World) isAlone() bool { return g == nil || g.comm == nil }

// Rank returns the rank of this process, from 0.
func (g *World) Rank() int {
	if g.isAlone() {
		return 0
	}
	return g.comm.Rank
}

// Size returns the number of processes.
func (g *World) Size() int {
	if g.isAlone() {
		return 1
	}
	return g.comm.Size
}

// Writes reports whether this process writes files and shows progress.
func (g *World) Writes() bool { return g.Rank() == 0 }

// Library returns the MPI library's description of itself.
func (g *World) Library() string {
	if g.isAlone() {
		return ""
	}
	return g.comm.Library
}

// Processes lists the processes of the group by rank.
func (g *World) Processes() []Process {
	if g.isAlone() {
		return nil
	}
	return g.processes
}

// Local returns the processes of the group on this machine, including this one, by rank.
func (g *World) Local() (list []Process) {
	for _, p := range g.Processes() {
		if p.Host == g.processes[g.Rank()].Host {
			list = append(list, p)
		}
	}
	return list
}

// localProcessors returns the total number of processors that the machine's processes may run on.
func (g *World) localProcessors() (n int) {
	for _, p := range g.Local() {
		n += p.Processors
	}
	return n
}

// Threads returns the number of threads for this process: the processors that it may run on, or its share if the
// machine's processes may run on more in total than the machine has.
func (g *World) Threads() int {
	own := ggml.DefaultThreads()
	if list := g.Local(); len(list) > 0 && g.localProcessors() > list[0].Machine {
		own = max(1, own/len(list))
	}
	return own
}

// Idle returns how many processors of this machine no process of the group may run on; launchers may bind processes
// to processors.
func (g *World) Idle() int {
	if g.isAlone() {
		return 0
	}
	return max(0, g.processes[g.Rank()].Machine-g.localProcessors())
}

// AllReduce replaces x by its elementwise sum over all processes. If ctx of any process is done when it calls, all
// get an error.
func (g *World) AllReduce(ctx context.Context, x []float64) error {
	if ctx == nil {
		return errNoContext
	}
	if g.isAlone() {
		return nil
	}
	all := append([]float64{0}, x...)
	if ctx.Err() != nil {
		all[0] = 1
	}
	if g.underWay > 0 {
		defer g.waiting(time.Now())
	}
	if err := g.comm.AllReduce(all); err != nil {
		return g.lost(err)
	}
	switch {
	case ctx.Err() != nil && all[0] > 0:
		return context.Cause(ctx)
	case all[0] > 0:
		return errElsewhere
	}
	copy(x, all[1:])
	return nil
}

// AllGather returns the bytes of each process, indexed by rank. If ctx of any process is done when it calls, all get
// an error.
func (g *World) AllGather(ctx context.Context, own []byte) ([][]byte, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if g.isAlone() {
		return [][]byte{own}, nil
	}
	lengths := make([]float64, g.Size())
	lengths[g.Rank()] = float64(len(own))
	if err := g.AllReduce(ctx, lengths); err != nil {
		return nil, err
	}
	padded := make([]byte, int(slices.Max(lengths)))
	copy(padded, own)
	all, err := g.comm.AllGather(padded)
	if err != nil {
		return nil, g.lost(err)
	}
	for rank := range all {
		all[rank] = all[rank][:int(lengths[rank])]
	}
	return all, nil
}

// Broadcast returns rank 0's bytes on all processes. If ctx of any process is done when it calls, all get an error.
func (g *World) Broadcast(ctx context.Context, own []byte) ([]byte, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if g.isAlone() {
		return own, nil
	}
	length := []float64{0}
	if g.Rank() == 0 {
		length[0] = float64(len(own))
	}
	if err := g.AllReduce(ctx, length); err != nil {
		return nil, err
	}
	x := make([]byte, int(length[0]))
	if g.Rank() == 0 {
		copy(x, own)
	}
	if err := g.comm.Broadcast(x); err != nil {
		return nil, g.lost(err)
	}
	return x, nil
}

// sumBytes limits the bytes summed at a time.
const sumBytes = 64 << 20

// AllReduceGrads begins to replace the elements of F32 tensors by their sums over all processes. It returns once the
// elements have been read; wait waits for the sums and writes them.
func (g *World) AllReduceGrads(_ context.Context, grads []*ggml.Tensor) (wait func() error) {
	if g.isAlone() {
		return func() error { return nil }
	}
	var parts []part
	var readErr error
	for from := 0; from < len(grads); {
		to, bytes := from, int64(0)
		for to < len(grads) && (to == from || bytes+grads[to].NumBytes() <= sumBytes) {
			bytes += grads[to].NumBytes()
			to++
		}
		p := part{g.comm.NewSum(int(bytes / 4)), grads[from:to]}
		input := p.sum.Input()
		for _, x := range p.grads {
			_, err := x.ReadAt(input[:x.NumBytes()], 0)
			readErr = errors.Join(readErr, err)
			input = input[x.NumBytes():]
		}
		p.sum.Start() // also after an error: the other processes wait for it
		parts, from = append(parts, p), to
		g.sums += bytes
	}
	g.underWay++
	return func() error {
		defer g.waiting(time.Now())
		g.underWay--
		err := readErr
		for _, p := range parts {
			err = errors.Join(err, p.wait())
		}
		if e := g.comm.Err(); e != nil {
			return g.lost(e)
		}
		return err
	}
}

// waiting adds the time since began to the time spent waiting for gradients.
func (g *World) waiting(began time.Time) { g.waited += time.Since(began) }

// A part is a chunk of the gradients, summed at a time.
type part struct {
	sum   *mpi.Sum
	grads []*ggml.Tensor
}

func (p part) wait() error {
	return p.sum.Wait(func(sum []byte) error {
		var err error
		for _, x := range p.grads {
			_, writeErr := x.WriteAt(sum[:x.NumBytes()], 0)
			err = errors.Join(err, writeErr)
			sum = sum[x.NumBytes():]
		}
		return err
	})
}

// Traffic returns how many bytes of gradients were summed, and how long this process waited for the sums.
func (g *World) Traffic() (bytes int64, waited time.Duration) {
	if g.isAlone() {
		return 0, 0
	}
	return g.sums, g.waited
}

// Close leaves the group; it waits for the other processes to leave.
func (g *World) Close() error {
	if g.isAlone() {
		return nil
	}
	return g.comm.Close()
}

package fuzz

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goggml/ggml"
)

// A Plan is the work of a campaign.
type Plan struct {
	First    uint64 // seed of the first program
	Programs uint64
	Warmup   uint64        // programs before the first measurement of memory
	Growth   int64         // bytes by which memory may grow after that; 0 to skip
	Hang     time.Duration // time limit of a program
	Kind     string        // "" for a mixture
}

// Work runs the programs of a plan in this process, and reports on w: a line with the seed before each program,
// "fault" lines, and finally a line with the counts.
func Work(p Plan, w io.Writer) error {
	m, err := NewMachine()
	if err != nil {
		return err
	}
	defer func() { m.Close() }()
	m.Kind = p.Kind
	out := bufio.NewWriter(w)
	var before int64
	for i := range p.Programs {
		if i == p.Warmup && p.Growth > 0 {
			if m, err = m.reopened(); err != nil { // backends and allocators keep the largest memory that a program needed
				return err
			}
			before = residentBytes()
		}
		fmt.Fprintf(out, "seed %d\n", p.First+i)
		if err := out.Flush(); err != nil {
			return err // nobody listens any more
		}
		if err := Run(m, p.First+i, nil); err != nil {
			fmt.Fprintf(out, "fault %q\n", err)
			if errors.Is(err, ggml.ErrBroken) { // a broken backend must not fail the next programs
				if m, err = m.reopened(); err != nil {
					return err
				}
			}
		}
	}
	if before > 0 {
		if m, err = m.reopened(); err != nil {
			return err
		}
		after := residentBytes()
		fmt.Fprintf(out, "memory %d %d\n", before, after)
		if after-before > p.Growth {
			fmt.Fprintf(out, "fault %q\n", fmt.Sprintf("the memory has grown by %d bytes, from %d", after-before, before))
		}
	}
	fmt.Fprintf(out, "stats %q\n", m.Stats.String())
	return out.Flush()
}

// Campaign runs a plan in subprocesses made by command; when one dies, the next continues. It returns the
// faults.
func Campaign(p Plan, command func(p Plan) *exec.Cmd, log func(format string, args ...any)) (faults []string) {
	const enough = 60
	for p.Programs > 0 && len(faults) < enough {
		w := worker{plan: p, log: log, last: p.First}
		died := w.run(command(p))
		faults = append(faults, w.faults...)
		if died == "" {
			break
		}
		faults = append(faults, fmt.Sprintf("program %d: the process %s", w.last, died))
		log("%s", faults[len(faults)-1])
		p.Programs -= w.last + 1 - p.First
		p.First = w.last + 1
	}
	return faults
}

// A worker is a subprocess.
type worker struct {
	plan   Plan
	log    func(format string, args ...any)
	faults []string

	mu    sync.Mutex
	last  uint64 // seed of the current program
	since time.Time
}

// run returns how the process died, or "".
func (w *worker) run(cmd *exec.Cmd) (died string) {
	stderr := &tail{}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err.Error()
	}
	w.since = time.Now()
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	done := make(chan struct{})
	go w.watch(cmd, done)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		w.line(lines.Text())
	}
	err = cmd.Wait()
	close(done)
	if err == nil && w.last+1 == w.plan.First+w.plan.Programs {
		return ""
	}
	return fmt.Sprintf("died: %v\n%s", err, stderr)
}

func (w *worker) line(text string) {
	what, rest, _ := strings.Cut(text, " ")
	switch what {
	case "seed":
		n, _ := strconv.ParseUint(rest, 10, 64)
		w.mu.Lock()
		w.last, w.since = n, time.Now()
		w.mu.Unlock()
	case "fault":
		fault, _ := strconv.Unquote(rest)
		w.faults = append(w.faults, fault)
		w.log("%s", fault)
	case "stats":
		stats, _ := strconv.Unquote(rest)
		w.log("%s", stats)
	default:
		w.log("%s", text)
	}
}

// watch kills a process that hangs, after its goroutines' stacks were printed.
func (w *worker) watch(cmd *exec.Cmd, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Second):
		}
		w.mu.Lock()
		hangs := time.Since(w.since) > w.plan.Hang
		w.mu.Unlock()
		if !hangs {
			continue
		}
		cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
		}
		return
	}
}

// A tail keeps the start and the end of what a process wrote.
type tail struct {
	head, rest bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	const limit = 2 << 10
	room := min(len(b), limit-t.head.Len())
	t.head.Write(b[:room])
	t.rest.Write(b[room:])
	if extra := t.rest.Len() - limit; extra > 0 {
		t.rest.Next(extra)
	}
	return len(b), nil
}

func (t *tail) String() string { return t.head.String() + t.rest.String() }

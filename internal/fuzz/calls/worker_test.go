//go:build linux && cgo

package calls

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goggml/ggml"
)

// A plan lists the calls of a subprocess.
type plan struct {
	Faulty     bool // test the package of faults instead of the public ones
	Seed       uint64
	From, To   int           // range of calls
	Keep       []int         // the calls of a round to make; nil for all
	Goroutines int           // number of goroutines
	Only       string        // part of the functions' names
	Hang       time.Duration // time limit of a call
}

// perRound is the number of calls before everything is closed.
const perRound = 300

// A finding is a violation.
type finding struct {
	Kind   string // panic, hang, left, data race, or how the process died
	Where  string // the function
	What   string
	Detail string // stacks
}

func (f *finding) String() string {
	return strings.TrimRight(strings.Join(slices.DeleteFunc([]string{f.Kind, f.Where, f.What}, func(s string) bool { return s == "" }), ": "), " ")
}

// isLike reports whether two findings have the same cause.
func (f *finding) isLike(g *finding) bool { return f.Kind == g.Kind && f.Where == g.Where }

// An event is a line in which a subprocess reports its progress.
type event struct {
	Round   *int     `json:",omitempty"` // starts
	Call    int      `json:",omitempty"`
	Text    string   `json:",omitempty"` // of a call
	Finding *finding `json:",omitempty"`
}

// A reporter writes events.
type reporter struct{ out *json.Encoder }

func (r reporter) write(e event) {
	if err := r.out.Encode(e); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

func (r reporter) round(i int)             { r.write(event{Round: &i}) }
func (r reporter) call(i int, text string) { r.write(event{Call: i, Text: text}) }
func (r reporter) finding(f *finding)      { r.write(event{Finding: f}) }

// workerVariable is the environment variable with the plan; it makes this test binary a subprocess.
const workerVariable = "GOGGML_CALLS_WORKER"

// raceDetector reports whether the binary was built with it.
var raceDetector bool

// work makes the calls of a plan, in rounds, in the folder of the process.
func work(text string) error {
	p := &plan{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return err
	}
	ggml.SetLogger(slog.New(&dropped))
	if !raceDetector { // the race detector maps more memory than any machine has
		limit := &syscall.Rlimit{Cur: 3 << 30, Max: 3 << 30}
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, limit); err != nil {
			return err
		}
	}
	report := reporter{json.NewEncoder(os.Stdout)}
	for from := p.From; from < p.To; from += perRound {
		report.round(from)
		if err := p.round(from, report); err != nil {
			return err
		}
		clean(".")
	}
	return nil
}

// round makes the calls of a round, starting at from. Each goroutine makes a share of them.
func (p *plan) round(from int, report reporter) error {
	if err := os.WriteFile("text.txt", []byte("a text\n"), 0o666); err != nil {
		return err
	}
	r := &public
	if p.Faulty {
		r = &faulted
	}
	list := r.callable(p.Only)
	closers := slices.DeleteFunc(slices.Clone(list), func(f function) bool { return !strings.HasSuffix(f.name, ".Close") })
	c := &caller{plan: p, registry: r, list: list, closers: closers, pool: newPool(r)}
	goroutines := runtime.NumGoroutine()
	for c.goroutine = range p.Goroutines {
		if !p.Faulty {
			c.prologue(rand.New(rand.NewPCG(p.Seed, uint64(from))))
		}
	}
	atOnce := 1
	if p.Goroutines > 1 {
		atOnce = 4 * p.Goroutines
	}
	for first := from; first < min(from+perRound, p.To); first += atOnce {
		if p.Goroutines > 1 {
			c.hot = c.pool.shared(mix(p.Seed) ^ uint64(first))
		}
		var calls []*call
		for i := first; i < min(first+atOnce, from+perRound, p.To); i++ {
			if p.Keep == nil || slices.Contains(p.Keep, i) {
				c.goroutine = i % p.Goroutines
				calls = append(calls, c.prepare(i))
			}
		}
		p.together(c, calls, report)
	}
	if f := closeAll(c.pool, p.Seed+uint64(from), goroutines, p.Hang); f != nil {
		report.finding(f)
	}
	return nil
}

// together makes calls concurrently, each in its goroutine, and stores their results. If one does not return,
// the process exits: nothing could stop the call.
func (p *plan) together(c *caller, calls []*call, report reporter) {
	workers := make([]worker, p.Goroutines)
	for _, x := range calls {
		report.call(x.number, x.name+"("+c.pool.describe(x.args)+")")
		workers[x.goroutine].calls = append(workers[x.goroutine].calls, x)
	}
	for i := range workers {
		workers[i].start(c.registry)
	}
	for i := range workers {
		if slow := workers[i].wait(p.Hang, p.Goroutines); slow != nil {
			buf := make([]byte, 1<<20)
			report.finding(&finding{Kind: "hang", Where: slow.name, What: fmt.Sprintf("it takes more than %v", p.Hang), Detail: string(buf[:runtime.Stack(buf, true)])})
			os.Exit(0)
		}
	}
	for _, x := range calls {
		if x.fault != nil {
			report.finding(x.fault)
		}
		c.keep(x)
	}
}

// closeAll closes everything in the pool, and reports what remains open.
func closeAll(p *pool, number uint64, goroutines int, hang time.Duration) *finding {
	for _, v := range p.all(number) {
		x := v.Interface()
		if g, ok := x.(*ggml.Graph); ok { // a copy from another backend owns its context
			x = g.Context()
		}
		if closer, ok := x.(io.Closer); ok {
			func() {
				defer func() { _ = recover() }()
				closer.Close()
			}()
		}
	}
	p.entries = nil
	const naps = 50
	for range naps {
		if len(ggml.OpenObjects()) == 0 && runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(hang / naps)
	}
	left := ggml.OpenObjects()
	for kind, n := range dropped.take() {
		left[kind] += n
	}
	switch {
	case len(left) > 0:
		runtime.GC() // the finalizers close them before the next round
		return &finding{Kind: "objects left open", What: fmt.Sprint(left)}
	case runtime.NumGoroutine() > goroutines:
		buf := make([]byte, 1<<20)
		return &finding{Kind: "goroutines left", Detail: string(buf[:runtime.Stack(buf, true)])}
	}
	return nil
}

func clean(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		os.RemoveAll(filepath.Join(folder, e.Name()))
	}
}

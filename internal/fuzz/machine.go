package fuzz

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/goggml/ggml"
)

// A Machine has the backends that programs share.
type Machine struct {
	Stats Stats
	Kind  string // of all programs; "" for a mixture

	backends []*ggml.Backend   // the CPU with 1, 2, … threads
	scheds   []*ggml.Scheduler // one for each backend
	mixed    *ggml.Scheduler   // another device before the CPU; nil if there is none
	others   []*ggml.Backend
	alloc    *ggml.GraphAllocator

	closed, failed *ggml.Tensor
}

const maxThreads = 4

// NewMachine opens the backends.
func NewMachine() (*Machine, error) {
	m := &Machine{Stats: Stats{Refused: map[string]int{}, Accepted: map[string]int{}}}
	for n := 1; n <= maxThreads; n++ {
		b, err := ggml.NewCPUBackend(n)
		if err != nil {
			return nil, err
		}
		m.backends = append(m.backends, b)
		s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, b)
		if err != nil {
			return nil, err
		}
		m.scheds = append(m.scheds, s)
	}
	if err := m.openMixed(); err != nil {
		return nil, err
	}
	var err error
	if m.alloc, err = ggml.NewGraphAllocator(ggml.CPUBufferType()); err != nil {
		return nil, err
	}
	c := ggml.NewContext()
	m.closed = c.NewTensor(ggml.F32, 4)
	c.Close()
	c = ggml.NewContext()
	m.failed = c.Add(nil, nil)
	c.Close()
	return m, nil
}

func (m *Machine) openMixed() error {
	devices, err := ggml.Devices()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(devices, func(d *ggml.Device) bool { return d.Type() != ggml.CPU })
	if i < 0 {
		return nil
	}
	b, err := devices[i].NewBackend()
	if err != nil {
		return err
	}
	m.others = append(m.others, b)
	m.mixed, err = ggml.NewScheduler(ggml.SchedulerOptions{}, b, m.backends[1])
	return err
}

// reopened returns a new machine with the counts of this one, and closes this one.
func (m *Machine) reopened() (*Machine, error) {
	m.Close()
	next, err := NewMachine()
	if err != nil {
		return m, err
	}
	next.Stats, next.Kind = m.Stats, m.Kind
	return next, nil
}

// Close closes all backends.
func (m *Machine) Close() {
	m.alloc.Close()
	if m.mixed != nil {
		m.mixed.Close()
	}
	for i, b := range m.backends {
		m.scheds[i].Close()
		b.Close()
	}
	for _, b := range m.others {
		b.Close()
	}
}

// Stats counts the results of programs.
type Stats struct {
	Programs int
	Computed int
	Trained  int
	Failed   map[string]int // errors of computations
	Accepted map[string]int // number of programs that computed an op
	Refused  map[string]int // refused by ggml, not by the checks in Go
}

var fromLibrary = regexp.MustCompile(`[a-z_.-]+\.(c|cpp|h):\d+: (GGML_ASSERT\(.*\)|.*)`)

// refused counts refusals by ggml: they are not a fault, but a check in Go would give a better message.
func (s *Stats) refused(op string, err error) {
	if m := fromLibrary.FindString(err.Error()); m != "" {
		s.Refused[op+": "+m]++
	}
}

func (s *Stats) failed(err error) {
	if s.Failed == nil {
		s.Failed = map[string]int{}
	}
	s.Failed[digits.ReplaceAllString(reason(err), "#")]++
}

var digits = regexp.MustCompile(`\d+`)

// String lists the counts.
func (s *Stats) String() string {
	text := fmt.Sprintf("%d programs, %d computed, %d trained, %d of %d ops computed", s.Programs, s.Computed, s.Trained, len(s.Accepted), len(opNames))
	for _, name := range opNames {
		if s.Accepted[name] == 0 {
			text += "\nnever computed: " + name
		}
	}
	for _, counts := range []map[string]int{s.Failed, s.Refused} {
		var lines []string
		for what, n := range counts {
			lines = append(lines, fmt.Sprintf("\n%7d × %s", n, what))
		}
		slices.Sort(lines)
		slices.Reverse(lines)
		for _, l := range lines {
			text += l
		}
	}
	return text
}

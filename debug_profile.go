package ggml

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A NodeTime is the computation time of one node.
type NodeTime struct {
	Tensor  *Tensor
	Op      string // name from [Tensor.Op]
	Backend *Backend
	Time    time.Duration
}

// A Profile lists the computation times of a graph's nodes in order of computation.
type Profile []NodeTime

// Profile computes the graph, allocated by Allocate, node by node, and returns the time of each
// node. Each node takes some microseconds longer than in [Scheduler.Compute], and copies between
// devices are not included. It suspends the functions of SetEvalCallback. C:
// ggml_backend_sched_set_eval_callback.
func (s *Scheduler) Profile(ctx context.Context, g *Graph) (Profile, error) {
	s = made(s)
	var p Profile
	var start time.Time
	err := s.compute(ctx, g, func(c *schedCallbacks) (restore func()) {
		want, seen := c.want, c.seen
		c.want = func(*Tensor) bool {
			start = time.Now()
			return true
		}
		c.seen = func(t *Tensor) error {
			p = append(p, NodeTime{t, t.Op(), s.tensorBackend(t), time.Since(start)})
			return nil
		}
		s.enableEval(true)
		return func() {
			c.want, c.seen = want, seen
			s.enableEval(seen != nil)
		}
	})
	return p, err
}

// Total returns the sum of the times.
func (p Profile) Total() time.Duration {
	var total time.Duration
	for _, n := range p {
		total += n.Time
	}
	return total
}

// Slowest returns the nodes sorted by time, the slowest first.
func (p Profile) Slowest() Profile {
	return slices.SortedStableFunc(slices.Values(p), func(a, b NodeTime) int { return cmp.Compare(b.Time, a.Time) })
}

// An OpTime is the total time of one op on one backend.
type OpTime struct {
	Op      string
	Backend *Backend
	Nodes   int
	Time    time.Duration
}

// ByOp sums the times by op and backend, the slowest first.
func (p Profile) ByOp() []OpTime {
	type key struct {
		op      string
		backend *Backend
	}
	ops := map[key]OpTime{}
	for _, n := range p {
		k := key{n.Op, n.Backend}
		ops[k] = OpTime{n.Op, n.Backend, ops[k].Nodes + 1, ops[k].Time + n.Time}
	}
	return slices.SortedFunc(maps.Values(ops), func(a, b OpTime) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Op, b.Op))
	})
}

// String returns a table of ByOp.
func (p Profile) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "op\tdevice\tnodes\ttime\tshare\t\n")
	total := max(p.Total(), 1)
	for _, o := range p.ByOp() {
		device := ""
		if o.Backend != nil {
			device = o.Backend.Name()
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%v\t%.1f %%\t\n", o.Op, device, o.Nodes, o.Time.Round(time.Microsecond), 100*float64(o.Time)/float64(total))
	}
	w.Flush()
	return b.String()
}

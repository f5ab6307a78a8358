package parallel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goggml/ggml"
)

// maxLocalRanks exceeds any number of devices.
const maxLocalRanks = 1 << 10

// Local makes the ranks of a group inside this process. They train at the same time, each in a goroutine with an
// adapter and an engine of its own: for example one per GPU, with a model on each. Sums are computed in the order of
// the ranks, in host memory. There can be 1 to 1024 ranks; Local panics for any other number.
func Local(ranks int) []Group {
	if ranks < 1 || ranks > maxLocalRanks {
		panic(fmt.Sprintf("parallel: a local group cannot have %d ranks; it has 1 to %d", ranks, maxLocalRanks))
	}
	shared := &meeting{}
	list := make([]Group, ranks)
	for i := range list {
		list[i] = &localRank{rank: i, size: ranks, meeting: shared}
	}
	return list
}

type localRank struct {
	rank, size int
	*meeting
}

func (r *localRank) Rank() int { return r.rank }
func (r *localRank) Size() int { return r.size }

func (r *localRank) AllReduce(ctx context.Context, x []float64) error {
	all, err := meet(ctx, r, append([]float64(nil), x...), nil)
	if err != nil {
		return err
	}
	return addUp(x, all)
}

func (r *localRank) AllGather(ctx context.Context, own []byte) ([][]byte, error) {
	return meet(ctx, r, slices.Clone(own), nil)
}

func (r *localRank) AllReduceGrads(ctx context.Context, grads []*ggml.Tensor) (wait func() error) {
	own := make([][]float32, len(grads))
	var err error
	for i, g := range grads {
		var readErr error
		own[i], readErr = ggml.Read[float32](g)
		err = errors.Join(err, readErr)
	}
	return func() error { return r.sumGrads(ctx, grads, own, err) }
}

// sumGrads sums the elements that the ranks have read.
func (r *localRank) sumGrads(ctx context.Context, grads []*ggml.Tensor, own [][]float32, err error) error {
	all, err := meet(ctx, r, own, err)
	if err != nil {
		return err
	}
	for _, other := range all {
		if len(other) != len(grads) { // if the lengths are not all equal, every rank finds one that differs from its own
			return errUnequal
		}
	}
	for i, g := range grads {
		var parts [][]float32
		for _, other := range all {
			parts = append(parts, other[i])
		}
		sum := make([]float32, len(own[i]))
		if err = addUp(sum, parts); err == nil {
			err = ggml.Write(g, sum)
		}
		if err != nil {
			break
		}
	}
	_, err = meet(context.WithoutCancel(ctx), r, struct{}{}, err)
	return err
}

var errUnequal = errors.New("the ranks of the group do not sum equally many numbers")

// addUp sums lists of numbers elementwise, in the order of the ranks.
func addUp[T float32 | float64](sum []T, parts [][]T) error {
	for i := range sum {
		total := 0.0
		for _, part := range parts {
			if len(part) != len(sum) {
				return errUnequal
			}
			total += float64(part[i])
		}
		sum[i] = T(total)
	}
	return nil
}

// A meeting is the barrier of the ranks: they pass it together, call by call.
type meeting struct {
	mu  sync.Mutex
	now *call // nil until a rank joins the next call
}

// A call is one exchange of the group. over is closed when all ranks have joined or one has failed, gone when all
// have joined.
type call struct {
	come       []bool
	missing    int
	values     []any
	err        error
	over, gone chan struct{}
}

// end ends the call for all ranks, unless it has ended.
func (c *call) end(err error) {
	select {
	case <-c.over:
	default:
		c.err = err
		close(c.over)
	}
}

// join joins the group's current call with a value or an error. joined is false if this rank has joined it before.
func (m *meeting) join(r *localRank, value any, err error) (c *call, joined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now == nil {
		m.now = &call{come: make([]bool, r.size), missing: r.size, values: make([]any, r.size), over: make(chan struct{}), gone: make(chan struct{})}
	}
	if c = m.now; c.come[r.rank] {
		return c, false // it failed, and not all ranks have joined it
	}
	c.come[r.rank], c.values[r.rank] = true, value
	if err != nil {
		c.end(err)
	}
	if c.missing--; c.missing == 0 {
		c.end(nil)
		close(c.gone)
		m.now = nil
	}
	return c, true
}

// meet returns the values of all ranks, by rank, once all have joined. All ranks get an error if one joins with an
// error or is cancelled while it waits.
func meet[T any](ctx context.Context, r *localRank, value T, err error) ([]T, error) {
	if err == nil {
		err = context.Cause(ctx)
	}
	c, joined := r.join(r, value, err)
	for !joined {
		select {
		case <-c.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c, joined = r.join(r, value, err)
	}
	select {
	case <-c.over:
	case <-ctx.Done():
		r.mu.Lock()
		c.end(context.Cause(ctx))
		r.mu.Unlock()
	}
	if c.err != nil {
		return nil, c.err
	}
	all := make([]T, r.size)
	for i, v := range c.values {
		var ok bool
		if all[i], ok = v.(T); !ok {
			return nil, errUnequal
		}
	}
	return all, nil
}

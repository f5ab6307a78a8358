package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/parallel"
)

func requireAll(t *testing.T, errs []error, is error) {
	t.Helper()
	for rank, err := range errs {
		require.ErrorIs(t, err, is, "rank %d", rank)
	}
}

func requireUnequal(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		require.EqualError(t, err, "the ranks of the group do not sum equally many numbers", "rank %d", rank)
	}
}

func TestLocal(t *testing.T) {
	groups := parallel.Local(3)
	all := func(f func(g parallel.Group) error) []error {
		errs := make([]error, len(groups))
		var wait sync.WaitGroup
		for i, g := range groups {
			wait.Add(1)
			go func() {
				defer wait.Done()
				errs[i] = f(g)
			}()
		}
		wait.Wait()
		return errs
	}
	sum := func(g parallel.Group) error {
		for range 50 {
			x := []float64{float64(g.Rank()), 0.1 * float64(g.Rank()+1), float64(g.Size())}
			if err := g.AllReduce(context.Background(), x); err != nil {
				return err
			}
			if x[0] != 3 || x[1] != 0.1+0.2+0.30000000000000004 || x[2] != 9 {
				return fmt.Errorf("%v", x)
			}
		}
		return nil
	}
	requireAll(t, all(sum), nil)

	requireAll(t, all(func(g parallel.Group) error {
		list, err := g.AllGather(context.Background(), []byte("abc")[:g.Rank()])
		if fmt.Sprintf("%s", list) != "[ a ab]" {
			return fmt.Errorf("%s, %v", list, err)
		}
		return err
	}), nil)

	stop := errors.New("that is enough")
	for stopped := range groups { // while it waits for the others, or before it comes
		requireAll(t, all(func(g parallel.Group) error {
			ctx := context.Background()
			if g.Rank() == stopped {
				cancelled, cancel := context.WithCancelCause(ctx)
				cancel(stop)
				ctx = cancelled
			}
			return g.AllReduce(ctx, []float64{1})
		}), stop)
		requireAll(t, all(sum), nil)
	}
	requireUnequal(t, all(func(g parallel.Group) error { return g.AllReduce(context.Background(), make([]float64, 1+g.Rank())) }))

	var tensors []*ggml.Tensor
	c := ggml.NewContext()
	defer c.Close()
	for range groups {
		tensors = append(tensors, c.NewTensor(ggml.F32, 2))
	}
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	requireUnequal(t, all(func(g parallel.Group) error { return g.AllReduceGrads(context.Background(), tensors[:g.Rank()/2])() }))
	requireAll(t, all(func(g parallel.Group) error {
		x := tensors[g.Rank()]
		return errors.Join(ggml.Write(x, []float32{1, float32(g.Rank())}), g.AllReduceGrads(context.Background(), []*ggml.Tensor{x})())
	}), nil)
	for _, x := range tensors {
		got := need.Value(ggml.Read[float32](x))(t)
		require.Equal(t, []float32{3, 3}, got)
	}
	for _, ranks := range []int{-1, 0, 1 << 40} {
		require.Panics(t, func() { parallel.Local(ranks) })
	}
}

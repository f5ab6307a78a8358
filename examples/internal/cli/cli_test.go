//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignalsCancel(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			continue // nohup
		}
		ctx, stop := interruptible()
		require.NoError(t, ctx.Err())
		require.NoError(t, syscall.Kill(syscall.Getpid(), sig))
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%v changes nothing", sig)
		}
		stop()
	}
}

func TestOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	failure := errors.New("broken")
	require.NoError(t, Interrupted(ctx, nil, "hint"))
	require.Equal(t, failure, Interrupted(ctx, failure, "hint"))
	cancel()
	require.NoError(t, Interrupted(ctx, nil, "hint"))
	interrupted := Interrupted(ctx, failure, "the work is saved")
	require.EqualError(t, interrupted, "interrupted; the work is saved")

	for _, c := range []struct {
		err    error
		status int
		silent bool
	}{
		{nil, 0, true},
		{failure, 1, false},
		{interrupted, 130, false},
		{fmt.Errorf("text 1: %w", context.Canceled), 130, true},
		{fmt.Errorf("writing: %w", syscall.EPIPE), 141, true},
	} {
		status, silent := outcome(c.err)
		require.Equal(t, c.status, status, c.err)
		require.Equal(t, c.silent, silent, c.err)
	}
}

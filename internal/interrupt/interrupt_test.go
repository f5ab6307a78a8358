//go:build unix

package interrupt_test

import (
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/interrupt"
)

func TestContext(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			continue // nohup
		}
		ctx, stop := interrupt.Context()
		require.NoError(t, ctx.Err())
		require.NoError(t, syscall.Kill(syscall.Getpid(), sig))
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%v changes nothing", sig)
		}
		stop()
	}
}

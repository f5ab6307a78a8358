package ggml_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// deviceHandler logs with the number of devices.
type deviceHandler struct {
	slog.Handler
	counts chan int
}

func (h deviceHandler) Handle(ctx context.Context, r slog.Record) error {
	devices, err := ggml.Devices()
	if err != nil {
		return err
	}
	select {
	case h.counts <- len(devices):
	default:
	}
	return h.Handler.Handle(ctx, r)
}

// logDevices makes each message count the devices.
func logDevices(t *testing.T) (counts chan int) {
	captureLog(t)
	h := deviceHandler{ggml.Logger().Handler(), make(chan int, 1000)}
	ggml.SetLogger(slog.New(h))
	return h.counts
}

// A handler may use the package while plugins are being loaded, even the first time in the process.
func TestLogHandlerUsesDevices(t *testing.T) {
	const child = "GOGGML_TEST_FIRST_USE"
	if os.Getenv(child) == "" {
		optest.Devices(t)
		junk := filepath.Join(t.TempDir(), "libggml-junk.so")
		require.NoError(t, os.WriteFile(junk, []byte("no plugin"), 0o600))
		counts := logDevices(t)
		ends(t, func() {
			_, err := ggml.LoadBackend(junk)
			require.ErrorIs(t, err, ggml.ErrNotLoaded)
		})
		require.Positive(t, <-counts)

		self := need.Value(os.Executable())(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		first := exec.CommandContext(ctx, self, "-test.run=^TestLogHandlerUsesDevices$", "-test.v")
		first.Env = append(os.Environ(), child+"=1")
		out, err := first.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	counts := logDevices(t)
	ends(t, func() {
		devices := need.Value(ggml.Devices())(t)
		require.Equal(t, len(devices), <-counts)
	})
}

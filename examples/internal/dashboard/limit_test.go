package dashboard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Clients that send or read nothing hold a bounded number of connections for a bounded time; then others are
// served.
func TestClientsThatHoldConnections(t *testing.T) {
	folder := t.TempDir()
	makeRun(t, filepath.Join(folder, "run"), 20_000)
	s := need.Value(Listen(DefaultAddress, folder))(t)
	s.patience = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	for i := range 3 * maxConnections {
		c := need.Value(net.Dial("tcp", s.listener.Addr().String()))(t)
		t.Cleanup(func() { c.Close() })
		if i%24 != 1 {
			continue
		}
		for range 20 {
			_, err := fmt.Fprint(c, "GET /metrics.jsonl?name=run HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err)
		}
	}
	r := need.Value(http.Get(s.URL()))(t)
	r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.LessOrEqual(t, s.listener.(interface{ NumOpen() int }).NumOpen(), maxConnections)
}

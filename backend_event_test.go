package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Devices without events say so; events of other devices can be recorded, waited for and reached.
func TestEvent(t *testing.T) {
	for _, d := range append(allDevices(t), remote(t, optest.StartRPCServer(t))) {
		e, err := d.NewEvent()
		if !d.Properties().Events {
			require.ErrorContains(t, err, "ggml: device "+d.Name()+" has no events; use Synchronize of its backends")
			continue
		}
		require.NoError(t, err)
		b := need.Value(d.NewBackend())(t)
		require.NoError(t, e.Synchronize(), "never recorded")
		require.NoError(t, e.Wait(b), "never recorded")
		require.NoError(t, e.Record(b))
		require.NoError(t, e.Wait(b))
		require.NoError(t, e.Synchronize())
		require.ErrorContains(t, e.Record(optest.NewCPUBackend(t, 1)), "use a backend of this device")
		e.Close()
		require.ErrorIs(t, e.Record(b), ggml.ErrClosed)
		b.Close()
	}
}

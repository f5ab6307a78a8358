package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An interrupted program that does not end reports once whom it waits for, or that this machine is busy.
func TestReportInterrupted(t *testing.T) {
	server := wait{"RPC server a:1", 2 * time.Second, 58 * time.Second, time.Minute}
	short := wait{"RPC server a:1", time.Second, 59 * time.Second, time.Minute}
	for want, list := range map[string][]wait{
		"interrupted: RPC server a:1 has not answered for 2s; waiting at most 58s more; a second interrupt ends the program at once\n": {server},
		"interrupted: this machine is still computing or saving; the program ends after that, or at once with a second interrupt\n":    nil,
	} {
		var told strings.Builder
		looks := 0
		reportInterrupted(&told, func() []wait {
			if looks++; looks <= ticksAtHome { // a server that answers in time is not reported, and starts no other report
				return []wait{short}
			}
			return list
		}, time.Millisecond)
		require.Equal(t, want, told.String())
	}
}

package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 steps": Count(0, "step"), "1 step": Count(1, "step"), "12 steps": Count(12, "step"),
		"1 matrix": Count(1, "matrix"), "7 matrices": Count(7, "matrix"),
	} {
		require.Equal(t, want, got)
	}
}

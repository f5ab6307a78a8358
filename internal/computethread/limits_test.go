package computethread

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStackSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"16": 16 << 10, "16k": 16 << 10, " 2 M ": 2 << 20, "1g": 1 << 30, "4096B": 4096,
	} {
		size, ok := parseStackSize(text)
		require.True(t, ok, text)
		require.Equal(t, want, size, text)
	}
	for _, bad := range []string{"", "k", "-1", "16kb", "many", "99999999999999999999"} {
		_, ok := parseStackSize(bad)
		require.False(t, ok, bad)
	}
}

func TestCheckTeam(t *testing.T) {
	t.Setenv("OMP_STACKSIZE", "")
	require.NoError(t, CheckTeam(2), "an empty value counts as none")
	t.Setenv("GOMP_STACKSIZE", "255")
	require.EqualError(t, CheckTeam(2), "GOMP_STACKSIZE is 255, which is too small a stack to compute on: make it at least 256k, or unset it")
	require.NoError(t, CheckTeam(1))
	t.Setenv("OMP_STACKSIZE", "256k")
	require.NoError(t, CheckTeam(2), "it comes before libgomp's own")
}

// With enough room, OpenBLAS starts its usual threads.
func TestLimitBLASThreads(t *testing.T) {
	const variable = "OPENBLAS_NUM_THREADS"
	if old, set := os.LookupEnv(variable); set {
		require.NoError(t, os.Unsetenv(variable))
		defer os.Setenv(variable, old)
	}
	require.NoError(t, CheckAddressSpace())
	restore := LimitBLASThreads()
	_, set := os.LookupEnv(variable)
	require.False(t, set)
	restore()
	t.Setenv(variable, "3")
	LimitBLASThreads()()
	require.Equal(t, "3", os.Getenv(variable))
}

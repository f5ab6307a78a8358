package ggml

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOfLibrary(t *testing.T) {
	require.NoError(t, checkVersion(Version()))
	minimum, err := minimumVersion()
	require.NoError(t, err)
	require.Len(t, versionNumbers(minimum), 3)
	for _, v := range []string{minimum, minimum + "-dev", "0.100.0", "1.0", "10.0.1"} {
		require.NoError(t, checkVersion(v), v)
	}
	for _, v := range []string{"0.9.11", "0.26.99", "0.26.99-dirty", "0", ""} {
		require.ErrorContains(t, checkVersion(v), "the installed ggml is version "+v+", and this program needs "+minimum+" or newer: run scripts/vendor", v)
	}
}

// The message of csrc/check.h, where the preprocessor cannot read the number, names the same minimum.
func TestMinimumInHeaderCheck(t *testing.T) {
	minimum, err := minimumVersion()
	require.NoError(t, err)
	check, err := os.ReadFile("csrc/check.h")
	require.NoError(t, err)
	require.Contains(t, string(check), "install ggml "+minimum+" or newer")
	require.Contains(t, string(check), "ggml is older than "+minimum)
}

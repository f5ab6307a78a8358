package ggml_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/testhook"
)

func TestVersionOfLibrary(t *testing.T) {
	require.NoError(t, testhook.CheckVersion(ggml.Version()))
	minimum, err := testhook.MinimumVersion()
	require.NoError(t, err)
	require.Regexp(t, `^\d+\.\d+\.\d+$`, minimum)
	for _, v := range []string{minimum, minimum + "-dev", "0.100.0", "1.0", "10.0.1"} {
		require.NoError(t, testhook.CheckVersion(v), v)
	}
	for _, v := range []string{"0.9.11", "0.26.99", "0.26.99-dirty", "0", ""} {
		require.ErrorContains(t, testhook.CheckVersion(v), "the installed ggml is version "+v+", and this program needs "+minimum+" or newer: run scripts/vendor", v)
	}
}

// The message of csrc/check.h, where the preprocessor cannot read the number, names the same minimum.
func TestMinimumInHeaderCheck(t *testing.T) {
	minimum, err := testhook.MinimumVersion()
	require.NoError(t, err)
	check, err := os.ReadFile("csrc/check.h")
	require.NoError(t, err)
	require.Contains(t, string(check), "install ggml "+minimum+" or newer")
	require.Contains(t, string(check), "ggml is older than "+minimum)
}

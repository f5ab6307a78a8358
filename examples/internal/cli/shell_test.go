package cli

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellQuote(t *testing.T) {
	for _, s := range []string{"plain-1.0/x.gguf", "", "two words", "it's", "$HOME `id` \\ \"x\"", "line\nbreak", "*", "größer"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(s)).Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("there is no shell")
		}
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
	require.Equal(t, "plain-1.0/x.gguf", ShellQuote("plain-1.0/x.gguf"))
}

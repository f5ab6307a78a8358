package pages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifference(t *testing.T) {
	for _, c := range []struct {
		have, want string
		line       int
	}{
		{"a\nb\n", "a\nb\n", 0}, {"", "", 0}, {"a\nb\n", "a\nc\n", 2}, {"a\n", "a\nb\n", 2}, {"a\nb\n", "a\n", 2}, {"a", "a\n", 1},
	} {
		line, _, _ := difference(c.have, c.want)
		require.Equal(t, c.line, line, "%q %q", c.have, c.want)
	}
	_, have, want := difference("a\nb\nd", "a\nc\nd")
	require.Equal(t, []string{"b", "c"}, []string{have, want})
}

// Package need takes what a test needs from calls and programs that must not fail.
package need

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Value ends a test if the call failed, else it returns the call's value:
//
//	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
func Value[T any](x T, err error) func(require.TestingT) T {
	return func(t require.TestingT) T {
		if h, ok := t.(interface{ Helper() }); ok {
			h.Helper()
		}
		require.NoError(t, err)
		return x
	}
}

// Time skips a test or benchmark of the quick tier (go test -short) if it takes seconds, and says why it does.
func Time(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why)
	}
}

// Output runs a program that must succeed, and returns what it writes to stdout and stderr.
func Output(t testing.TB, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

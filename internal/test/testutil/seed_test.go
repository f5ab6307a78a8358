package testutil

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommitSeed(t *testing.T) {
	t.Setenv(seedVariable, "")
	t.Chdir(t.TempDir())
	t.Setenv("GIT_DIR", t.TempDir())
	require.EqualValues(t, 1, CommitSeed(t), "there is no commit")
	t.Setenv(seedVariable, "18446744073709551615")
	require.Equal(t, ^uint64(0), CommitSeed(t))
}

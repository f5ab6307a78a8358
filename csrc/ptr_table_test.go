package csrc

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Tests cannot use cgo, so this one is written in C and built as cgo would.
func TestPtrTable(t *testing.T) {
	env := need.Value(exec.Command("go", "env", "CC").Output())(t)
	compile := append(strings.Fields(string(env)), "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "ptr_table_test", "ptr_table_test.c")
	// Copies of what this package embeds: a result in the cache of "go test" is then one of these sources.
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, Files()))
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	for _, command := range [][]string{compile, {"./ptr_table_test"}} {
		c := exec.Command(command[0], command[1:]...)
		c.Dir = dir
		output, err := c.CombinedOutput()
		require.NoErrorf(t, err, "%v: %s", command, output)
	}
}
